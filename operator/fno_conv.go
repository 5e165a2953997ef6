package operator

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// spectralConv is neuraloperator's SpectralConv of images, dense and of full precision: of
// the spectrum, rfft2 with norm forward, rows in the order of their frequencies, it keeps
// modes[0] rows around frequency 0 and the first modes[1]/2+1 columns, multiplies the channels
// of each frequency with a complex matrix of its own, goes back, and adds a bias.
//
// A number of the product is one real function: the sum over the channels of products of
// real and imaginary parts, in one Einsum.
type spectralConv struct {
	name     string
	channels int
	modes    [2]int // rows, columns
	weight   *Param // [in,out,rows,columns,2]
	bias     *Param // [out,1,1]
}

func newSpectralConv(name string, channels int, modes [2]int) *spectralConv {
	s := &spectralConv{name: name, channels: channels, modes: [2]int{modes[0], modes[1]/2 + 1}}
	s.weight = newLargeParam(join(name, "weight.tensor"), channels, channels, s.modes[0], s.modes[1], 2)
	s.weight.complex = true
	s.bias = newParam(join(name, "bias"), channels, 1, 1)
	return s
}

func (s *spectralConv) layers(visit func(layer))     { visit(s) }
func (s *spectralConv) params() []*Param             { return []*Param{s.bias, s.weight} }
func (s *spectralConv) prepare() error               { return nil }
func (s *spectralConv) initialise(g *noise.TorchCPU) {} // see Init

// build maps x [N,C,H,W] to the same shape.
func (s *spectralConv) build(b *builder, x int) int {
	at := func(part string) string { return join(s.name, part) }
	half, rows, columns := b.w/2+1, min(s.modes[0], b.h), min(s.modes[1], b.w/2+1)
	first := b.h/2 - rows/2
	x = b.Add(graph.FFT{Kind: "rfft", Axes: graph.Ints{2, 3}, Norm: "forward"}, at("rfft2"), x)
	shift := graph.Roll{Shifts: graph.Ints{b.h / 2}, Axes: graph.Ints{2}} // fftshift, which neuraloperator takes both ways
	x = b.Add(shift, at("fftshift"), x)
	x = b.Add(graph.Slice{Axes: graph.Ints{2, 3}, Start: graph.Ints{first, 0}, End: graph.Ints{first + rows, columns}},
		at("modes"), x)
	w := b.Constant(s.weight.Name, s.matrices(rows, columns))
	b.params[w] = s.weight
	x = b.Add(graph.Einsum{Equation: "bihwc,hwicod->bohwd"}, at("contract"), x, w)
	x = b.Add(graph.Pad{
		Before: graph.Ints{first, 0, 0}, After: graph.Ints{b.h - first - rows, half - columns, 0}, Mode: "constant",
	}, at("out_fft"), x)
	x = b.Add(shift, at("unshift"), x)
	x = b.Add(graph.FFT{Kind: "irfft", Axes: graph.Ints{2, 3}, Sizes: graph.Ints{b.h, b.w}, Norm: "forward"},
		at("irfft2"), x)
	return b.Add(graph.Addition, s.name, b.param([]int{x}, s.bias)...)
}

// matrices returns the complex weights of so many rows and columns as matrices of 2 x 2 real
// numbers, by which real and imaginary parts become such, in the order in which they are
// multiplied: [rows,columns,in,2,out,2]. Fewer rows are those around the middle one.
func (s *spectralConv) matrices(rows, columns int) *tensor.Tensor {
	n := s.channels
	m := tensor.New(fp16.Float32, rows, columns, n, 2, n, 2)
	skip := (s.modes[0] - rows) / 2
	for k := range rows * columns * n * n {
		out, in, column, row := k%n, k/n%n, k/n/n%columns, k/n/n/columns
		at := 2 * (((in*n+out)*s.modes[0]+skip+row)*s.modes[1] + column)
		re, im := s.weight.Data[at], s.weight.Data[at+1]
		to := 4*(k-out) + 2*out
		m.Data[to], m.Data[to+1] = re, im
		m.Data[to+2*n], m.Data[to+2*n+1] = -im, re
	}
	return m
}
