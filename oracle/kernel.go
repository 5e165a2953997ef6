package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// Kernel is one call of a kernel on a device, for [CheckKernel].
type Kernel struct {
	// Op is an operation by ATen's name, such as softmax, or a chain: swiglu, geglu, rotary_embedding or cross_entropy
	// (docs/KERNELS.md). Attributes are its attributes in JSON, as [graph.Bind] has them.
	Op         string
	Attributes []byte
	// Graph, if it is not nil, is what the kernel computes, in place of Op: any graph with one output.
	Graph *graph.Graph
	// Inputs are the operation's tensors by their names in ATen, or the graph's by the names of its inputs, as the
	// kernel had them: each in the format of its numbers.
	Inputs map[string]*tensor.Tensor
	// Output is what the kernel returned, in the format in which it stores.
	Output *tensor.Tensor
	// Rounded are the steps whose results the kernel says it rounds to the inputs' format; nil to find out, empty for
	// none.
	Rounded []string
	// Brief asks for the verdict alone: what is wrong with an output that fails is not looked for, which takes most of
	// the time.
	Brief bool
}

// KernelReport is what [CheckKernel] found.
type KernelReport struct {
	Verdict  string // PASS, FAIL or NO-POWER
	Reason   string // why it does not pass, in one line
	Known    string // how it is known that an output fails: proved or odds
	Contract string // in words: what the kernel rounds, and in which form it computes
	Elements int    // of the output
	// Violations are elements that no right kernel returns. The worst of them, or the element that is farthest off, is
	// at Index: what the kernel returned, the exact value, and the interval of right kernels.
	Violations            int
	Index                 []int
	Got, Exact, Low, High string
	// Errors is the mean square of the errors over that of simulated right kernels.
	Errors float64
	Region string   // where errors are too large, if it is in one place
	Fault  string   // what explains the errors, if it is known
	Advice string   // and what to do
	Blind  []string // faults that these inputs would not show
}

// CheckKernel holds the output of a kernel to what right kernels may return: the interval of each element, and the
// errors of simulated right kernels on these very inputs (docs/KERNELS.md). An operation of which that is not
// known, and tensors that do not fit it, are errors.
func CheckKernel(k Kernel) (*KernelReport, error) {
	q := judge.Question{Graph: k.Graph, Output: k.Output, Brief: k.Brief}
	var order []string
	if k.Graph == nil {
		var names []string
		for name := range k.Inputs {
			names = append(names, name)
		}
		slices.Sort(names)
		var err error
		if q.Graph, order, err = judge.Kernel(k.Op, k.Attributes, names); err != nil {
			return nil, err
		}
	} else {
		for _, v := range k.Graph.Inputs {
			order = append(order, k.Graph.Values[v].Name)
		}
	}
	for _, name := range order {
		t := k.Inputs[name]
		if t == nil {
			return nil, fmt.Errorf("input %.60q is not given", name)
		}
		q.Inputs = append(q.Inputs, t)
	}
	if k.Output == nil {
		return nil, errors.New("the output is not given")
	}
	q.Double = judge.IsDouble(q.Inputs, q.Output)
	if k.Rounded != nil {
		q.Claimed = &judge.Contract{Round: k.Rounded}
	}
	r, err := judge.Check(q)
	if err != nil {
		return nil, err
	}
	found := &KernelReport{
		Verdict: r.Verdict, Reason: cmp.Or(r.Reason, r.Unjudged), Known: r.Known, Contract: r.Contract.String(),
		Elements: r.Elements, Violations: r.Violations, Errors: r.Errors, Region: r.Region, Fault: r.Fault,
		Advice: r.Advice, Blind: r.Blind,
	}
	if w := r.Worst; w != nil {
		found.Index, found.Got, found.Exact, found.Low, found.High = w.Index, w.Got, w.Exact, w.Low, w.High
	}
	return found, nil
}
