package conv

import (
	"math"
	"math/bits"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// nowhere is memory that nobody needs soon.
var nowhere float32

// Wide is Forward into a Float64 tensor for those who need the sums to some
// digits fewer than float64 has, and often: 3x3 kernels are convolved by
// Winograd's method where that pays, which is two to three times faster. An
// output's error is then some 10^-14 of ||weights|| ||window|| at most. Sums that
// are exact in Forward because they are of few bits stay exact; a source that is
// not finite is Forward's.
func Wide(dst, src *tensor.Tensor, k *Kernel, p Params) {
	require(k, dst, src)
	form := asm.WinogradForm(3)
	w := form.Kernels()
	if w == nil || w.WideInput == nil || !k.wide() || dst.Format != fp16.Float64 || src.C() != k.ic ||
		p != Square(1, 1, p.Padding) && p != Square(0, 1, p.Padding) || !allFinite(src.Data) {
		Forward(dst, src, k, p)
		return
	}
	if dst.N() != src.N() || dst.C() != k.oc || dst.H() != src.H() || dst.W() != src.W() {
		panic("conv: destination size does not fit source, kernel, stride and padding")
	}
	asm.Ran("winograd 4x4,3x3 float64 " + asm.ISA())
	g := wides.Get().(*wide)
	defer wides.Put(g)
	g.Winograd, g.k, g.weights, g.dst, g.src = w, k, k.wideWeights(form, w.Outputs), dst, src
	g.cols, g.rows = paddedAxis(src.W(), 3, dst.W(), &p, 1).at, paddedAxis(src.H(), 3, dst.H(), &p, 0).at
	g.run()
	g.k, g.weights, g.dst, g.src = nil, nil, nil, nil
}

// wideLeast are the fewest input and output channels for which Wide transforms.
const wideLeast = 16

// wide reports whether Wide may convolve with the kernel.
func (k *Kernel) wide() bool {
	return k.kh == 3 && k.kw == 3 && min(k.ic, k.oc) >= wideLeast && !k.transposed && k.finite && k.finiteBias &&
		float64(k.ic)*float64(k.oc)*36*8 <= mostPanels && !k.fewBits()
}

// fewBits reports whether the weights are small multiples of one number, such as
// integers: sums of such products may be exact, and meant to be.
func (k *Kernel) fewBits() bool {
	const few = 12
	least, most := math.MaxInt, math.MinInt
	for _, w := range k.packed {
		if w == 0 {
			continue
		}
		frac, exp := math.Frexp(math.Abs(w))
		least = min(least, exp-53+bits.TrailingZeros64(uint64(math.Ldexp(frac, 53))))
		most = max(most, exp)
		if most-least > few {
			return false
		}
	}
	return true
}

// wideWeights are transformed weights, and the bias filled up with zeros.
type wideWeights struct {
	panels []float64 // U [outputs/Outputs][36][blocks*8][Outputs]
	size   int       // of one panel
	bias   []float64
}

// wideWeights returns U = G g G^T in float64 for kernels of that many outputs, made
// at its first use.
func (k *Kernel) wideWeights(f *asm.Form, outputs int) *wideWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.wides[outputs]; w != nil {
		return w
	}
	panels := (k.oc + outputs - 1) / outputs
	w := &wideWeights{size: (k.ic + block - 1) / block * block * outputs, bias: make([]float64, panels*outputs)}
	copy(w.bias, k.bias)
	w.panels = asm.Aligned[float64](panels * 36 * w.size)
	var g [6][3]float64
	for p, d := range denominators(f) {
		for i := range g[p] {
			g[p][i] = power(f, p, i) / d
		}
	}
	par.For(k.oc, func(o int) {
		for c := range k.ic {
			var half [6][3]float64 // of columns
			for p := range half {
				for i, v := range g[p] {
					at := k.at(o, (c*3+i)*3)
					for j := range half[p] {
						half[p][j] += float64(v * k.packed[at+2*j])
					}
				}
			}
			to := w.panels[o/outputs*36*w.size+c*outputs+o%outputs:]
			for p := range 36 {
				var u float64
				for j, v := range g[p%6] {
					u += float64(v * half[p/6][j])
				}
				to[p*w.size] = u
			}
		}
	})
	if k.wides == nil {
		k.wides = map[int]*wideWeights{}
	}
	k.wides[outputs] = w
	return w
}

func allFinite(x []float64) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// wide is a convolution of float64 images, a sample at a time.
type wide struct {
	*asm.Winograd
	k          *Kernel
	weights    *wideWeights
	dst, src   *tensor.Tensor
	rows, cols []int

	n                     int // the sample
	th, tw                int // tiles of it
	in, out               []float64
	line, plane           int // of in: numbers from a line and a block to the next
	outLine, outPlane     int
	blocks, panels, group int
	vPoint, mPoint        int
	memory                [2][]float64
	space                 Space
}

var wides = sync.Pool{New: func() any { return new(wide) }}

// run convolves all samples.
func (g *wide) run() {
	d := g.dst
	g.th, g.tw = (d.H()+3)/4, (d.W()+3)/4
	g.blocks, g.panels = (g.k.ic+block-1)/block, (g.k.oc+g.Outputs-1)/g.Outputs
	outs := g.panels * g.Outputs / block
	// Planes an odd number of cache lines apart.
	g.line, g.outLine = (4*g.tw+2)*block, 4*g.tw*block
	g.plane, g.outPlane = odd(g.line*(4*g.th+2)), odd(g.outLine*4*g.th)
	g.in = aligned(&g.memory[0], g.plane*g.blocks)
	g.out = aligned(&g.memory[1], g.outPlane*outs)

	tiles := g.th * g.tw
	groups := (tiles + g.Tiles - 1) / g.Tiles
	g.group = max(1, min(bytesV[few(g.Winograd)]/(36*8*g.Tiles*g.blocks*block), (groups-1)/par.Workers()+1))
	g.vPoint = odd(g.group * g.blocks * g.Tiles * block)
	g.mPoint = odd(g.group * g.Tiles * g.Outputs)
	unit := g.group * g.Tiles
	for g.n = range d.N() {
		par.For(g.blocks*(4*g.th+2), g.pack)
		g.space.each((tiles+unit-1)/unit, func(worker, i int) {
			g.unit(g.space.workers[worker], i*unit, min((i+1)*unit, tiles))
		})
		par.For((d.C()+block-1)/block*d.H(), g.unpack)
	}
}

// pack makes a line of a block of channels, padding included.
func (g *wide) pack(i int) {
	height := 4*g.th + 2
	b, y := i/height, i%height
	line := g.in[b*g.plane+y*g.line:][:g.line]
	if y >= len(g.rows) || g.rows[y] < 0 {
		clear(line)
		return
	}
	clear(line[len(g.cols)*block:])
	for c := range block {
		if b*block+c >= g.src.C() {
			for x := range g.cols {
				line[x*block+c] = 0
			}
			continue
		}
		in := g.src.Plane(g.n, b*block+c)[g.rows[y]*g.src.W():][:g.src.W()]
		for x, v := range in {
			line[(x+1)*block+c] = v
		}
		for _, x := range [2]int{0, len(g.cols) - 1} {
			v := 0.0
			if at := g.cols[x]; at >= 0 {
				v = in[at]
			}
			line[x*block+c] = v
		}
	}
}

// unit makes the outputs of tiles [lo,hi).
func (g *wide) unit(s *worker, lo, hi int) {
	s.v = aligned(&s.memory[0], 36*g.vPoint)
	s.m = aligned(&s.memory[1], 36*g.mPoint)
	s.t = aligned(&s.memory[2], 36*block)
	for t := lo; t < hi; t++ {
		at := t - lo
		src := &g.in[t/g.tw*4*g.line+t%g.tw*4*block]
		g.WideInput(src, g.line*8, g.plane*8, &s.v[(at/g.Tiles*g.blocks*g.Tiles+at%g.Tiles)*block], g.vPoint*8,
			g.blocks, &s.t[0])
	}
	n := (hi - lo + g.Tiles - 1) / g.Tiles
	for o := range g.panels {
		for p := range 36 {
			at := o*36 + p
			g.Multiply(&s.v[p*g.vPoint], &g.weights.panels[at*g.weights.size], &s.m[p*g.mPoint], g.blocks, g.blocks, n,
				&g.weights.panels[(at+1)%(g.panels*36)*g.weights.size], &nowhere)
		}
		for c := 0; c < g.Outputs && o*g.Outputs+c < g.k.oc; c += block {
			b := (o*g.Outputs + c) / block
			bias := &g.weights.bias[b*block]
			for t := lo; t < hi; t++ {
				g.WideOutput(&s.m[(t-lo)*g.Outputs+c], g.mPoint*8, bias,
					&g.out[b*g.outPlane+t/g.tw*4*g.outLine+t%g.tw*4*block], g.outLine*8, &s.t[0])
			}
		}
	}
}

// unpack makes a line of 8 channels of the result.
func (g *wide) unpack(i int) {
	d := g.dst
	b, y := i/d.H(), i%d.H()
	line := g.out[b*g.outPlane+y*g.outLine:][:d.W()*block]
	for c := range min(block, d.C()-b*block) {
		out := d.Plane(g.n, b*block+c)[y*d.W():][:d.W()]
		for x := range out {
			out[x] = line[x*block+c]
		}
	}
}
