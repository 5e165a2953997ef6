package molecule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Verdicts of Check.
const (
	Pass    = "PASS"
	Fail    = "FAIL"
	NoPower = "NO-POWER" // right devices differ from each other by as much as these numbers are
)

// Verdict is what Check says of one quantity of a device, over all molecules.
type Verdict struct {
	Quantity string      `json:"quantity"` // energies or forces
	Verdict  string      `json:"verdict"`
	RMS      diff.Number `json:"rms"`          // of the device's errors, against float64
	Limit    diff.Number `json:"rms_limit"`    // what right devices stay within
	Size     diff.Number `json:"rms_size"`     // of the numbers themselves
	Worst    diff.Number `json:"worst"`        // the largest error
	At       [2]int      `json:"worst_at"`     // of which molecule, and which atom (of energies 0)
	Beyond   int         `json:"beyond_limit"` // how many numbers are farther off than those of right devices
}

// Report is the answer of Check.
type Report struct {
	Verdict string    `json:"verdict"`
	Claim   string    `json:"claim"` // the mode
	Of      []Verdict `json:"of"`
	// Unjudged are energies and forces that the device did not return. With any of them the verdict is no pass.
	Unjudged []string `json:"unjudged,omitempty"`
	// Fault is what explains the device's numbers, if it is known: with it they are within the limits.
	Fault string `json:"fault,omitempty"`
}

// simulated is how many right devices are simulated.
const simulated = 16

// Check compares energies and forces that a device returned, those of the molecules given, with the
// network's.
//
// The truth is the network in float64. How far right devices may be from it is simulated: the network
// in the mode that the device claims, with each result of each operation moved at random by up to two
// of its last places, and those of the geometry by as many of float32, sixteen times over; what only counts, such as
// an exponent less 1, is not moved. The device's
// errors pass if their root mean square is at most four times that of the simulated ones, and none is
// larger than eight times the deviation there, or than four times that of all. If they do not pass, known
// faults are put in place of the right network.
func Check(n Network, claim graph.Mode, all []*Molecule) (*Report, error) {
	c := &check{network: n, all: all}
	if err := c.prepare(claim); err != nil {
		return nil, err
	}
	r := c.judge(c.truth)
	r.Claim = claim.String()
	if r.Verdict == Fail {
		var err error
		if r.Fault, err = c.explain(claim); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// check is one question.
type check struct {
	network   Network
	all       []*Molecule
	truth     []*Answer // in float64, of each molecule
	deviation []*Answer // of right devices, by number: the root mean square over all that are simulated
	noise     [2]float64
}

// quantities are what a device returns of one molecule.
func quantities(m *Molecule) [2][]float64 {
	var of [2][]float64
	if m.Energy != nil {
		of[0] = []float64{*m.Energy}
	}
	of[1] = m.Forces
	return of
}

func (a *Answer) quantities() [2][]float64 { return [2][]float64{a.Energies, a.Forces} }

// prepare evaluates the truth and simulates right devices.
func (c *check) prepare(claim graph.Mode) error {
	random := rand.New(rand.NewPCG(1, 2))
	var squares, count [2]float64
	for k, m := range c.all {
		if m.Energy == nil && m.Forces == nil {
			return fmt.Errorf("molecule %d: no energy and no forces: want those of the device", k)
		}
		truth, err := answer(c.network, graph.Mode{Precision: fp16.Float64}, m)
		if err != nil {
			return err
		}
		p, err := c.network.Problem(claim, m)
		if err != nil {
			return err
		}
		sum := &Answer{make([]float64, len(truth.Energies)), make([]float64, len(truth.Forces))}
		for range simulated {
			got, err := p.device(random)
			if err != nil {
				return err
			}
			for q, of := range got.quantities() {
				for i, v := range of {
					d := v - truth.quantities()[q][i]
					sum.quantities()[q][i] += float64(d * d)
					squares[q] += float64(d * d)
					count[q]++
				}
			}
		}
		for _, of := range sum.quantities() {
			for i, v := range of {
				of[i] = math.Sqrt(v / simulated)
			}
		}
		c.truth, c.deviation = append(c.truth, truth), append(c.deviation, sum)
	}
	for q := range c.noise {
		c.noise[q] = math.Sqrt(squares[q] / max(count[q], 1))
	}
	return nil
}

func answer(n Network, mode graph.Mode, m *Molecule) (*Answer, error) {
	p, err := n.Problem(mode, m)
	if err != nil {
		return nil, err
	}
	return p.Run()
}

// exactly are operations that do not round.
var exactly = []string{"identity", "neg", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose",
	"expand", "cat", "slice", "select", "pad", "split", "index_select", "embedding", "index", "gather", "gather_nd",
	"where", "relu", "stack", "abs"}

// counts reports whether an operation added, subtracted or multiplied whole numbers: on every device its results are
// these. An exponent less 1 is such a number, and a base below 0 has no power that is not whole.
func counts(op graph.Op, in []*tensor.Tensor, y *tensor.Tensor) bool {
	fraction := func(v float64) bool { return v != math.Floor(v) }
	return slices.Contains([]string{"add", "sub", "mul"}, op.Name()) &&
		!slices.ContainsFunc(append(in[:len(in):len(in)], y), func(t *tensor.Tensor) bool {
			return slices.ContainsFunc(t.Data, fraction)
		})
}

// device evaluates the graph as a right device of the mode might: each result is moved by up to two
// of its last places.
func (p *Problem) device(random *rand.Rand) (*Answer, error) {
	program, err := p.infer()
	if err != nil {
		return nil, err
	}
	last := p.Mode.Wide() // of float64 results in between, too
	r := new(graph.Run)
	r.Make = func(node int, in []*tensor.Tensor) (*tensor.Tensor, error) {
		n := &p.Graph.Nodes[node]
		t := program.Type(n.Out[0])
		if t.Format == fp16.Int64 || slices.Contains(exactly, n.Op.Name()) {
			return nil, nil
		}
		y := tensor.New(t.Format, t.Shape...)
		if err := program.Eval(new(graph.Run), node, []*tensor.Tensor{y}, in); err != nil {
			return nil, err
		}
		if counts(n.Op, in, y) {
			return y, nil
		}
		u := max(unit(t.Format), unit(last))
		for i, v := range y.Data {
			by := v * 4 * u * (float64(random.Float64()) - 0.5)
			y.Data[i] = t.Format.Round(v + float64(by))
		}
		return y, nil
	}
	return p.run(r)
}

// unit is half the distance of 1 to the next number of a format.
func unit(f fp16.Format) float64 {
	switch f {
	case fp16.Float64:
		return 0x1p-53
	case fp16.Float16:
		return 0x1p-11
	case fp16.BFloat16:
		return 0x1p-8
	}
	return 0x1p-24
}

// judge compares the device with what it should have returned. It passes if all of it is there and passes.
func (c *check) judge(want []*Answer) *Report {
	r := &Report{Verdict: Pass}
	for q, name := range []string{"energies", "forces"} {
		r.Unjudged = append(r.Unjudged, c.missing(q, name)...)
		if v, ok := c.quantity(q, name, want); ok {
			r.Of = append(r.Of, v)
		}
	}
	has := func(verdict string) bool {
		return slices.ContainsFunc(r.Of, func(v Verdict) bool { return v.Verdict == verdict })
	}
	switch {
	case has(Fail):
		r.Verdict = Fail
	case has(NoPower) || len(r.Unjudged) > 0:
		r.Verdict = NoPower
	}
	return r
}

// missing names the molecules whose energies or forces the device did not return.
func (c *check) missing(q int, name string) (all []string) {
	for k, m := range c.all {
		if len(quantities(m)[q]) == 0 && len(m.Numbers) > 0 {
			all = append(all, fmt.Sprintf("%s of molecule %d", name, k))
		}
	}
	if len(all) == len(c.all) && len(all) > 1 {
		all = []string{name + " of all molecules"}
	}
	return all
}

func (c *check) quantity(q int, name string, want []*Answer) (Verdict, bool) {
	v := Verdict{Quantity: name, Limit: diff.Number(4 * c.noise[q])}
	var squares, size float64
	n := 0
	for k, m := range c.all {
		for i, got := range quantities(m)[q] {
			w := want[k].quantities()[q][i]
			d := math.Abs(got - w)
			if got != got && w != w { // both NaN: as defined
				d, w = 0, 0
			}
			if worst := float64(v.Worst); !(d <= worst) && worst == worst {
				v.Worst, v.At = diff.Number(d), [2]int{k, i / 3}
			}
			if !(d <= max(8*c.deviation[k].quantities()[q][i], 4*c.noise[q])) {
				v.Beyond++
			}
			squares += float64(d * d)
			size += float64(w * w)
			n++
		}
	}
	v.RMS, v.Size = diff.Number(math.Sqrt(squares/float64(max(n, 1)))), diff.Number(math.Sqrt(size/float64(max(n, 1))))
	switch v.Verdict = Pass; {
	case !(v.RMS <= v.Limit) || v.Beyond > 0:
		v.Verdict = Fail
	case v.Size <= v.Limit:
		v.Verdict = NoPower
	}
	return v, n > 0
}

// explain looks for the known fault that explains the device's numbers.
func (c *check) explain(claim graph.Mode) (string, error) {
	for _, f := range outputs {
		var want []*Answer
		for _, a := range c.truth {
			want = append(want, f.of(a))
		}
		if c.judge(want).Verdict == Pass {
			return f.name, nil
		}
	}
	for _, f := range networks {
		want, err := c.faulty(f)
		if err != nil || want == nil {
			continue // a graph without the place of the fault
		}
		if c.judge(want).Verdict == Pass {
			return f, nil
		}
	}
	for _, precision := range []string{"tf32", "bfloat16", "float16"} {
		lower, err := graph.ParseMode(precision, "")
		if err != nil || lower == claim {
			continue
		}
		other := &check{network: c.network, all: c.all}
		if err := other.prepare(lower); err != nil {
			continue // an operation that the mode has not
		}
		if r := other.judge(other.truth); r.Verdict == Pass &&
			!slices.ContainsFunc(r.Of, func(v Verdict) bool { return v.RMS < v.Limit/80 }) {
			return "errors are those of " + lower.String(), nil // of its size, a twentieth at least
		}
	}
	return "", nil
}

// faulty evaluates the network with a fault, nil if it cannot have it.
func (c *check) faulty(fault string) (of []*Answer, err error) {
	for _, m := range c.all {
		var p *Problem
		switch n := c.network.(type) {
		case *Model:
			p, err = n.problem(graph.Mode{Precision: fp16.Float64}, n.Batch(m), fault)
		case listed:
			p, err = n.model.problem(graph.Mode{Precision: fp16.Float64}, join([]*Molecule{m}, n.pairs), fault)
		default:
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		a, err := p.Run()
		if err != nil {
			return nil, err
		}
		of = append(of, a)
	}
	return of, nil
}
