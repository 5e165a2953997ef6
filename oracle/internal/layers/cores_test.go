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
	"github.com/refrun/refrun/tensorcore"
)

// TestMatrixUnits: what the matrix units of GPUs make of a convolution is right for a claim of
// their operands, also of sums of one sign, where every truncation is to the same side, with
// padding that repeats the image, and where a unit takes subnormal operands for zero; sums of
// 14 bits, as FP8's are, are not.
func TestMatrixUnits(t *testing.T) {
	for _, precision := range []string{"float16", "bfloat16", "tf32"} {
		mode, err := operator.ParseMode(precision, "cuda")
		if precision == "tf32" {
			mode, err = operator.ParseMode(precision, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, positive := range []bool{false, true} {
			n, x := window3x3(positive, mode.Precision)
			g := &layerGate{u: 0x1p-24, mode: mode, m: &emulate.Machine{Nodes: []operator.Node{*n}}}
			_, store, err := n.Formats(mode, fp16.Float32)
			if err != nil {
				t.Fatal(err)
			}
			all := units(mode.Precision)
			coarse := *all[len(all)-3] // one of NVIDIA's
			coarse.Fraction, coarse.Keep = 13, 13
			for k, u := range append(all, &coarse) {
				y := tensor.New(fp16.Float64, 1, n.Weight.Shape[0], x.H(), x.W())
				for i := range y.Data {
					hw := y.H() * y.W()
					w := tensor.Of(fp16.Float64, n.Weight.Data, n.Weight.Shape...)
					a, b := window(nil, nil, x, w, n.Geometry, 0, i/hw, i%hw/y.W(), i%y.W())
					y.Data[i] = store.Round(u.Dot(a, b, 0))
				}
				right := false
				for a := range g.convAnswers(0, layerValue{Tensor: x}) {
					right = right || judge(a, y, store).right()
				}
				if right == (u == &coarse) {
					t.Errorf("%s, sums of one sign %v, unit %d (%v, blocks of %d): right %v",
						precision, positive, k, u.Kind, u.Terms, right)
				}
			}
		}
	}
}

// TestFlushedOperands: a unit that takes subnormal operands for zero, as MI200's do, is right
// by that, and one that does not is right without.
func TestFlushedOperands(t *testing.T) {
	mode := operator.Mode{Precision: fp16.Float16}
	n, x := window3x3(true, fp16.Float16)
	n.Geometry, n.Weight.Shape, n.Weight.Data = conv.Params{}, []int{2, x.C(), 1, 1}, n.Weight.Data[:2*x.C()]
	for i := range n.Weight.Data {
		n.Weight.Data[i] *= float64(1 - i%4/3) // a quarter of them is 0
		if i%4 == 3 {
			n.Weight.Data[i] = 0x1p-15
		}
	}
	g := &layerGate{u: 0x1p-24, mode: mode, m: &emulate.Machine{Nodes: []operator.Node{*n}}}
	for _, u := range units(fp16.Float16) {
		y := tensor.New(fp16.Float64, 1, 2, x.H(), x.W())
		for i := range y.Data {
			hw := y.H() * y.W()
			a, b := window(nil, nil, x, tensor.Of(fp16.Float64, n.Weight.Data, n.Weight.Shape...), n.Geometry, 0, i/hw,
				i%hw/y.W(), i%y.W())
			y.Data[i] = u.Dot(a, b, 0)
		}
		how := "none"
		for a := range g.convAnswers(0, layerValue{Tensor: x}) {
			if judge(a, y, fp16.Float32).right() {
				how = a.how
				break
			}
		}
		if want := map[bool]string{true: "subnormal operands flushed"}[u.Kind == tensorcore.Pairs]; how != want {
			t.Errorf("unit %v, blocks of %d: right by %q, want %q", u.Kind, u.Terms, how, want)
		}
	}
}

// window3x3 is a convolution of 48 channels, of numbers of a format, some of them subnormal,
// and an input.
func window3x3(positive bool, f fp16.Format) (*operator.Node, *tensor.Tensor) {
	const channels, out, side = 40, 2, 8
	r := rand.New(rand.NewPCG(7, 11))
	draw := func(scale float64) float64 {
		v := scale * r.NormFloat64()
		if positive {
			v = math.Abs(v)
		}
		return f.Round(v)
	}
	x := tensor.New(fp16.Float64, 1, channels, side, side)
	for i := range x.Data {
		x.Data[i] = draw(1)
	}
	w := tensor.New(fp16.Float64, out, channels, 3, 3)
	for i := range w.Data {
		w.Data[i] = draw(0.05)
		if i%97 == 0 {
			w.Data[i] = f.Round(0x1.8p-15)
		}
	}
	return &operator.Node{Op: operator.OpConv, In: []int{operator.Input}, Weight: &operator.Param{
		Name: "weight", Shape: w.Shape, Data: w.Data,
	}, Geometry: conv.Square(1, 1, conv.Circular)}, x
}
