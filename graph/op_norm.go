package graph

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// GroupNorm is group_norm: of an input [N,C,...] and, if they are given, a weight [C] and a
// bias [C]. See [norm.Group].
type GroupNorm struct {
	Groups int     `json:"num_groups"` // sets of channels with common statistics
	Eps    float64 `json:"eps"`        // as a double
}

// InstanceNorm is instance_norm, a group norm in which each channel is a group.
type InstanceNorm struct {
	Eps float64 `json:"eps"`
}

// BatchNorm is batch_norm of an input [N,C,...]. In evaluation a running mean and a running
// variance [C] come last, after a weight [C] and a bias [C] if they are given: see
// [norm.Batch]. In training the statistics are those of each channel over all samples.
type BatchNorm struct {
	Eps      float64 `json:"eps"`
	Training bool    `json:"training"`
}

// Name implements [Op].
func (GroupNorm) Name() string { return "group_norm" }

// Name implements [Op].
func (InstanceNorm) Name() string { return "instance_norm" }

// Name implements [Op].
func (BatchNorm) Name() string { return "batch_norm" }

// channelwise returns the types of an operation with up to that many parameters for each
// channel.
func channelwise(m Mode, op string, least, most int, eps float64, in []Type) (Inference, error) {
	if err := arity(in, 1+least, 1+most); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	if err := epsilon(eps); err != nil {
		return Inference{}, err
	}
	x := in[0].Shape
	if len(x) < 2 {
		return Inference{}, fmt.Errorf("input of shape %v: want [N,C,...]", x)
	}
	for _, p := range in[1:] {
		if len(p.Shape) != 1 || p.Shape[0] != x[1] {
			return Inference{}, fmt.Errorf("parameter of shape %v: want [%d], one for each channel", p.Shape, x[1])
		}
	}
	f, err := m.Result(op, in[0].Format)
	return Inference{Out: []Type{{x, f}}}, err
}

// epsilon returns an error for what cannot be added to a variance.
func epsilon(eps float64) error {
	if !(eps >= 0 && eps <= math.MaxFloat64) {
		return fmt.Errorf("eps: %v: want a finite number, not negative", eps)
	}
	return nil
}

// Infer implements [Op].
func (o GroupNorm) Infer(m Mode, in []Type) (Inference, error) {
	inf, err := channelwise(m, o.Name(), 0, 2, o.Eps, in)
	if err == nil && (o.Groups < 1 || in[0].Shape[1]%o.Groups != 0) {
		err = fmt.Errorf("num_groups: %d: want a divisor of the %d channels", o.Groups, in[0].Shape[1])
	}
	return inf, err
}

// Infer implements [Op].
func (o InstanceNorm) Infer(m Mode, in []Type) (Inference, error) {
	return channelwise(m, o.Name(), 0, 2, o.Eps, in)
}

// Infer implements [Op].
func (o BatchNorm) Infer(m Mode, in []Type) (Inference, error) {
	if o.Training {
		return channelwise(m, o.Name(), 0, 2, o.Eps, in)
	}
	inf, err := channelwise(m, o.Name(), 2, 4, o.Eps, in)
	if err == nil && len(in) == 4 {
		err = fmt.Errorf("4 inputs: want a weight and a bias, or neither of them, before the running mean and variance")
	}
	return inf, err
}

// Eval implements [Op].
func (o GroupNorm) Eval(c *Call) error {
	c.groups(o.Groups, o.Eps)
	return nil
}

// Eval implements [Op].
func (o InstanceNorm) Eval(c *Call) error {
	c.groups(max(c.In(0).Shape[1], 1), o.Eps)
	return nil
}

// groups normalises so many groups of channels.
func (c *Call) groups(groups int, eps float64) {
	group := norm.Group
	if c.Mode.Fast {
		group = norm.GroupFast
	}
	group(planes(c.Out[0]), planes(c.In(0)), groups, c.param(1), c.param(2), eps)
}

// Eval implements [Op].
func (o BatchNorm) Eval(c *Call) error {
	x, y := planes(c.In(0)), planes(c.Out[0])
	if n := c.Inputs(); !o.Training {
		var weight, bias []float64
		if n == 5 {
			weight, bias = c.param(1), c.param(2)
		}
		batch := norm.Batch
		if c.Mode.Fast {
			batch = norm.BatchFast
		}
		batch(y, x, c.param(n-2), c.param(n-1), weight, bias, o.Eps)
		return nil
	}
	// One sample whose channels hold the numbers of all.
	n, channels, area := x.N(), x.C(), x.H()*x.W()
	all, of := tensor.New(x.Format, 1, channels, n, area), tensor.New(y.Format, 1, channels, n, area)
	for i := range n * channels {
		copy(all.Data[(i%channels*n+i/channels)*area:][:area], x.Data[i*area:])
	}
	norm.Instance(of, all, c.param(1), c.param(2), o.Eps)
	for i := range n * channels {
		copy(y.Data[i*area:][:area], of.Data[(i%channels*n+i/channels)*area:])
	}
	return nil
}

// planes sees a tensor [N,C,...] as images [N,C,1,...].
func planes(t *tensor.Tensor) *tensor.Tensor {
	if len(t.Shape) == 4 {
		return t
	}
	return &tensor.Tensor{Shape: []int{t.Shape[0], t.Shape[1], 1, elementsOf(t.Shape[2:])}, Format: t.Format, Data: t.Data}
}

// param returns the numbers of input i, nil if there is no such input.
func (c *Call) param(i int) []float64 {
	if i >= c.Inputs() {
		return nil
	}
	return c.In(i).Data
}

func (GroupNorm) inPlace()    {}
func (InstanceNorm) inPlace() {}
func (BatchNorm) inPlace()    {}

func init() {
	register(GroupNorm{Eps: 1e-5}, casts{wide, wide, fail, same})
	register(InstanceNorm{Eps: 1e-5}, casts{same, same, same, same})
	register(BatchNorm{Eps: 1e-5}, casts{same, same, same, same})
}
