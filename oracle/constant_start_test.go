package oracle

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/internal/structure"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// asProducts is a device whose convolutions are products of matrices in float32: the pixels of the last
// block are added up from the last term on, those before from the first.
func asProducts(nodes []operator.Node) rig.Mischief {
	return func(_ *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			if nodes[i].Op != operator.OpConv {
				return nil, nil
			}
			return product(&nodes[i], in[0]), nil
		}
	}
}

// product is a convolution of circular padding.
func product(n *operator.Node, x *tensor.Tensor) *tensor.Tensor {
	const block = 32
	s, h, w := n.Weight.Shape, x.H(), x.W()
	y := tensor.New(x.Format, x.N(), s[0], h, w)
	terms := make([]float32, s[1]*s[2]*s[3])
	for at := range y.Data {
		p, c, m := at%(h*w), at/(h*w)%s[0], at/(h*w*s[0])
		for k := range terms {
			dy, dx, from := k/s[3]%s[2]-s[2]/2, k%s[3]-s[3]/2, k/(s[2]*s[3])
			v := x.Data[((m*s[1]+from)*h+(p/w+dy+h)%h)*w+(p%w+dx+w)%w]
			terms[k] = float32(float32(v) * float32(n.Weight.Data[c*len(terms)+k]))
		}
		sum := float32(n.Bias.Data[c])
		for k := range terms {
			if p >= h*w/block*block {
				k = len(terms) - 1 - k
			}
			sum = float32(sum + terms[k])
		}
		y.Data[at] = float64(sum)
	}
	return y
}

// TestConstantStates: a norm of a constant image, or of one that one pixel makes none, divides errors that
// differ by the place of a pixel, where convolutions are products of matrices: no such device is wrong.
func TestConstantStates(t *testing.T) {
	t.Parallel()
	for _, seed := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rig.NewRig(t, "float32", "", 0)
			var nodes []operator.NodeConfig
			for l := range 1 + seed%3 {
				nodes = append(nodes,
					operator.NodeConfig{
						Op: "conv", Name: fmt.Sprintf("c%d", l), OutChannels: 8, KernelSize: 3, PaddingMode: "circular",
					},
					operator.NodeConfig{Op: "norm", Name: fmt.Sprintf("n%d", l),
						Normalization: []string{"instance", "group"}[seed%2], Groups: seed % 2 * 4},
					operator.NodeConfig{
						Op: "act", Name: fmt.Sprintf("a%d", l), Activation: []string{"relu", "tanh", "gelu"}[seed/2%3],
					})
			}
			nodes = append(nodes,
				operator.NodeConfig{Op: "conv", Name: "out", OutChannels: 3, KernelSize: 3, PaddingMode: "circular"})
			var err error
			if r.Op, err = operator.Init(operator.Config{InputChannels: 3, Nodes: nodes}, uint64(seed)); err != nil {
				t.Fatal(err)
			}
			r.Size = 20 // 400 pixels are 12 blocks and a half
			r.Start = func(x *tensor.Tensor) {
				for i := range x.Data {
					x.Data[i] = fp16.Float32.Round(1.3 + float64(seed)/7)
				}
				if seed == 3 {
					x.Data[len(x.Data)/2] -= 0x1p-7
				}
			}
			e := r.Exam(r.Run(nil), true).Evidence // whose nodes the device has
			e = r.Exam(r.Run(asProducts(e.Machine.Nodes)), true).Evidence
			got, err := examine(e, 0, "rig")
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict.Failed() {
				t.Errorf("%s: %s", got.Verdict, got.Reason)
			}
		})
	}
}

// TestConstantAgain: a realization that is constant in space comes to a fixed point within its roundings, which are
// those of the mean of a norm, and to states that it had, by right, while others go on.
func TestConstantAgain(t *testing.T) {
	t.Parallel()
	again := 0
	for seed := range uint64(16) {
		r := rig.NewRig(t, "float32", "", 0)
		r.Config.Policy, r.Config.Realizations = rollout.Autoregressive, 2
		var err error
		if r.Op, err = operator.Init(operator.Config{InputChannels: 3, Nodes: []operator.NodeConfig{
			{Op: "conv", Name: "c", OutChannels: 4, KernelSize: 3, PaddingMode: "circular"},
			{Op: "norm", Name: "n", Normalization: "instance"},
			{
				Op: "act", Name: "a", Activation: "relu",
			}, {Op: "conv", Name: "out", OutChannels: 3, KernelSize: 3, PaddingMode: "circular"}}}, seed); err != nil {
			t.Fatal(err)
		}
		for i := range r.Op.Params()[1].Data { // the bias of c, of which the mean is
			r.Op.Params()[1].Data[i] *= 3
		}
		r.Start = func(x *tensor.Tensor) {
			for i := range x.Samples(1, 2).Data {
				x.Samples(1, 2).Data[i] = fp16.Float32.Round(1.3 + float64(seed)/7)
			}
		}
		e := r.Exam(r.Run(nil), true)
		s := r.Run(meansOff(e.Machine.Nodes))
		for u := 2; u < s.T; u++ {
			for v := range u {
				if slices.Equal(s.At(1, u), s.At(1, v)) {
					again++
				}
			}
		}
		if f := rig.Do(t, r.Exam(s, true), structure.Check); f != nil {
			t.Errorf("seed %d: %s", seed, f.Text)
		}
	}
	if again == 0 {
		t.Error("no state comes again")
	}
}

// meansOff is a device whose norms add up a mean number after number, and so from a constant plane another one.
func meansOff(nodes []operator.Node) rig.Mischief {
	return func(_ *rig.Rig, _ int, d *emulate.Device, _ *emulate.Draws, _ []*tensor.Tensor) {
		d.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
			n := &nodes[i]
			if n.Op != operator.OpNorm {
				return nil, nil
			}
			y := tensor.Like(in[0])
			for p := range y.N() * y.C() {
				x, to, c := in[0].Plane(p/y.C(), p%y.C()), y.Plane(p/y.C(), p%y.C()), p%y.C()
				var sum, squares float32
				for _, v := range x {
					sum = float32(sum + float32(v))
				}
				mean := float32(sum / float32(len(x)))
				for _, v := range x {
					d := float32(float32(v) - mean)
					squares = float32(squares + float32(d*d))
				}
				scale := float32(1 / math.Sqrt(float64(squares/float32(len(x)))+n.Eps))
				for k, v := range x {
					to[k] = float64(float32(float32(float32(float32(v)-mean)*scale)*float32(n.Weight.Data[c])) +
						float32(n.Bias.Data[c]))
				}
			}
			return y, nil
		}
	}
}
