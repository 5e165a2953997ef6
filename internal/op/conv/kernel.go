package conv

import (
	"math"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/whole"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Kernel is a weight and a bias, prepared once for any number of calls. It
// copies what it needs and may be used by many goroutines.
type Kernel struct {
	oc, ic, kh, kw int
	transposed     bool
	groups         []*Kernel // of a convolution in groups, which has nothing else; nil for one group

	// Weights in the order the inner loop reads them: pairs of output
	// channels (the last one filled up with zeros), each [ic][kh][kw][2].
	packed []float64
	bias   []float64 // one per output channel, zeros if there is none

	finite     bool // no weight is infinite or NaN
	finiteBias bool // no bias is either
	float32    bool // weights and biases are numbers of the Float32 grid

	// What the guard needs, see bound.go; only if float32.
	scale []float64 // t_c per input channel, a power of two
	norm  []float64 // ||w/t|| per output channel

	mu          sync.Mutex
	transformed map[int]*winogradWeights // by the outputs of a panel
	byPixel     map[int]*pixelWeights    // the same
	inBlocks    map[int]*directWeights   // by the outputs of a block
	wides       map[int]*wideWeights     // by the outputs of a panel
	singles     map[int]*fastWeights     // the same
	tapped      map[int]*fastTapsWeights // the same
	byChannel   *channelWeights          // of groups of one channel

	asWhole  *whole.Lines // the weights of each output, nil if they are other numbers
	lookedAt bool         // for asWhole

	fast bool // for fast arithmetic
}

// NewKernel prepares the weight [OC,IC,KH,KW] of a convolution (the tensor's
// N, C, H, W) and its bias, which is nil or of length OC.
func NewKernel(weight *tensor.Tensor, bias []float64) *Kernel {
	tensor.Require("conv", 4, weight)
	k := &Kernel{oc: weight.N(), ic: weight.C(), kh: weight.H(), kw: weight.W()}
	hw := k.kh * k.kw
	k.prepare(bias, func(o, c, i int) float64 { return weight.Data[(o*k.ic+c)*hw+i] })
	return k
}

// NewTransposedKernel prepares the weight [IC,OC,KH,KW] of a transposed
// convolution and its bias, which is nil or of length OC.
func NewTransposedKernel(weight *tensor.Tensor, bias []float64) *Kernel {
	tensor.Require("conv", 4, weight)
	k := &Kernel{oc: weight.C(), ic: weight.N(), kh: weight.H(), kw: weight.W(), transposed: true}
	hw := k.kh * k.kw
	k.prepare(bias, func(o, c, i int) float64 { return weight.Data[(c*k.oc+o)*hw+hw-1-i] })
	return k
}

// NewGroupedKernel prepares the weight [OC,IC/groups,KH,KW] of a convolution in groups
// of channels, each group of outputs of its own group of inputs. It panics if groups do
// not divide OC.
func NewGroupedKernel(weight *tensor.Tensor, bias []float64, groups int) *Kernel {
	tensor.Require("conv", 4, weight)
	return grouped(weight, bias, groups, weight.N(), NewKernel)
}

// NewGroupedTransposedKernel prepares the weight [IC,OC/groups,KH,KW] of a transposed
// convolution in groups of channels. It panics if groups do not divide IC.
func NewGroupedTransposedKernel(weight *tensor.Tensor, bias []float64, groups int) *Kernel {
	tensor.Require("conv", 4, weight)
	return grouped(weight, bias, groups, weight.C()*groups, NewTransposedKernel)
}

// grouped prepares the weights of each group, equal parts of the first dimension.
func grouped(
	weight *tensor.Tensor, bias []float64, groups, outputs int, prepare func(*tensor.Tensor, []float64) *Kernel,
) *Kernel {
	switch {
	case groups < 1 || weight.N()%groups != 0:
		panic("conv: groups do not divide the channels")
	case groups == 1:
		return prepare(weight, bias)
	case bias != nil && len(bias) != outputs:
		panic("conv: bias length is not the number of output channels")
	}
	each, out := weight.N()/groups, outputs/groups
	k := new(Kernel)
	for g := range groups {
		var b []float64
		if bias != nil {
			b = bias[g*out : (g+1)*out]
		}
		k.groups = append(k.groups, prepare(weight.Samples(g*each, (g+1)*each), b))
	}
	first := k.groups[0]
	k.float32 = true
	for _, g := range k.groups {
		k.float32 = k.float32 && g.float32
	}
	k.oc, k.ic, k.kh, k.kw, k.transposed = outputs, first.ic*groups, first.kh, first.kw, first.transposed
	return k
}

// applyGroups convolves group by group: a sample's channels of a group are an image.
func applyGroups(dst, src *tensor.Tensor, k *Kernel, rows, cols axis) {
	if src.N() != dst.N() || src.C() != k.ic || dst.C() != k.oc {
		panic("conv: source, kernel and destination differ in samples or channels")
	}
	n := len(k.groups)
	part := func(t *tensor.Tensor, i int) *tensor.Tensor {
		c := t.C() / n
		size := c * t.H() * t.W()
		return tensor.Of(t.Format, t.Data[i*size:(i+1)*size], 1, c, t.H(), t.W())
	}
	par.For(src.N()*n, func(i int) { apply(part(dst, i), part(src, i), k.groups[i%n], rows, cols) })
}

// prepare fills the kernel; weight(o, c, i) is the weight of output channel o
// and input channel c at position i of the kernel, row by row.
func (k *Kernel) prepare(bias []float64, weight func(o, c, i int) float64) {
	taps := k.taps()
	switch {
	case k.oc == 0 || taps == 0:
		panic("conv: empty weight")
	case bias != nil && len(bias) != k.oc:
		panic("conv: bias length is not the number of output channels")
	}
	k.bias = make([]float64, k.oc)
	copy(k.bias, bias)
	k.packed = make([]float64, (k.oc+1)/2*2*taps)
	k.finite, k.finiteBias, k.float32 = true, true, true
	for _, b := range k.bias {
		k.finiteBias = k.finiteBias && b-b == 0
		k.float32 = k.float32 && fp16.Float32.Holds(b)
	}
	hw := k.kh * k.kw
	for o := range k.oc {
		for t := range taps {
			w := weight(o, t/hw, t%hw)
			k.packed[k.at(o, t)] = w
			k.finite = k.finite && w-w == 0
			k.float32 = k.float32 && fp16.Float32.Holds(w)
		}
	}
	if k.float32 {
		k.measure()
	}
}

// measure sets scale and norm.
func (k *Kernel) measure() {
	hw := k.kh * k.kw
	k.scale = make([]float64, k.ic, (k.ic+block-1)/block*block)
	k.norm = make([]float64, k.oc)
	for c := range k.ic {
		var squares, count float64
		for o := range k.oc {
			for t := c * hw; t < (c+1)*hw; t++ {
				if w := k.packed[k.at(o, t)]; w != 0 && w-w == 0 {
					squares += float64(w * w)
					count++
				}
			}
		}
		k.scale[c] = 1
		if count > 0 {
			k.scale[c] = math.Ldexp(1, math.Ilogb(squares/count)/2)
		}
	}
	for o := range k.oc {
		var squares float64
		for t := range k.taps() {
			w := k.packed[k.at(o, t)] / k.scale[t/hw]
			squares += float64(w * w)
		}
		k.norm[o] = math.Sqrt(squares)
	}
}

// blockScale returns scale in blocks of channels, zeros beyond the last.
func (k *Kernel) blockScale() []float64 { return k.scale[:cap(k.scale)] }

// taps returns the number of terms of one output without its bias.
func (k *Kernel) taps() int { return k.ic * k.kh * k.kw }

// at returns where the weight of output channel o and tap t lies in packed.
func (k *Kernel) at(o, t int) int { return (o/2*k.taps()+t)*2 + o%2 }

// Bytes returns the memory that the kernel holds: the weights, once in the
// order of plain Go and once in that of each set of kernels that has used them.
func (k *Kernel) Bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	var parts int64
	for _, g := range k.groups {
		parts += g.Bytes()
	}
	n := 8 * (len(k.packed) + len(k.bias) + len(k.scale) + len(k.norm))
	if k.asWhole != nil {
		parts += k.asWhole.Bytes()
	}
	for _, w := range k.transformed {
		n += 8*(len(w.panels)+len(w.tables)) + 4*len(w.direct)
	}
	for _, w := range k.byPixel {
		n += 8*(len(w.panels)+len(w.tables)) + 4*len(w.direct)
	}
	for _, w := range k.wides {
		n += 8 * (len(w.panels) + len(w.bias))
	}
	for _, w := range k.singles {
		parts += 4 * int64(len(w.panels)+len(w.bias))
	}
	for _, w := range k.tapped {
		parts += 4 * int64(len(w.packed)+len(w.bias))
	}
	if w := k.byChannel; w != nil {
		n += 8 * (len(w.packed) + len(w.tables))
	}
	for _, w := range k.inBlocks {
		n += 8 * (len(w.packed) + len(w.tables))
	}
	return parts + int64(n)
}

// Shape returns the output channels and the size of the kernel.
func (k *Kernel) Shape() (oc, kh, kw int) { return k.oc, k.kh, k.kw }
