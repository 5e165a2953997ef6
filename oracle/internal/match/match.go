// Package match holds the library of faults against what a device's step leaves
// unexplained: it names the fault, or says which ones could not have been seen.
package match

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// Limits on naming a fault, and on how many hypotheses are listed.
const (
	amplitudeTol = 0.1  // by how much an amplitude that must be 1 may differ from it
	leastFamily  = 2e-3 // the least amplitude that names a family: a wrong rounding may cause smaller ones
	sameAngle    = 0.95 // the cosine of the angle between two signatures from which on they are one
	leastBesides = 4    // deviations by which a fault differs from what right devices may do in its place
	leastSize    = 50   // a signature whose RMS is less than a 50th of what right devices leave names nothing
	filterRows   = 12   // hypotheses that the report lists
)

// Step is an evidence.BatchStep with all that the expensive gates want to know.
type Step struct {
	*evidence.BatchStep
	Device      *emulate.Device // the emulation of the claim, or of the pattern that fits best
	Truth       []float64       // exact but for the operands' rounding
	Emulated    []float64
	S           []float64 // expected standard deviation of Got - Truth, element by element
	Limit       float64   // rms of (Got - Emulated)/S that correct devices reach at most
	Constants   bool      // Device's policy has its constants in the half type
	Alike       float64   // pixels of X that the first convolutions round alike, see steps.lookAlikes
	SkipRefuted bool      // small faults that another step refuted are not looked for
	// Noise applies noise node i as Device does, with a block and draws that may
	// be others than its own; nil if the machine does it.
	Noise func(i int, b *noise.Block, d *emulate.Draws, x *tensor.Tensor) (*tensor.Tensor, error)
}

// Matcher holds the library of faults against steps that a gate looks at closely.
type Matcher struct {
	*facts.Gate
	Pool *pool // what it found at the steps so far
}

// Filters holds the hypotheses of the library against the residual of a step.
//
// A fault h has the signature d_h = step_h(X) - step(X), the difference that it
// makes without any rounding. In a half precision the step is better taken
// around the emulation, whose roundings the device shares: what is left of its
// residual is much smaller there, and a fault of rounding has no other signature.
//
// Faults that may hide below the rounding errors are looked for in every check.
// The others, and each layer by itself, only where another gate found this step
// to be wrong, or the residual says so: then that one is named which leaves a
// residual that a correct device could have. If none does, the cause is unknown.
func (e *Matcher) Filters(s *Step) error {
	if e.Pool == nil {
		e.Pool = NewPool(slices.Clip(e.Report.Blind))
	}
	if e.Pool.searched {
		return nil // later steps follow from the wrong one, or are wrong in the same way
	}
	f := newFilter(e, s)
	if e.Pool.steps++; e.Pool.steps > 1 && f.forward > evidence.LargeForward && !f.wrong() {
		return nil // one step is enough of a large operator
	}
	if ok, err := f.open(); !ok || err != nil {
		return err
	}
	if err := f.certify(); err != nil {
		return err
	}
	if f.wrong() && !e.Late("the hypotheses of the library") {
		e.Pool.searched = true
		if err := f.search(); err != nil {
			return err
		}
	}
	f.leak()
	f.report()
	return nil
}

// filter is the state of one call of Filters.
type filter struct {
	e *Matcher
	s *Step

	got     []float64 // of the samples that are looked at
	size    []float64 // S of them
	cluster []int32
	of      int // clusters
	exact   *trial.View
	near    *trial.View // the emulation; nil where rounding is too fine to matter
	one     *trial.View // exact, of the worst sample alone
	alone   bool        // other samples are right
	large   bool        // the residual is far above what rounding can make
	strong  bool        // it is a fault's for the most part
	levels  bool        // a normalization of the states maps all of them by one rounding
	alike   float64     // clusters that round alike, on average; 0 for one
	forward int64       // multiplications with weights of one step
	h0      map[*trial.View][][]float64

	change float64 // of the states, relative to what the operator's output does to them
	tried  []Tried
}

// newFilter returns the filter of a whole step.
func newFilter(e *Matcher, s *Step) *filter {
	return &filter{
		e: e, s: s, h0: map[*trial.View][][]float64{}, forward: e.Op.MACs(s.X.H(), s.X.W()) * int64(s.X.N()),
	}
}

// open prepares the views of a step; it reports whether anything can be said
// about it.
func (f *filter) open() (bool, error) {
	e, s := f.e, f.s
	if e.Op.HasNoise() && e.Stream == nil {
		return false, nil
	}
	if s.Draws != nil && len(s.Draws.Data) == 0 { // not drawn yet
		if _, err := e.Machine.Operator(&emulate.Device{Mode: s.Device.Mode}, s.X, s.Draws.Rewind()); err != nil {
			return false, err
		}
	}
	f.got, f.size = s.Got, s.S
	for i, v := range f.got {
		if !measure.Finite(v) || !measure.Finite(s.Truth[i]) || !(f.size[i] > 0) {
			return false, nil
		}
	}
	f.divide(s.X.N(), s.X.C(), s.X.H(), s.X.W())
	f.alike = s.Alike * min(1, cells/float64(s.X.H()*s.X.W()))
	base := trial.View{Evidence: e.Evidence, Machine: e.Machine, Step: s.Step, X: s.X, Draws: s.Draws}
	if e.Pool != nil {
		base.Work = &e.Pool.work
	}
	if s.Step > 1 {
		base.Before = e.Stored(s.Lo, s.Hi, s.Step-2)
	}
	base.Drawn = f.otherDraws
	exact := base
	exact.Device = &emulate.Device{Mode: s.Device.Mode, Wide: emulate.WideAll, State: fp16.Float64}
	if s.Device.Mode.Precision == fp16.TF32 {
		exact.Device.Wide, exact.Device.Operands = 0, s.Device.Operands
	}
	f.exact = &exact
	if err := f.exact.Compute(); err != nil {
		return false, err
	}
	if p := s.Device.Mode.Precision; p != fp16.Float32 && p != fp16.Float64 {
		near := base
		near.Device = s.Device
		near.Contract, near.Noised = s.Device.Replace == nil, s.Noise
		f.near = &near
		if err := f.near.Compute(); err != nil {
			return false, err
		}
		// The policy as its contract rounds it, where the device does so too: then
		// a fault of the policy differs from it by the fault alone.
		contract := *near.Device
		contract.Update, contract.State = nil, e.Case.Rollout.StateFormat(e.Op.Output(contract.Mode))
		out := near.Outputs[len(near.Outputs)-1]
		next := near.Machine.Advance(&contract, near.X, out)
		if stored := s.Device.Store; stored != nil && (stored[len(stored)-1].Half() || contract.State.Half()) {
			twice := contract
			twice.Twice = true
			if y := near.Machine.Advance(&twice, near.X, out); measure.RootMeanSquareDiff(f.got, y.Data) <
				measure.RootMeanSquareDiff(f.got, next.Data) {
				contract, next = twice, y
			}
		}
		if near.Device.Update != nil {
			near.Fused = s.Constants ||
				measure.RootMeanSquareDiff(f.got, next.Data) > 1.05*measure.RootMeanSquareDiff(f.got, near.Next.Data)
		}
		if !near.Fused {
			near.Device, near.Next = &contract, next
		}
	}
	if err := f.single(); err != nil {
		return false, err
	}
	f.levels = e.Case.Rollout.Normalization != ""
	// What the operator's output does to the states, against what is wrong with them.
	near := f.exact
	if f.near != nil {
		near = f.near
	}
	f.strong = measure.RMS(f.residual(near, near.Next)) > 3*f.limit(near)
	out := f.exact.Outputs[len(f.exact.Outputs)-1]
	flat := tensor.Like(out)
	for k := range out.N() * out.C() {
		m, _ := measure.Moments(out.Plane(k/out.C(), k%out.C()))
		for i, p := 0, flat.Plane(k/out.C(), k%out.C()); i < len(p); i++ {
			p[i] = m
		}
	}
	without := f.exact.Machine.Advance(f.exact.Device, f.exact.X, flat)
	f.change = measure.RootMeanSquareDiff(f.got,
		near.Next.Data) / measure.RootMeanSquareDiff(f.exact.Next.Data, without.Data)
	return true, nil
}

// single finds the worst sample and whether it is the only one that is wrong,
// and makes a view of it alone, in which a fault is quickly tried.
func (f *filter) single() error {
	v := f.exact
	r := f.residual(v, v.Next)
	f.large = measure.RMS(r) > 4*f.limit(v)
	chw, worst := len(r)/v.X.N(), 0
	of := make([]float64, v.X.N())
	for k := range of {
		of[k] = measure.RMS(r[k*chw : (k+1)*chw])
		if of[k] > of[worst] {
			worst = k
		}
	}
	f.alone = v.X.N() > 1 && of[worst] > 3*f.limit(v)
	for k, u := range of {
		if k != worst && u > 1.1*f.limit(v) {
			f.alone = false
		}
	}
	f.one = v
	v.Worst = worst
	if f.near != nil {
		f.near.Worst = worst
	}
	if c := v.Machine.Config; v.X.N() == 1 || c.Normalization != "" && c.EngineBatch > 0 {
		return nil
	}
	one := *v
	one.Lo = worst * chw
	one.X, one.Draws = v.X.Samples(worst, worst+1), evidence.Part(v.Draws, worst, worst+1, v.X.N())
	if v.Before != nil {
		one.Before = v.Before.Samples(worst, worst+1)
	}
	one.Drawn = func(t int) *emulate.Draws { return evidence.Part(v.Drawn(t), worst, worst+1, v.X.N()) }
	f.one = &one
	return f.one.Compute()
}

// cells are the clusters of a plane.
const cells = 16

// divide makes 4 by 4 clusters of each plane.
func (f *filter) divide(n, c, h, w int) {
	f.cluster, f.of = make([]int32, n*c*h*w), n*c*cells
	for i := range f.cluster {
		x, y, p := i%w, i/w%h, i/(w*h)
		f.cluster[i] = int32(p*cells + y*4/h*4 + x*4/w)
	}
}

// otherDraws returns the draws of t steps later.
func (f *filter) otherDraws(t int) *emulate.Draws {
	s := f.s
	if f.e.Stream == nil || s.Draws == nil || s.Step+t < 1 || s.Step+t >= f.e.States.T {
		return nil
	}
	batch := f.e.Case.Rollout.EngineBatches()[s.Batch]
	n := batch[1] - batch[0]
	d, err := f.e.Stream.Draws(s.Batch, batch[0], batch[1], s.Step+t)
	if err != nil || d == nil {
		return nil
	}
	all := &emulate.Draws{Kinds: s.Draws.Kinds}
	for k, kind := range s.Draws.Kinds {
		shape := f.exact.DrawShape(kind)
		shape[0] = n
		other := make([]float64, len(s.Draws.Data[k])/s.X.N()*n)
		if err := d.Draw(kind, f.exact.Probability(), shape[:], other); err != nil {
			return nil
		}
		all.Data = append(all.Data, other)
	}
	first := s.Lo - batch[0]
	return evidence.Part(all, first, first+s.X.N(), n)
}

// wrong reports whether the step is known to be wrong, or its residual says so.
func (f *filter) wrong() bool { return f.known() || f.before() > 1 }

// known reports whether another gate found the step to be wrong.
func (f *filter) known() bool {
	return slices.ContainsFunc(f.e.Findings(),
		func(g report.Finding) bool { return g.Step == f.s.Step && g.Verdict.Failed() })
}

// before returns the residual over its limit.
func (f *filter) before() float64 { return f.s.Distance() / f.s.Limit }

// Distance is the root mean square of (Got - Emulated)/S.
func (s *Step) Distance() float64 {
	var sum float64
	for i, v := range s.Got {
		r := (v - s.Emulated[i]) / s.S[i]
		sum += float64(r * r)
	}
	return math.Sqrt(sum / float64(len(s.Got)))
}
