package noisestat

import (
	"fmt"

	"github.com/refrun/refrun/oracle/internal/measure"
)

// areaSums are squares over a part of the image.
type areaSums struct{ square, pixels, self float64 }

// tileMax is the tile of 8x8 pixels that holds the largest squares.
type tileMax struct {
	z           float64
	step, m     int
	y, x        int
	tilesTested float64
}

// areas adds the squares of sample i to its rows, columns and border, and looks
// for the tile that has most.
func (n *noiseTests) areas(f *Field, st *UnseenStep, i int, low float64) {
	const side = 8
	s := &f.Sums[i]
	level := s.Level(f.K) // of the whole sample
	if !(level > low/2) {
		return // there is no noise, and roundings have a shape of their own
	}
	self := s.self / s.pixels
	tiles := make([]areaSums, ((f.h+side-1)/side)*((f.w+side-1)/side))
	across := (f.w + side - 1) / side
	for p := range f.h * f.w {
		at := i*f.h*f.w + p
		if !f.ok[at] {
			continue
		}
		z := f.Z[at*f.K : (at+1)*f.K]
		q := measure.Dot(z, z)
		y, x := p/f.w, p%f.w
		where := f.h + f.w
		if !border(p, f.h, f.w) {
			where++
		}
		for _, a := range []*areaSums{&n.rows[y], &n.rows[f.h+x], &n.rows[where], &tiles[y/side*across+x/side]} {
			a.square += q / level
			a.pixels++
			a.self += self
		}
	}
	for j := range tiles {
		n.tile.tilesTested++
		if z := tiles[j].z(f.K, n.m.excess()); z > n.tile.z {
			n.tile.z, n.tile.step, n.tile.m, n.tile.y, n.tile.x = z, st.Step, st.Lo+i, j/across*side, j%across*side
		}
	}
}

// z returns how far the sum of squares is from its expectation, in standard
// deviations: |z|^2 of a pixel has mean k and variance 2k + kappa sum |v|^4.
func (a *areaSums) z(k int, kappa float64) float64 {
	mean := float64(k) * a.pixels
	dof := 2 * mean * mean / (2*mean + float64(kappa*a.self))
	return chiZ(a.square*measure.Ratio(dof, mean), dof)
}

func (n *noiseTests) areaName(i int) string {
	s := n.e.States
	switch {
	case i < s.H:
		return fmt.Sprintf("row %d", i)
	case i < s.H+s.W:
		return fmt.Sprintf("column %d", i-s.H)
	case i == s.H+s.W:
		return "the border"
	}
	return "the interior"
}
