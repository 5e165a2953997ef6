package layers

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// units are the matrix units that devices multiply operands of a format with, one for each
// rule: their results are float32 numbers. None for wider formats.
func units(f fp16.Format) (all []*tensorcore.Unit) {
	in := map[fp16.Format]tensorcore.Input{
		fp16.Float16: tensorcore.FP16, fp16.BFloat16: tensorcore.BF16, fp16.TF32: tensorcore.TF32,
	}
	for _, name := range []string{"v100", "a100", "h100", "mi200", "mi300"} {
		m, err := tensorcore.Lookup(name)
		if err != nil {
			panic("oracle: " + err.Error())
		}
		of, ok := in[f]
		if !ok {
			break
		}
		if u, err := m.Unit(of, fp16.Float32); err == nil { // it has such a unit
			all = append(all, u)
		}
	}
	return all
}

// window gathers the operands of one number of a convolution: of output channel o of a
// sample, at (oy,ox). a and b are over channels and the kernel's taps, the taps innermost.
func window(a, b []float64, x, w *tensor.Tensor, p conv.Params, sample, o, oy, ox int) ([]float64, []float64) {
	stride := max(1, p.Stride[0])
	for c := range w.C() {
		plane, taps := x.Plane(sample, c), w.Plane(o, c)
		for i := range w.H() {
			for j := range w.W() {
				y, yes := inside(oy*stride+i-p.Pad[0], x.H(), p.Padding)
				z, too := inside(ox*stride+j-p.Pad[1], x.W(), p.Padding)
				v := 0.0
				if yes && too {
					v = plane[y*x.W()+z]
				}
				a, b = append(a, v), append(b, taps[i*w.W()+j])
			}
		}
	}
	return a, b
}

// inside returns the pixel of n that stands at i, which may be in the padding; false if a
// zero does.
func inside(i, n int, p conv.Padding) (int, bool) {
	if p == conv.Zeros && (i < 0 || i >= n) {
		return 0, false
	}
	return p.Source(i, n), true
}
