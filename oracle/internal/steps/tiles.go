package steps

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
)

// inTiles reports whether correct devices form sums in tiles: libraries do for float32 and
// kernels of 3x3 on, where the stride is 1.
func (g *stepGate) inTiles() bool {
	return g.use.Mode.Precision == fp16.Float32 && slices.ContainsFunc(g.e.Machine.Nodes, func(n operator.Node) bool {
		return n.Op == operator.OpConv && emulate.InTiles(&n)
	})
}

// A number's tile may have a large input up to 4 pixels from it: F(4x4) has 4x4 outputs of 6x6
// inputs. In sums that are formed one by one, 3x3 numbers have the error of such an input. So
// it is means of 5x5 numbers that say what a tile's errors are, the largest of those around: a
// mean of all would have that error in it a ninth, and each number by itself says little.
const (
	meanReach = 2 // of a mean from its middle
	tileReach = 3 // of means around a number
)

// blur gives each number of planes the largest mean around it, of those that are none of NaN.
func blur(v []float64, w, h int) {
	live := make([]float64, len(v))
	for i, x := range v {
		if live[i] = 1; x != x {
			v[i], live[i] = 0, 0
		}
	}
	sum := func(of []float64) (sum float64) {
		for _, x := range of {
			sum += x
		}
		return sum
	}
	separate(v, w, h, meanReach, sum)
	separate(live, w, h, meanReach, sum)
	for i, n := range live {
		v[i] /= max(n, 1)
	}
	separate(v, w, h, tileReach, slices.Max)
}

// separate gives each number of planes what f makes of those within reach, by rows, then by
// columns.
func separate(v []float64, w, h, reach int, f func(of []float64) float64) {
	line := make([]float64, max(w, h))
	along := func(first, stride, n int) {
		for i := range n {
			line[i] = v[first+i*stride]
		}
		for i := range n {
			v[first+i*stride] = f(line[max(0, i-reach):min(n, i+reach+1)])
		}
	}
	for plane := 0; plane < len(v); plane += w * h {
		for y := range h {
			along(plane+y*w, 1, w)
		}
		for x := range w {
			along(plane+x, w, h)
		}
	}
}

// leastOfPlace is how many numbers must show the errors of a place within tiles. Of no more than fewOfPlace, two wrong
// numbers would be each other's excuse: there the sixteenth of them that is the farthest off is left out, which shows
// less of errors that right tiles have, and nothing of a few that are wrong.
const (
	leastOfPlace = 32
	fewOfPlace   = 256
)

// levels returns the level of the errors v at each number's place within tiles of 2, 4 and 6
// pixels, over what is expected: a tile's outputs are combined of its products with different
// factors, and by F(4x4) with points 0, 1, -1, 2, -2 those in a corner have 2.9 times the
// errors of all. The number itself is left out, and places that too few numbers share.
func levels(v, squares []float64, w, h int) func(i int) float64 {
	type sums struct{ n, total, few float64 }
	tiles := map[int][]sums{2: nil, 4: nil, 6: nil}
	place := func(i, n int) int { return i/w%h%n*n + i%w%n }
	share := func(i int) float64 { return v[i] * v[i] / max(1, squares[i]) }
	for n := range tiles {
		all := make([][]float64, n*n)
		for i := range v {
			if q := share(i); q == q {
				all[place(i, n)] = append(all[place(i, n)], q)
			}
		}
		for _, q := range all {
			slices.Sort(q)
			s, near := sums{n: float64(len(q))}, len(q)*15/16
			for k, x := range q {
				if s.total += x; k < near {
					s.few += x / float64(near)
				}
			}
			tiles[n] = append(tiles[n], s)
		}
	}
	return func(i int) float64 {
		level := 0.0
		for n, of := range tiles {
			switch s := of[place(i, n)]; {
			case s.n > fewOfPlace:
				level = max(level, math.Sqrt((s.total-share(i))/(s.n-1)))
			case s.n >= leastOfPlace:
				level = max(level, math.Sqrt(s.few))
			}
		}
		return level
	}
}
