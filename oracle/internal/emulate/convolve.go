package emulate

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

type operands struct {
	format fp16.Format
	tf32   fp16.Rounding
	noBias bool
	flat   bool
}

// Wide is Conv in any order, much faster: see conv.Wide.
func Wide(src *tensor.Tensor, k *conv.Kernel, g conv.Params) *tensor.Tensor {
	y := result(src, k, g)
	conv.Wide(y, src, k, g)
	return y
}

func result(src *tensor.Tensor, k *conv.Kernel, g conv.Params) *tensor.Tensor {
	oc, kh, kw := k.Shape()
	oh, ow := g.OutSize(src.H(), src.W(), kh, kw)
	return tensor.New(fp16.Float64, src.N(), oc, oh, ow)
}

// kernel returns the operands that node i makes of its weights.
func (m *Machine) kernel(mode graph.Mode, i int, o operands) *conv.Kernel {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.IndexFunc(m.kernels, func(k *kernels) bool { return k.operands == o })
	if at < 0 {
		if len(m.kernels) == mostKernels {
			m.kernels = slices.Delete(m.kernels, 0, 1)
		}
		at = len(m.kernels)
		m.kernels = append(m.kernels, &kernels{o, map[int]*conv.Kernel{}})
	}
	all := m.kernels[at]
	m.kernels = append(slices.Delete(m.kernels, at, at+1), all)
	k := all.of[i]
	if k == nil {
		n := m.Nodes[i]
		if o.noBias {
			n.Bias = nil
		}
		weights := n.Weight.Data
		if o.flat {
			weights = Flush(Operand(mode, tensor.Of(fp16.Float64, weights, 1, 1, 1, len(weights)), o.format)).Data
		}
		k = NewKernel(mode, &n, weights)
		all.of[i] = k
	}
	return k
}

// NewKernel returns the operands of a convolution node with those weights,
// which may be others than its own, rounded as a mode does it.
func NewKernel(mode graph.Mode, n *operator.Node, weights []float64) *conv.Kernel {
	f, _, err := n.Formats(mode, fp16.Float32)
	if err != nil {
		panic("emulate: " + err.Error()) // no rule refuses a convolution
	}
	s := n.Weight.Shape
	w := Operand(mode, tensor.Of(fp16.Float64, weights, s[0], s[1], s[2], s[3]), f)
	var bias []float64
	if n.Bias != nil {
		bias = n.Bias.Data
		if f.Half() {
			bias = make([]float64, len(bias))
			f.RoundSlice(bias, n.Bias.Data)
		}
	}
	return conv.NewKernel(w, bias)
}

// Operand returns x rounded to operands of format f, as float64 numbers: x
// itself where that changes nothing.
func Operand(mode graph.Mode, x *tensor.Tensor, f fp16.Format) *tensor.Tensor {
	if !rounds(f) {
		return x
	}
	y := tensor.Like(x)
	operand(mode, y, x, f)
	return y
}

// rounds reports whether operands of a format are rounded numbers.
func rounds(f fp16.Format) bool { return f != fp16.Float64 && f != fp16.Float32 }

func operand(mode graph.Mode, y, x *tensor.Tensor, f fp16.Format) {
	if f == fp16.TF32 && mode.TF32 != fp16.NearestEven {
		for i, v := range x.Data {
			y.Data[i] = fp16.RoundTF32(fp16.Float32.Round(v), mode.TF32)
		}
		return
	}
	pieces(len(x.Data), func(lo, hi int) { rows.RoundSlice(f, y.Data[lo:hi], x.Data[lo:hi]) })
}

// wide returns x as a tensor of Float64 that shares its numbers.
func wide(x *tensor.Tensor) *tensor.Tensor {
	return tensor.Of(fp16.Float64, x.Data, x.Shape...)
}

func holds(f fp16.Format, x []float64) bool {
	for _, v := range x {
		if !f.Holds(v) {
			return false
		}
	}
	return true
}
