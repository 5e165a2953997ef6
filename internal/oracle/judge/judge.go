package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// Question is one evaluation of a graph and what a kernel made of it.
type Question struct {
	Graph *graph.Graph // with one output
	// Inputs are those of the graph, as the kernel had them: each in the format of its numbers, or of
	// integers.
	Inputs []*tensor.Tensor
	// Output is what the kernel returned, in the format in which it stores.
	Output *tensor.Tensor
	// Claimed is how the kernel says it computes; nil to find out.
	Claimed *Contract
	// Written is set if the graph says by casts where results of operations are rounded. Then the form of the
	// operations is looked for, and what kernels round inside of them, which operations of one kind do alike.
	Written bool
	// Operands is the format to which all products round their operands, tf32, in any of the ways of devices; ""
	// is none. It says so of a written graph.
	Operands string
	// Narrow is the format to which steps may be rounded. Float64, the zero value, is that of
	// the narrowest input.
	Narrow fp16.Format
	// Double is set of kernels that compute in float64, see double.go; others compute in float32.
	Double bool
	// Shallow does not try, for each step, the fault that it alone is rounded.
	Shallow bool
	// WideSums says that a kernel which adds numbers to places that an index names keeps these sums in float32: to
	// round each addition, as atomic additions to half numbers do, is a fault. It is so of gradients, where small ones
	// are lost.
	WideSums bool
	// Attends says that a logsumexp is the lse of an attention: its exp is that of the attention, in each of its forms.
	Attends bool
	// Sample asks for a part of a large output whose rows can be judged by themselves: the report says which.
	Sample bool
	// Inexact are inputs that a kernel has computed itself, of numbers that nobody knows: draws, of whose logarithm and
	// cosine each library has its own. Each is up to two units in the last place of float32 from what is given here.
	Inexact []bool
	// Until, if it is set, is when judging ends with the rows that it has come to, which are drawn.
	Until time.Time
	// Brief asks for the verdict: of an output that fails the causes are not looked for, which take most of the time,
	// and the contract is any that fails.
	Brief bool

	// Axes are the names of the output's axes, nil for those that follow from the graph.
	Axes []string
	// Truth, if not nil, is what exact arithmetic gives, without the roundings of a contract: for the figures of
	// [Many].
	Truth func() ([]float64, error)

	built built // the fault that the graph's steps have, for the question whether it explains the output
	whole []int // of a piece: the shape of the whole output
	wide  bool  // whether no bounds are asked for, nor float64, see nearly
	// integers is set of an output of whole numbers, whose errors are counted in ones.
	integers bool
	offset   int   // of a piece: where it begins in it
	at       []int // of a sample: the row of the output that each row was
	kept     *again
	// everywhere takes a rounding of some elements for one of all
	everywhere bool
}

// Verdicts.
const (
	Pass    = "PASS"
	Fail    = "FAIL"
	NoPower = "NO-POWER" // this data would not tell a right kernel from one that returns zeros, or a constant
)

// Report is the answer.
type Report struct {
	Verdict  string   `json:"verdict"`
	Store    string   `json:"store"`
	Elements int      `json:"elements"`
	Contract Contract `json:"contract"` // under which the output is right, or fits best
	Claimed  bool     `json:"claimed"`  // whether it is the claimed one
	// Reason is why it does not pass, in one line.
	Reason string `json:"reason,omitempty"`
	// Known is how it is known that an output fails: report.Proved or report.ByOdds.
	Known string `json:"known,omitempty"`
	// Chance is the chance that a right kernel's errors are as unlikely as these in any of the statistics: beyond one in a
	// million they fail. It is 0 of what is proved.
	Chance float64 `json:"chance"`
	// Unjudged is why nothing was held against the output; then all figures are 0.
	Unjudged string `json:"unjudged,omitempty"`
	// Sample says which rows were judged; nil if all were.
	Sample *Sample `json:"sample,omitempty"`
	// Violations are elements that no right kernel returns.
	Violations int    `json:"violations"`
	Worst      *Worst `json:"worst,omitempty"`
	// Flips are elements that are not the exact value's nearest number; Expected is how many
	// simulated right kernels have at most.
	Flips    int `json:"flips"`
	Expected int `json:"flips_of_right_kernels"`
	// Errors is the mean square of the errors over that of simulated right kernels: near 1 or below.
	Errors float64 `json:"errors"`
	// Power is the mean square from which on errors everywhere would be seen; 0 if right kernels make no errors.
	Power float64 `json:"power,omitempty"`
	// Region is where errors are too large, if it is in one place.
	Region string `json:"region,omitempty"`
	// Fault is the name of the fault that explains the errors, and Advice what to do.
	Fault string `json:"fault,omitempty"`
	// FaultID is its row of the table of faults, one of [Faults] or kernel.step-rounded: and the step's name.
	FaultID string `json:"fault_id,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// Blind are faults that these inputs would not show.
	Blind []string `json:"blind,omitempty"`
	// Unseen is set if the output does not fail and yet is not judged: zeros would pass though they are wrong, or
	// it is not known what right kernels return of some elements.
	Unseen bool `json:"-"`
	// Untried is how many steps of a long graph were not tried as the one that alone is rounded.
	Untried int `json:"steps_not_tried_alone,omitempty"`
	// Off is how far the output is from what is right, see Distance, in places of the coarser of its format and that of
	// steps. What was cut into pieces has that of the first.
	Off float64 `json:"-"`
	// Order is the order of k in which a product was summed, of those that were tried; nil of other kernels.
	Order *report.Order `json:"order,omitempty"`
	// Close is what torch.testing.assert_close with its defaults finds: how many elements are off.
	Close int `json:"assert_close_mismatches"`
}

// Worst is the element farthest outside its interval, or farthest off.
type Worst struct {
	Index []int  `json:"index"`
	Got   string `json:"got"`
	Exact string `json:"exact"`
	Low   string `json:"low"`
	High  string `json:"high"`
}

// Check answers. A graph that does not fit the inputs, one with an operation of which it is not
// known what right kernels return, and a claimed step that there is not are errors.
//
// Of a large question the contract and the faults are looked for in its first rows, and the others are
// held to that contract.
func Check(q Question) (*Report, error) {
	if len(q.Graph.Outputs) != 1 {
		return nil, fmt.Errorf("%d outputs: want one", len(q.Graph.Outputs))
	}
	q.Graph = q.withScalars()
	types, err := q.types()
	if err != nil {
		return nil, err
	}
	if n := q.placesOf(); n != nil {
		return q.inOrder(n)
	}
	for _, n := range q.Graph.Nodes {
		if o, is := n.Op.(crossEntropy); is { // the only node of its graph
			if err := o.classes(q.Inputs[0], q.Inputs[1]); err != nil {
				return nil, err
			}
		}
	}
	if q.Narrow == fp16.Float64 {
		q.Narrow = q.narrowest()
	}
	want := types[q.Graph.Outputs[0]]
	if !slices.Equal(want.Shape, q.Output.Shape) {
		return nil, fmt.Errorf("output of shape %v: want %v", q.Output.Shape, want.Shape)
	}
	store := q.Output.Format
	if len(q.Output.Data) == 0 {
		return &Report{Verdict: NoPower, Store: store.String(), Claimed: q.Claimed != nil,
			Reason: fmt.Sprintf("the output has shape %v: it has no element that could be judged", q.Output.Shape)}, nil
	}
	if store == fp16.Int64 { // of which every one is a float64 number
		q.integers = true
		q.Output = &tensor.Tensor{Format: fp16.Float64, Shape: q.Output.Shape, Data: q.Output.Data}
	}
	all := q.Output.Shape
	q = *q.sampled(types)
	if q.at != nil {
		if types, err = q.types(); err != nil {
			return nil, err
		}
	}
	q.whole, q.kept = q.Output.Shape, new(again)
	first, rest := q.pieces(types)
	if err := first.fits(first.simulations()); err != nil {
		return nil, err
	}
	t, err := first.search()
	if err != nil {
		return nil, err
	}
	t, judged, err := t.with(rest)
	if err != nil {
		return nil, err
	}
	r := q.report(t)
	if q.at != nil {
		if rest == nil {
			judged = q.at
		}
		r.Sample = q.sample(judged, all[0])
	}
	r.Store = store.String()
	if r.Verdict == Pass && r.Contract.Winograd == 0 && !q.Double {
		r.Order = q.order()
	}
	return r, nil
}
