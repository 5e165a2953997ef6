package emulate

import (
	"slices"

	"github.com/refrun/refrun/noise"
)

// Draws are the numbers of one step's noise, kept, so that the step can be
// taken again and again. The numbers may be changed; they are the draws before
// scaling, in the order in which the noise block takes them.
type Draws struct {
	Kinds []noise.Kind
	Data  [][]float64
	from  noise.Draws
	next  int
}

// Keep returns draws that take their numbers from d the first time, and give
// the same ones after each Rewind; nil for nil.
func Keep(d noise.Draws) *Draws {
	if d == nil {
		return nil
	}
	return &Draws{from: d}
}

// Rewind begins again and returns d as noise.Draws; nil for nil.
func (d *Draws) Rewind() noise.Draws {
	if d == nil {
		return nil
	}
	d.next = 0
	return d
}

// Draw implements noise.Draws. It panics if a step takes other draws than the
// one before.
func (d *Draws) Draw(kind noise.Kind, p float64, shape []int, dst []float64) error {
	if d.next == len(d.Data) {
		data := make([]float64, len(dst))
		if err := d.from.Draw(kind, p, shape, data); err != nil {
			return err
		}
		d.Kinds, d.Data = append(d.Kinds, kind), append(d.Data, data)
	}
	if d.Kinds[d.next] != kind || len(d.Data[d.next]) != len(dst) {
		panic("emulate: a step takes other draws than the one before")
	}
	copy(dst, d.Data[d.next])
	d.next++
	return nil
}

// Clone returns draws of the same numbers. Others may take the place of Kinds and Data, and of
// each of them; the numbers themselves are d's.
func (d *Draws) Clone() *Draws {
	c := *d
	c.next, c.Kinds, c.Data = 0, slices.Clone(d.Kinds), slices.Clone(d.Data)
	return &c
}
