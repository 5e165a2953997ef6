package rollout

import (
	"fmt"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// Stepper advances engine batches by one step.
type Stepper struct {
	Operator *operator.Operator
	Config   Config // of which a step needs the policy, the post-processing and State
	Mode     graph.Mode
	// Batch is how many realizations the operator is applied to at once; 0
	// means the whole engine batch, which is what a coupled operator always gets. It
	// changes memory and speed, never a bit.
	Batch int
	// Overflow, if not nil, is called when a float16 step from finite states
	// meets numbers beyond the format's range, with the first module that gave
	// such and how many it gave.
	Overflow func(layer string, elements int)
}

// Step returns the states after x [B,C,H,W], the states of one engine batch,
// with the noise of d (nil for none): the operator, the policy, then the
// post-processing. The result has the format of [Config.StateFormat]. The draws of an
// [Engine]'s step t are those of [noise.Counter.At](t, lo, hi), t from 1 on. Schedules
// of noise stay constant: as in Spinlock's rollouts, no step is known to them.
func (s *Stepper) Step(x *tensor.Tensor, d noise.Draws) (*tensor.Tensor, error) {
	next := tensor.New(s.Config.StateFormat(s.Operator.Output(s.Mode)), x.N(), x.C(), x.H(), x.W())
	return next, s.step(next, x, d)
}

// step is Step into memory that there is. The operator's plans are kept by it, so
// that only the first step of a shape makes them.
func (s *Stepper) step(next, x *tensor.Tensor, d noise.Draws) error {
	if c := s.Operator.Config; c.OutputChannels != x.C() && c.InputChannels == x.C() {
		return fmt.Errorf("operator: output is [%d,%d,%d,%d]: want %s, as its input", x.N(), c.OutputChannels, x.H(),
			x.W(), x.Dims())
	}
	size := s.Batch
	if size <= 0 || s.Operator.Coupled() {
		size = x.N()
	}
	w := workPool.Get().(*work)
	defer w.put()
	w.mode, w.config = s.Mode, s.Config
	watch := false
	if s.Overflow != nil && s.Mode.Precision == fp16.Float16 {
		_, bad := firstNonfinite(x)
		watch = !bad
	}
	var overflow *overflowWatch
	for lo := 0; lo < x.N(); lo += size {
		hi := min(lo+size, x.N())
		w.x.SetSamples(x, lo, hi)
		w.next.SetSamples(next, lo, hi)
		draws := d
		if d != nil && size < x.N() {
			var ok bool
			if draws, ok = sliced(d, lo, hi); !ok {
				if w.shared == nil {
					w.shared = &sharedDraws{from: d, n: x.N()}
				}
				draws = &drawSlice{of: w.shared, lo: lo, hi: hi}
			}
		}
		p := s.Operator.Borrow(s.Mode, hi-lo, x.H(), x.W())
		p.Watch = watch
		out := p.Result()
		err := p.Forward(out, &w.x, draws, noise.Time{})
		if err == nil {
			w.update(out)
			if watch {
				overflow, err = s.overflowed(p, overflow, &w.x)
			}
		}
		s.Operator.Return(p)
		if err != nil {
			return err
		}
	}
	if overflow != nil {
		if layer, n := overflow.first(); n > 0 {
			s.Overflow(layer, n)
		}
	}
	s.postProcess(next)
	return nil
}

// overflowed repeats an application that met numbers which are not finite, to count
// them module by module.
func (s *Stepper) overflowed(p *operator.Compiled, watch *overflowWatch, x *tensor.Tensor) (*overflowWatch, error) {
	if !p.Nonfinite() {
		return watch, nil
	}
	if watch == nil {
		watch = &overflowWatch{count: map[string]int{}}
	}
	_, err := s.Operator.Forward(&operator.Pass{Mode: s.Mode, Draws: p.Again(), Feature: watch.see}, x)
	return watch, err
}

// StateFormat returns the format of the states that follow from outputs of the
// operator of that format. Where State does not say it, autoregressive states are
// outputs; those of other policies are sums with the state before, which is float32 in
// half precisions, as the initial condition is. In float64 nothing is rounded.
func (c Config) StateFormat(out fp16.Format) fp16.Format {
	switch {
	case out == fp16.Float64:
		return out
	case c.State != "":
		f, err := fp16.ParseFormat(c.State)
		if err != nil {
			panic("rollout: unknown format of states")
		}
		return f
	case c.Policy == Autoregressive:
		return out
	}
	return fp16.Float32
}

// StartFormat returns the format of the initial states: the widest of the mode, unless
// State says another.
func (c Config) StartFormat(m graph.Mode) fp16.Format {
	if c.State == "" {
		return m.Wide()
	}
	return c.StateFormat(m.Wide())
}

// ModeName returns the canonical name of how a rollout is computed: precision,
// autocast, state and noise, such as
// "float16/autocast-cuda/state-float32/noise-counter".
func (c Config) ModeName(op *operator.Operator, m graph.Mode, s *Stream) string {
	return fmt.Sprintf("%v/state-%v/noise-%s", m, c.StateFormat(op.Output(m)), s.Name)
}

// work is the memory of a step.
type work struct {
	mode    graph.Mode
	config  Config
	x, next tensor.Tensor // of the part at work
	shared  *sharedDraws

	out  *tensor.Tensor
	a, b float64 // the policy's constants
	body func(i int)
}

var workPool = sync.Pool{New: func() any {
	w := new(work)
	w.body = w.piece
	return w
}}

// put gives the memory back, and keeps no tensor alive.
func (w *work) put() {
	x, next := tensor.Tensor{Shape: w.x.Shape}, tensor.Tensor{Shape: w.next.Shape}
	*w = work{body: w.body, x: x, next: next}
	workPool.Put(w)
}

// piece is how many numbers update takes at a time: they stay in the cache.
const piece = 1 << 10

// update applies the policy: every written operation rounds once, the
// operator's share in its own type, the rest in the type of the state. The
// mode says how constants are rounded.
func (w *work) update(out *tensor.Tensor) {
	c, state := w.config, w.next.Format
	w.out, w.a, w.b = out, w.mode.Scalar(c.Alpha, state), w.mode.Scalar(1-c.Alpha, out.Format)
	if c.Policy == Residual {
		w.b = w.mode.Scalar(c.Dt, out.Format)
	}
	par.For((len(w.next.Data)+piece-1)/piece, w.body)
}

// piece updates one piece.
func (w *work) piece(i int) {
	state, of := w.next.Format, w.out.Format
	lo, hi := i*piece, min((i+1)*piece, len(w.next.Data))
	y, x, o := w.next.Data[lo:hi], w.x.Data[lo:hi], w.out.Data[lo:hi]
	switch w.config.Policy {
	case Autoregressive:
		state.RoundSlice(y, o)
	case Residual:
		multiply(y, o, w.b, of)
		for i, v := range x {
			y[i] += v
		}
		state.RoundSlice(y, y)
	case Convex, "":
		var p [piece]float64
		multiply(p[:len(x)], x, w.a, state)
		multiply(y, o, w.b, of)
		for i, v := range p[:len(x)] {
			y[i] += v
		}
		state.RoundSlice(y, y)
	default:
		panic("rollout: unknown policy")
	}
}

// update applies the policy of c to x and out.
func update(next, x, out *tensor.Tensor, c Config, m graph.Mode) {
	w := workPool.Get().(*work)
	defer w.put()
	w.mode, w.config = m, c
	w.x.SetSamples(x, 0, x.N())
	w.next.SetSamples(next, 0, next.N())
	w.update(out)
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

// sliced returns the draws for realizations lo to hi-1 alone, if they can be had without the others.
func sliced(d noise.Draws, lo, hi int) (noise.Draws, bool) {
	s, ok := d.(interface {
		Slice(lo, hi int) (noise.Draws, bool)
	})
	if !ok {
		return nil, false
	}
	return s.Slice(lo, hi)
}
