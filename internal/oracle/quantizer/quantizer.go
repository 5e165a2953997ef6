// Package quantizer judges kernels that write tensors in numbers of 8 bits and fewer, or read them.
//
// A quantizer with a stated rule is a function: its scales and elements are held to bits. What float32 arithmetic
// leaves open (a division or a product with a reciprocal, and what package quantize names beside it) is right in each
// of its ways, and the report says which ways give all numbers. What is wrong is compared with the same quantizer under
// each fault of the table.
//
//	s, err := quantize.Parse("mxfp8_e4m3", quantize.Options{Rule: "floor"})
//	r, err := quantizer.Check(quantizer.Question{Op: "quantize", Spec: s, Input: x, Output: got})
//	fmt.Println(r.Verdict, r.Fault)
package quantizer

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/tensor"
)

// Question is what a kernel read and wrote.
type Question struct {
	Op     string // quantize, of Input to Output, or dequantize, of Output to Input
	Spec   quantize.Spec
	Input  *tensor.Tensor // the numbers
	Output *quantize.Tensor
	Packed bool // codes came two a byte
	Global bool // there is a scale of scales

	shape []int
	grid  *quantize.Grid
}

// Verdicts.
const (
	Pass    = "PASS"
	Fail    = "FAIL"
	NoPower = "NO-POWER" // what is right is one number everywhere: a kernel that writes nothing may have it, too
)

// Report is the answer.
type Report struct {
	Verdict string   `json:"verdict"`
	Op      string   `json:"op"`
	Format  string   `json:"format"`
	Rule    string   `json:"rule,omitempty"`
	Outputs []Output `json:"outputs"` // a row for each of them
	Reason  string   `json:"reason,omitempty"`

	// Fault is what explains the outputs best, its row in the table of faults, and what to do; Diagnosis is the same as
	// Fault. Unexplained is how many numbers it leaves wrong.
	Fault       string `json:"fault,omitempty"`
	FaultID     string `json:"fault_id,omitempty"`
	Advice      string `json:"advice,omitempty"`
	Diagnosis   string `json:"diagnosis"`
	Unexplained int    `json:"unexplained,omitempty"`

	// Blind are faults that this data would not show.
	Blind []string `json:"blind,omitempty"`

	// Drift and Nearness are of stochastic rounding, in standard deviations of fair draws.
	Drift    float64 `json:"drift,omitempty"`
	Nearness float64 `json:"nearness,omitempty"`
}

// Output is a row of the report.
type Output struct {
	Name       string   `json:"name"` // scale, zero_point, data, or output of dequantize
	Verdict    string   `json:"verdict"`
	Elements   int      `json:"elements"`
	Violations int      `json:"violations"` // that no right kernel writes
	Ways       []string `json:"ways"`       // of float32 arithmetic that give all; none where several are mixed
	Worst      *Worst   `json:"worst,omitempty"`
}

// Worst is the first number that is wrong.
type Worst struct {
	Index []int    `json:"index"`
	Got   string   `json:"got"`
	Want  []string `json:"want"` // by each way
}

// deviations bound a fair kernel's statistics: two of them, of two sides each, are beyond 5.03 with a chance of one in
// a million, as the judge of kernels has it.
const deviations = 5.03

// Check answers.
func Check(q Question) (*Report, error) {
	var err error
	q.shape = q.Input.Shape
	if q.grid, err = q.Spec.Grid(q.shape); err != nil {
		return nil, err
	}
	r := &Report{Op: q.Op, Format: q.Spec.Name, Rule: string(q.Spec.Rule)}
	e, err := q.explain(&fault{spec: q.Spec}, math.MaxInt)
	if err != nil {
		return nil, err
	}
	r.Outputs, r.Drift, r.Nearness = q.outputs(e), e.Drift, e.Nearness
	switch {
	case e.Wrong() > 0:
		err = q.fails(r, e)
	case q.Spec.Rounding == quantize.Stochastic && max(math.Abs(e.Drift), math.Abs(e.Nearness)) > deviations:
		q.unfair(r, e)
	case one(e.Parts):
		r.Verdict, r.Reason = NoPower, "what is right is one number everywhere: a kernel that computes nothing has it, too"
	default:
		r.Verdict = Pass
		err = q.blind(r)
	}
	return r, err
}

// explain is what a quantizer explains of the outputs.
func (q *Question) explain(f *fault, most int) (*quantize.Explained, error) {
	t := q.Output
	if f.swap {
		swapped := *t
		swapped.Codes = quantize.Unpack(quantize.Pack(t.Codes, true), false)
		t = &swapped
	}
	if q.Op == "dequantize" {
		return f.spec.ExplainNumbers(t, q.Input, most)
	}
	return f.spec.Explain(q.Input, t, most)
}

// one reports whether all that is right is one number.
func one(parts []quantize.Part) bool {
	return !slices.ContainsFunc(parts, func(p quantize.Part) bool { return !p.One && p.Total > 0 })
}

// fails names what explains the outputs best.
func (q *Question) fails(r *Report, e *quantize.Explained) error {
	r.Verdict = Fail
	total := 0
	for _, p := range e.Parts {
		total += p.Total
	}
	r.Reason = fmt.Sprintf("%d of %d numbers are what no right kernel writes", e.Wrong(), total)
	// A fault is named if it explains most of what is wrong: more than half is the least that says so.
	left := (e.Wrong() - 1) / 2
	var best *fault
	for _, f := range q.faults() {
		of, err := q.explain(&f, left)
		if err != nil {
			return err
		}
		if n := of.Wrong(); n < left || n == left && best == nil {
			best, left = &f, n
		}
		if best != nil && left == 0 {
			break
		}
	}
	if q.Op == "quantize" && zeros(q) {
		r.name(table.Named("quantize.zeros"))
	} else if best != nil {
		r.name(best.row())
		r.Unexplained = left
	}
	return nil
}

// zeros reports whether all elements are 0.
func zeros(q *Question) bool {
	return !slices.ContainsFunc(q.Output.Codes, func(c uint8) bool { return q.Spec.Element.Decode(c) != 0 })
}

func (r *Report) name(of *table.Row) {
	r.Fault, r.FaultID, r.Advice, r.Diagnosis = of.Name, of.ID, of.Advice, of.Name
}

// unfair is the verdict on draws that are not by chance.
func (q *Question) unfair(r *Report, e *quantize.Explained) {
	r.Verdict = Fail
	r.Reason = fmt.Sprintf("each element is a neighbour, but their mean is %.1f standard deviations of fair draws "+
		"off, and they go with the nearer one by %.1f", e.Drift, e.Nearness)
	id := "quantize.drift"
	if math.Abs(e.Nearness) > math.Abs(e.Drift) {
		id = "quantize.not-drawn"
	}
	r.name(table.Named(id))
}

// blind lists the faults that these outputs would be right of in each way that such a fault is made.
func (q *Question) blind(r *Report) error {
	shown := map[string]bool{}
	for _, f := range q.faults() {
		id := f.row().ID
		if shown[id] {
			continue
		}
		e, err := q.explain(&f, 0)
		if err != nil {
			return err
		}
		if shown[id] = e.Wrong() > 0; shown[id] {
			r.Blind = slices.DeleteFunc(r.Blind, func(b string) bool { return b == id })
		} else if !slices.Contains(r.Blind, id) {
			r.Blind = append(r.Blind, id)
		}
	}
	return nil
}

// outputs are the rows of the report.
func (q *Question) outputs(e *quantize.Explained) (rows []Output) {
	for _, p := range e.Parts {
		o := Output{Name: p.Name, Verdict: Pass, Elements: p.Total, Violations: p.Wrong, Ways: p.Ways}
		if o.Ways == nil {
			o.Ways = []string{}
		}
		if p.Wrong > 0 {
			shape := q.shape
			if p.Name == "scale" || p.Name == "zero_point" {
				shape = q.grid.Shape
			}
			o.Verdict = Fail
			o.Worst = &Worst{Index: tensor.Index(p.First, shape), Got: p.Got, Want: p.Want}
		}
		rows = append(rows, o)
	}
	return rows
}
