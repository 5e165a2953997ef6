// Package factor judges kernels that factor matrices, and that solve with them.
//
// The factors of a matrix are not judged number by number: right kernels return others, of other signs, and where
// a matrix is ill-conditioned farther apart than any tolerance. What right ones have in common is that their
// factors are those of a matrix next to the given one. So the product of what was returned is compared with the
// matrix, in twice the precision of float64, and the columns of orthogonal factors with one another.
//
//	s, err := factor.Parse("linalg_qr", []byte(`{"mode": "reduced"}`))
//	r, err := factor.Check(factor.Question{Spec: s, Inputs: []*tensor.Tensor{a}, Outputs: []*tensor.Tensor{q, r}})
//	fmt.Println(r.Verdict, r.Fault)
package factor

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/tensor"
)

// Question is what a kernel read and returned.
type Question struct {
	Spec    *Spec
	Inputs  []*tensor.Tensor // in the order of Spec.Inputs
	Outputs []*tensor.Tensor // in that of Spec.Outputs
}

// Verdicts.
const (
	Pass    = "PASS"
	Fail    = "FAIL"
	NoPower = "NO-POWER" // nothing of the data says what is right
)

// Report is the answer.
type Report struct {
	Verdict  string  `json:"verdict"`
	Op       string  `json:"op"`
	Store    string  `json:"store"`
	Matrices int     `json:"matrices"`
	Unjudged int     `json:"unjudged"` // matrices of which no kernel returns anything right
	Outputs  []Claim `json:"outputs"`  // a row for each that is claimed of them
	Reason   string  `json:"reason,omitempty"`

	// Fault is what explains the outputs, its row in the table of faults, and what to do; Diagnosis is the same as Fault.
	Fault     string `json:"fault,omitempty"`
	FaultID   string `json:"fault_id,omitempty"`
	Advice    string `json:"advice,omitempty"`
	Diagnosis string `json:"diagnosis"`
}

// Claim is what must hold of the outputs.
type Claim struct {
	Name       string  `json:"name"`
	Verdict    string  `json:"verdict"`
	Elements   int     `json:"elements"`   // numbers, or columns, that were compared
	Violations int     `json:"violations"` // those beyond what right kernels are off
	Proved     int     `json:"proved"`     // and of them those beyond the bound of any order of sums
	Largest    float64 `json:"largest"`    // the largest error, as a part of what it may be
	Worst      *Worst  `json:"worst,omitempty"`

	exact  bool    // there are no errors
	spread float64 // over how large a part of its numbers each error is spread, in all
}

// Worst is the error that is the largest part of what it may be.
type Worst struct {
	Index []int   `json:"index"` // of the batch, then of the claim's own axes
	Error float64 `json:"error"`
	Limit float64 `json:"limit"`
}

// trial holds the outputs to what a specification claims, in an arithmetic.
type trial struct {
	Question
	arithmetic
	limit    float64 // deviations
	batch    []int
	place    int // of the batch
	claims   []Claim
	unjudged int
	tells    bool // whether anything else than zeros is right
}

// Check answers.
func Check(q Question) (*Report, error) {
	t, err := q.trial()
	if err != nil {
		return nil, err
	}
	t.run()
	r := &Report{Op: q.Spec.Op, Store: q.Outputs[0].Format.String(), Matrices: tensor.Size(t.batch), Unjudged: t.unjudged,
		Outputs: t.claims}
	switch wrong := t.wrong(); {
	case wrong != nil:
		r.Verdict = Fail
		r.Reason = fmt.Sprintf("%s: %d of %d are what no right kernel returns", wrong.Name, wrong.Violations, wrong.Elements)
		if f := t.fault(); f != nil {
			r.Fault, r.FaultID, r.Advice, r.Diagnosis = f.Name, f.ID, f.Advice, f.Name
		}
	case t.unjudged > 0 && t.unjudged == r.Matrices:
		r.Verdict = NoPower
		r.Reason = "not judged: " + q.Spec.why()
	case !t.tells:
		r.Verdict, r.Reason = NoPower, "what is right is zeros, or nothing: this data shows nothing"
	default:
		r.Verdict = Pass
	}
	return r, nil
}

// trial checks the shapes.
func (q Question) trial() (*trial, error) {
	shapes, err := q.Spec.shapes(q.Inputs)
	if err != nil {
		return nil, err
	}
	elements := 0
	for k, want := range shapes {
		if t := q.Outputs[k]; !slices.Equal(t.Shape, want) {
			return nil, fmt.Errorf("%s: shape %v: want %v", q.Spec.Outputs()[k][0], t.Shape, want)
		}
		elements += len(q.Outputs[k].Data)
	}
	format := q.Outputs[0].Format
	for _, t := range slices.Concat(q.Inputs, q.Outputs) {
		if t.Format == fp16.Int64 && !q.pivots(t) {
			return nil, fmt.Errorf("whole numbers of shape %v: want float32, float64 or a half type", t.Shape)
		}
	}
	t := &trial{Question: q, arithmetic: computed(format), limit: likely(elements)}
	last := q.Outputs[len(q.Outputs)-1].Shape
	axes := 2
	switch q.Spec.Op {
	case "eigvalsh", "svdvals", "lu_factor":
		axes = 1
	case "det", "slogdet", "logdet":
		axes = 0
	}
	if q.Spec.vector {
		axes = 1
	}
	t.batch = last[:len(last)-axes]
	return t, nil
}

// pivots reports whether a tensor has exchanges of rows.
func (q Question) pivots(t *tensor.Tensor) bool {
	return q.Spec.Op == "lu_factor" && t == q.Outputs[1] || q.Spec.Op == "lu_solve" && t == q.Inputs[2]
}

// run judges each matrix of the batch.
func (t *trial) run() {
	for t.place = range tensor.Size(t.batch) {
		in := t.matrices(t.Inputs)
		if slices.ContainsFunc(in, func(m matrix) bool { return !m.finite() || m.extreme() }) {
			t.unjudged++
			continue
		}
		t.one(in)
	}
}

// matrices are those of tensors at this place of the batch.
func (t *trial) matrices(of []*tensor.Tensor) (all []matrix) {
	for k, x := range of {
		vector := t.pivots(x) || t.Spec.vector && (k == 1 || x == t.Outputs[0])
		all = append(all, stacked(x, vector).of(t.place, t.batch))
	}
	return all
}

// one judges one matrix.
func (t *trial) one(in []matrix) {
	values := func(k int) []float64 { // of output k, one for each row
		v := t.Outputs[k]
		n := v.Shape[len(v.Shape)-1]
		return v.Data[t.place*n : (t.place+1)*n]
	}
	out := func(k int) matrix { return t.matrices(t.Outputs[k : k+1])[0] }
	value := func(k int) float64 { return t.Outputs[k].Data[t.place] }
	switch t.Spec.Op {
	case "cholesky":
		t.cholesky(in[0], out(0))
	case "solve_triangular", "triangular_solve":
		t.triangular(in[0], in[1], out(0))
	case "solve":
		t.solve(in[0], in[1], out(0))
	case "inv":
		t.inverse(in[0], out(0))
	case "qr":
		if t.Spec.Mode == "r" {
			t.alone(in[0], out(0))
		} else {
			t.qr(in[0], out(0), out(1))
		}
	case "eigh":
		t.eigh(in[0], values(0), out(1))
	case "eigvalsh":
		t.eigenvalues(in[0], values(0))
	case "svd":
		t.svd(in[0], out(0), values(1), out(2))
	case "svdvals":
		t.singular(in[0], values(0))
	case "lu":
		if !t.Spec.Pivot {
			t.lu(in[0], matrix{}, out(0), out(1))
		} else {
			t.lu(in[0], out(0), out(1), out(2))
		}
	case "lu_factor":
		t.packed(in[0], out(0), out(1))
	case "lu_solve":
		if order, ok := exchanged(in[2], in[0].rows); ok {
			a, squares := unpacked(in[0], order)
			t.solveBy(a, squares, in[1], out(0))
		} else {
			t.unjudged++
		}
	case "cholesky_solve":
		l := in[0]
		if t.Spec.Upper {
			l = l.transposed()
		}
		a, squares := squared(l)
		t.solveBy(a, squares, in[1], out(0))
	case "pinv":
		t.pinv(in[0], out(0))
	case "lstsq":
		t.lstsq(in[0], in[1], out(0))
	case "det":
		t.det(in[0], value(0))
	case "slogdet":
		t.slogdet(in[0], value(0), value(1))
	case "logdet":
		t.logdet(in[0], value(0))
	}
}

// better runs a claim on each form of a matrix that a kernel may take, and keeps the first that is right, or the
// first.
func (t *trial) better(forms []matrix, judge func(t *trial, a matrix)) {
	var kept *trial
	for _, a := range forms {
		own := *t
		own.claims = nil
		judge(&own, a)
		if kept == nil || own.wrong() == nil {
			kept = &own
		}
		if own.wrong() == nil {
			break
		}
	}
	t.unjudged, t.tells = kept.unjudged, kept.tells
	for _, c := range kept.claims {
		t.claim(c.Name).join(c)
	}
}

// wrong is the first claim that does not hold.
func (t *trial) wrong() *Claim {
	for k := range t.claims {
		if t.claims[k].Violations > 0 {
			return &t.claims[k]
		}
	}
	return nil
}

// claim is the row of that name.
func (t *trial) claim(name string) *Claim {
	for k := range t.claims {
		if t.claims[k].Name == name {
			return &t.claims[k]
		}
	}
	t.claims = append(t.claims, Claim{Name: name, Verdict: Pass})
	return &t.claims[len(t.claims)-1]
}

// join adds the row of another matrix.
func (c *Claim) join(o Claim) {
	c.Elements += o.Elements
	c.Violations += o.Violations
	c.Proved += o.Proved
	c.exact = o.exact
	c.spread += o.spread
	if o.Violations > 0 {
		c.Verdict = Fail
	}
	if c.Worst == nil || o.Worst != nil && o.Largest > c.Largest {
		c.Largest, c.Worst = o.Largest, o.Worst
	}
}

// within claims that a number, at a place of the matrix, is off by no more than a bound that is proved, and by no more
// deviations than right kernels are.
func (t *trial) within(name string, off, bound, deviation float64, at ...int) {
	t.spread(name, 1, off, bound, deviation, at...)
}

// spread is within of errors that are spread over a part of several numbers.
func (t *trial) spread(name string, part, off, bound, deviation float64, at ...int) {
	c := t.claim(name)
	limit := min(bound, float64(t.limit*deviation))
	if math.IsNaN(limit) {
		limit = 0
	}
	o := Claim{Elements: 1, exact: bound == 0, spread: part}
	if !(off <= limit) {
		o.Violations = 1
		if !(off <= bound) && !math.IsInf(bound, 1) {
			o.Proved = 1
		}
	}
	if off > 0 || off != off {
		o.Largest = math.MaxFloat64
		if r := off / limit; r < math.MaxFloat64 {
			o.Largest = r
		}
	}
	worst := &Worst{slices.Concat(tensor.Index(t.place, t.batch), at), encodable(off), limit}
	o.Worst = worst
	c.join(o)
}

// encodable is a number for JSON, which has no NaN and no infinity.
func encodable(v float64) float64 {
	if v-v != 0 {
		return math.MaxFloat64
	}
	return v
}

// exactly claims what has no errors.
func (t *trial) exactly(name string, holds bool, at ...int) {
	off := 0.0
	if !holds {
		off = math.Inf(1)
	}
	t.within(name, off, 0, 0, at...)
}

// likely is within without a bound.
func (t *trial) likely(name string, off, deviation float64, at ...int) {
	t.within(name, off, math.Inf(1), deviation, at...)
}

// column is likely of the norm of errors.
func (t *trial) column(name string, off []float64, deviation float64, at int) {
	all, squares, fourth := norm(off), 0.0, 0.0
	for _, v := range off {
		v /= all
		squares += float64(v * v)
		fourth += float64(v * v * v * v)
	}
	part := 1.0
	if fourth > 0 {
		part = float64(squares*squares) / float64(fourth*float64(len(off)))
	}
	t.spread(name, part, all, math.Inf(1), deviation, at)
}

// why says of which inputs no kernel returns anything right.
func (s *Spec) why() string {
	switch s.Op {
	case "cholesky":
		return "the matrix is not positive definite, or has NaN, infinite or extreme numbers"
	case "solve", "inv", "solve_triangular", "triangular_solve", "lu_solve", "cholesky_solve":
		return "the matrix is singular, or there are NaN, infinite or extreme numbers, or what is right overflows"
	case "pinv":
		return "a singular value may be cut or not, or the matrix has NaN, infinite or extreme numbers"
	case "lstsq":
		return "the columns are dependent but for roundings, or there are NaN, infinite or extreme numbers"
	case "lu", "lu_factor":
		return "a pivot is 0 but for roundings, or there are NaN, infinite or extreme numbers, or what is right overflows"
	case "det", "slogdet", "logdet":
		return "the matrix is singular to roundings, or has NaN, infinite or extreme numbers, or what is right overflows"
	}
	return "the matrix has NaN, infinite or extreme numbers"
}

// fault names what explains the outputs.
func (t *trial) fault() *table.Row {
	for _, f := range t.Question.faults() {
		o, err := f.question.trial()
		if err != nil {
			continue
		}
		o.arithmetic = t.arithmetic
		if f.unit > 0 {
			o.unit = f.unit
			if !t.everywhere() {
				continue
			}
		}
		o.run()
		if o.wrong() == nil && o.unjudged <= t.unjudged || f.claim != "" && f.claim == t.wrong().Name && t.only() {
			return table.Named(f.id, f.args...)
		}
	}
	return nil
}

// everywhere reports whether most of what has errors is wrong, and wrong in most of its numbers, as sums of few
// bits are.
func (t *trial) everywhere() bool {
	for _, c := range t.claims {
		if n := float64(c.Elements); !c.exact && (2*c.Violations < c.Elements || c.spread < float64(concentrated*n)) {
			return false
		}
	}
	return true
}

// only reports whether one claim alone does not hold.
func (t *trial) only() bool {
	n := 0
	for _, c := range t.claims {
		n += min(c.Violations, 1)
	}
	return n == 1
}
