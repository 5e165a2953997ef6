package layers

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// TestMatrixUnitsOfSmoothImages: what matrix units make of smooth images and weights of one sign is right, where
// partial sums go far and end near 0, for TF32 operands rounded in each way of devices, and half ones; sums of 14 bits
// are not.
func TestMatrixUnitsOfSmoothImages(t *testing.T) {
	for _, c := range []struct {
		precision fp16.Format
		tf32      fp16.Rounding
	}{
		{fp16.TF32, fp16.NearestEven},
		{fp16.TF32, fp16.NearestAway},
		{fp16.TF32, fp16.TowardZero},
		{fp16.Float16, 0},
		{fp16.BFloat16, 0},
	} {
		for seed := range uint64(2) {
			f := c.precision
			cuda := map[bool]string{true: "cuda"}[f.Half()]
			claim, err := operator.ParseMode(f.String(), cuda)
			if err != nil {
				t.Fatal(err)
			}
			n, x := smooth(seed)
			device := claim
			device.TF32 = c.tf32
			operands := emulate.Operand(device, x, f)
			weights := emulate.Operand(device, tensor.Of(fp16.Float64, n.Weight.Data, n.Weight.Shape...), f)
			g := &layerGate{u: 0x1p-24, mode: claim, m: &emulate.Machine{Nodes: []operator.Node{*n}}}
			all := units(f)
			coarse := *all[len(all)-3]
			coarse.Fraction, coarse.Keep = 13, 13
			for k, u := range append(all, &coarse) {
				y := tensor.New(fp16.Float64, 1, n.Weight.Shape[0], x.H(), x.W())
				for i := range y.Data {
					hw := y.H() * y.W()
					a, b := window(nil, nil, operands, weights, n.Geometry, 0, i/hw, i%hw/y.W(), i%y.W())
					y.Data[i] = u.Dot(rowByRow(a, x.C()), rowByRow(b, x.C()), 0)
				}
				right := false
				for a := range g.convAnswers(0, layerValue{Tensor: x}) {
					right = right || judge(a, y, fp16.Float32).right()
				}
				if right == (u == &coarse) {
					t.Errorf("%v by %v, seed %d, unit %d (%v, blocks of %d): right %v", f, c.tf32, seed, k, u.Kind, u.Terms, right)
				}
			}
		}
	}
}

// smooth is a convolution of weights of one sign, and waves of rows as its input, the same in all channels: where they
// cross 0, the window's upper half has one sign and its lower half the other.
func smooth(seed uint64) (*operator.Node, *tensor.Tensor) {
	const channels, out, side = 8, 4, 16
	r := rand.New(rand.NewPCG(seed, 3))
	x := tensor.New(fp16.Float64, 1, channels, side, side)
	for i := range x.Data {
		wave := math.Sin(2 * math.Pi / 11 * (float64(i/side%side-side/2) + .1*r.NormFloat64()))
		x.Data[i] = fp16.Float32.Round(wave)
	}
	w := tensor.New(fp16.Float64, out, channels, 5, 5)
	for i := range w.Data {
		w.Data[i] = fp16.Float32.Round(.1 + .01*r.NormFloat64())
	}
	return &operator.Node{Op: operator.OpConv, In: []int{operator.Input}, Weight: &operator.Param{
		Name: "weight", Shape: w.Shape, Data: w.Data,
	}, Geometry: conv.Square(1, 2, conv.Zeros)}, x
}

// rowByRow has the channels innermost, as a device whose images are NHWC.
func rowByRow(a []float64, channels int) []float64 {
	out := make([]float64, len(a))
	for k := range out {
		out[k] = a[k%channels*(len(a)/channels)+k/channels]
	}
	return out
}
