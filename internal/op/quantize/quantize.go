package quantize

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// Tensor is a quantized tensor.
type Tensor struct {
	Shape  []int
	Codes  []uint8   // one a byte
	Scales []float64 // of the blocks, as [Grid] counts them; nil of a cast
	Zeros  []int     // their zero points; nil for 0
	Global float64   // the scale of the scales of NVFP4, 1 for none
}

// GlobalScale is NVFP4's scale of all scales: amax/(448*6), in float32. The NaN of a NaN is the one of all ones that
// PyTorch's maximum makes.
func GlobalScale(x *tensor.Tensor) float64 {
	most := 0.0
	for _, v := range x.Data {
		most = max(most, math.Abs(v))
	}
	if most != most {
		return float64(math.Float32frombits(math.MaxUint32))
	}
	return divide(most, fp16.E4M3.Largest()*fp16.E2M1.Largest())
}

// Quantize returns x in the format, the first way of each formula taken: torchao's. global is the scale
// of the scales of NVFP4, 1 for none. Scales that are given are those of the tensor given, which may be nil otherwise.
func (s *Spec) Quantize(x *tensor.Tensor, global float64, given *Tensor) (*Tensor, error) {
	g, err := s.Grid(x.Shape)
	if err != nil {
		return nil, err
	}
	t := &Tensor{Shape: x.Shape, Codes: make([]uint8, len(x.Data)), Global: global}
	all := s.stats(x.Data, x.Shape, g)
	scales, zeros := make([]float64, len(all)), make([]int, len(all))
	switch ways := s.ScaleWays(); {
	case ways != nil:
		for b := range all {
			scales[b] = ways[0].of(all[b], s.globals(global, 0))
			zeros[b] = s.zero(all[b], scales[b])
		}
		t.Scales, t.Zeros = placed(s, scales, g), placed(s, zeros, g)
	case s.Rule == Given:
		if given == nil || len(given.Scales) != len(all) {
			return nil, fmt.Errorf("scale: want one for each block, of shape %v", g.Shape)
		}
		for b := range all {
			scales[b], zeros[b] = given.scale(s.place(b, g)), given.zero(s.place(b, g))
		}
		t.Scales, t.Zeros = given.Scales, given.Zeros
	}
	by := s.QuotientWays()[0].of
	for i, v := range x.Data {
		b := s.blockOf(g, i)
		t.Codes[i] = s.element(by(v, scales[b], s.globals(global, 1), all[b]), zeros[b])
	}
	return t, nil
}

// globals is the global scale as often as it is applied.
func (s *Spec) globals(g float64, to int) float64 {
	switch s.Globals[to] {
	case -1:
		return 1
	case 1:
		return times(g, g)
	}
	return g
}

// blockOf is the block whose scale a number has.
func (s *Spec) blockOf(g *Grid, i int) int {
	b := int(g.Of[i])
	if n := g.Scales(); s.Neighbour {
		b = (b + n - 1) % n
	}
	return b
}

func (t *Tensor) scale(b int) float64 {
	if t.Scales == nil {
		return 1
	}
	return t.Scales[b]
}

func (t *Tensor) zero(b int) int {
	if t.Zeros == nil {
		return 0
	}
	return t.Zeros[b]
}

// place is where the scale of block b is stored.
func (s *Spec) place(b int, g *Grid) int {
	n := g.Scales()
	columns := 1
	if len(g.Shape) > 0 {
		columns = max(g.Shape[len(g.Shape)-1], 1)
	}
	rows := n / columns
	r, c := b/columns, b%columns
	switch s.Layout {
	case Transposed:
		return c*rows + r
	case Shifted:
		return (b + n - 1) % n
	case Swizzled: // a tile of 128 x 4 is 32 x 16, its rows 32 apart side by side
		tile := r/128*(columns/4) + c/4
		return tile*512 + r%32*16 + r%128/32*4 + c%4
	}
	return b
}

// placed returns what belongs to blocks where it is stored.
func placed[T any](s *Spec, of []T, g *Grid) []T {
	if s.Layout == Plain {
		return of
	}
	to := make([]T, len(of))
	for b, v := range of {
		to[s.place(b, g)] = v
	}
	return to
}

// Dequantize returns the numbers that a tensor stands for, each product rounded once to the format.
func (s *Spec) Dequantize(t *Tensor, to fp16.Format) (*tensor.Tensor, error) {
	g, err := s.Grid(t.Shape)
	if err != nil {
		return nil, err
	}
	y := tensor.New(to, t.Shape...)
	for i := range y.Data {
		v, scale := s.operands(t, g, i)
		y.Data[i] = to.Round(exactProduct(v, scale, s.globals(t.Global, 1)))
	}
	return y, nil
}

// operands are a number before its scale, and that.
func (s *Spec) operands(t *Tensor, g *Grid, i int) (v, scale float64) {
	b := s.blockOf(g, i)
	v = s.written().Decode(t.Codes[i])
	at := s.place(b, g)
	return v - float64(s.shift(t.zero(at))), t.scale(at)
}

// exactProduct is the product of a number of at most 9 bits with one of float32 and, of NVFP4, whose scales have 4,
// of another: 37 bits at most.
func exactProduct(v, scale, global float64) float64 { return v * scale * global }
