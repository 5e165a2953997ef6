// Package rollout steps states through an operator: recorded cases, update
// policies, post-processing, and the comparison of single steps.
package rollout

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// Stepper advances engine batches by one step.
type Stepper struct {
	Operator *operator.Operator
	Config   Config
	Mode     operator.Mode
	// Batch is how many realizations the operator is applied to at once; 0
	// means the whole engine batch. It changes memory and speed, never a bit.
	Batch int
	// Overflow, if not nil, is called when a float16 step from finite states
	// meets numbers beyond the format's range, with the first module that gave
	// such and how many it gave.
	Overflow func(layer string, elements int)
}

// Step returns the states after x [B,C,H,W], the states of one engine batch,
// with the noise of d (nil for none): the operator, the policy, then the
// post-processing. The result has the format of [Config.StateFormat].
func (s *Stepper) Step(x *tensor.Tensor, d noise.Draws) (*tensor.Tensor, error) {
	var next *tensor.Tensor
	size := s.Batch
	if size <= 0 {
		size = x.N
	}
	var watch *overflowWatch
	if s.Overflow != nil && s.Mode.Precision == fp16.Float16 {
		if _, bad := firstNonfinite(x); !bad {
			watch = &overflowWatch{count: map[string]int{}}
		}
	}
	shared := &sharedDraws{from: d, n: x.N}
	for lo := 0; lo < x.N; lo += size {
		hi := min(lo+size, x.N)
		pass := &operator.Pass{Mode: s.Mode}
		if watch != nil {
			pass.Feature = watch.see
		}
		switch {
		case d != nil && size >= x.N:
			pass.Draws = d
		case d != nil:
			pass.Draws = &drawSlice{of: shared, lo: lo, hi: hi}
		}
		part := x.Samples(lo, hi)
		out, err := s.Operator.Forward(pass, part)
		if err != nil {
			return nil, err
		}
		if !out.SameShape(part) {
			return nil, fmt.Errorf("operator: output is %s: want %s, as its input", out.Shape(), part.Shape())
		}
		if next == nil {
			next = tensor.New(s.Config.StateFormat(out.Format), x.N, x.C, x.H, x.W)
		}
		update(next.Samples(lo, hi), part, out, s.Config, s.Mode)
	}
	if watch != nil {
		if layer, n := watch.first(); n > 0 {
			s.Overflow(layer, n)
		}
	}
	s.postProcess(next)
	return next, nil
}

// StateFormat returns the format of the states that follow from outputs of the
// operator of that format: autoregressive states are outputs; those of other
// policies are sums with the state before, which is float32 in half precisions,
// as the initial condition is.
func (c Config) StateFormat(out fp16.Format) fp16.Format {
	if c.Policy == Autoregressive || out == fp16.Float64 {
		return out
	}
	return fp16.Float32
}

// ModeName returns the canonical name of how a rollout is computed: precision,
// autocast, state and noise, such as
// "float16/autocast-cuda/state-float32/noise-counter".
func (c Config) ModeName(m operator.Mode, s *Stream) string {
	return fmt.Sprintf("%v/state-%v/noise-%s", m, c.StateFormat(m.Output()), s.Name)
}

// update applies the policy: every written operation rounds once, the
// operator's share in its own type, the rest in the type of the state. The
// mode says how constants are rounded. It goes by pieces, which stay in the cache.
func update(next, x, out *tensor.Tensor, c Config, m operator.Mode) {
	state, of := next.Format, out.Format
	a, b := m.Scalar(c.Alpha, state), m.Scalar(1-c.Alpha, of)
	if c.Policy == Residual {
		b = m.Scalar(c.Dt, of)
	}
	const piece = 1 << 10
	n := len(next.Data)
	par.For((n+piece-1)/piece, func(i int) {
		lo, hi := i*piece, min((i+1)*piece, n)
		y, x, o := next.Data[lo:hi], x.Data[lo:hi], out.Data[lo:hi]
		switch c.Policy {
		case Autoregressive:
			state.RoundSlice(y, o)
		case Residual:
			multiply(y, o, b, of)
			for i, v := range x {
				y[i] += v
			}
			state.RoundSlice(y, y)
		case Convex:
			var p [piece]float64
			multiply(p[:len(x)], x, a, state)
			multiply(y, o, b, of)
			for i, v := range p[:len(x)] {
				y[i] += v
			}
			state.RoundSlice(y, y)
		default:
			panic("rollout: unknown policy")
		}
	})
}

// multiply sets dst to the products of x and s, rounded to f.
func multiply(dst, x []float64, s float64, f fp16.Format) {
	for i, v := range x {
		dst[i] = v * s
	}
	f.RoundSlice(dst, dst)
}

// sharedDraws draws for a whole engine batch once and lets parts of it read
// their share, so that grouping the work does not change the noise.
type sharedDraws struct {
	from  noise.Draws
	n     int
	drawn []drawn
}

type drawn struct {
	kind noise.Kind
	data []float64
}

// drawSlice is realizations [lo,hi) of shared draws.
type drawSlice struct {
	of     *sharedDraws
	lo, hi int
	next   int
}

func (d *drawSlice) Draw(kind noise.Kind, p float64, shape []int, dst []float64) error {
	s := d.of
	if len(shape) == 0 || shape[0] != d.hi-d.lo {
		panic("rollout: draw of another batch")
	}
	per := len(dst) / shape[0]
	if d.next == len(s.drawn) {
		whole := append([]int{s.n}, shape[1:]...)
		data := make([]float64, per*s.n)
		if err := s.from.Draw(kind, p, whole, data); err != nil {
			return err
		}
		s.drawn = append(s.drawn, drawn{kind, data})
	}
	got := s.drawn[d.next]
	if got.kind != kind || len(got.data) != per*s.n {
		panic("rollout: parts of a batch draw differently")
	}
	copy(dst, got.data[d.lo*per:d.hi*per])
	d.next++
	return nil
}
