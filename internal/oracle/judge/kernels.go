package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// Arguments are the names of an operation's tensors, as ATen calls them, in the order in which the
// graph takes them. The optional ones have a question mark.
var arguments = map[string]string{
	"layer_norm": "input weight? bias?", "group_norm": "input weight? bias?", "instance_norm": "input weight? bias?",
	"rms_norm": "input weight?", "batch_norm": "input weight? bias? running_mean? running_var?",
	"linear": "input weight bias?", "conv1d": "input weight bias?", "conv2d": "input weight bias?",
	"conv3d":           "input weight bias?",
	"conv_transpose1d": "input weight bias?", "conv_transpose2d": "input weight bias?",
	"conv_transpose3d": "input weight bias?",
	"addmm":            "input mat1 mat2", "baddbmm": "input batch1 batch2",
	"mm": "input mat2", "bmm": "input mat2", "matmul": "input other",
	"scaled_dot_product_attention": "query key value attn_mask?",
	"embedding":                    "weight input", "gather": "input index", "index_select": "input index",
	"where": "condition input other", "grid_sampler": "input grid",
	"scatter_add": "input index src", "index_add": "input index source",
	"scatter_reduce": "input index src", "index_reduce": "input index source",
	"swiglu": "gate up", "geglu": "gate up", "rotary_embedding": "input cos sin", "cross_entropy": "input target",
}

// chain adds a kernel that ATen has as several operations to a graph, and returns its output;
// false if it is none of [Chains].
func chain(g *graph.Graph, op string, attributes []byte, in []int) (int, bool, error) {
	read := func(to any) error {
		if len(attributes) == 0 {
			return nil
		}
		if err := attr.Read(attributes, to); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	}
	switch op {
	case "swiglu", "geglu":
		if err := read(&struct{}{}); err != nil {
			return 0, true, err
		}
		name := map[string]string{"swiglu": "silu", "geglu": "gelu"}[op]
		a, err := graph.Bind(name, nil)
		if err != nil {
			return 0, true, err
		}
		return g.Add(mul, "output", g.Add(a, name, in[0]), in[1]), true, nil
	case "rotary_embedding":
		var a struct {
			Interleaved int `json:"interleaved"`
		}
		if err := read(&a); err != nil {
			return 0, true, err
		}
		return g.Add(rotary{a.Interleaved != 0}, "output", in...), true, nil
	case "argsort":
		o := argsort{graph.Sort{Axis: -1}}
		if err := read(&o.Sort); err != nil {
			return 0, true, err
		}
		return g.Add(o, "output", in...), true, nil
	case "sort", "topk": // their numbers
		o, err := graph.Bind(op, attributes)
		if err != nil {
			return 0, true, err
		}
		return g.AddNode(o, "output", 2, in...)[0], true, nil
	case "cumprod":
		o := cumprod{}
		if err := read(&o); err != nil {
			return 0, true, err
		}
		return g.Add(o, "output", in...), true, nil
	case "cross_entropy":
		a := struct {
			Reduction string  `json:"reduction"`
			Ignore    int     `json:"ignore_index"`
			Smoothing float64 `json:"label_smoothing"`
		}{"none", -100, 0}
		if err := read(&a); err != nil {
			return 0, true, err
		}
		if !slices.Contains([]string{"none", "sum", "mean"}, a.Reduction) {
			return 0, true, fmt.Errorf("cross_entropy: reduction: %.60q: want none, sum or mean", a.Reduction)
		}
		if !(a.Smoothing >= 0 && a.Smoothing <= 1) {
			return 0, true, fmt.Errorf("cross_entropy: label_smoothing: %v: want a number from 0 to 1", a.Smoothing)
		}
		return g.Add(crossEntropy{a.Reduction, a.Ignore, a.Smoothing}, "output", in...), true, nil
	}
	return 0, false, nil
}

// Chains are the names of kernels that are several operations of the graph: swiglu is
// silu(gate)*up, geglu gelu(gate)*up, rotary_embedding as ONNX's, cross_entropy ATen's, with
// reduction none if nothing else is said; and argsort and cumprod, ATen's, which a graph has not.
func Chains() []string {
	return []string{"argsort", "cross_entropy", "cumprod", "geglu", "rotary_embedding", "swiglu"}
}

// Kernel returns the graph of one operation, by ATen's name and attributes (a JSON object), or of one
// of [Chains], for the tensors of those names, and the order in which it takes them. What is called
// input may be called self, as in ATen's schemas. A name that the operation does not have and one that
// is missing are errors.
func Kernel(op string, attributes []byte, names []string) (*graph.Graph, []string, error) {
	if !slices.Contains(Chains(), op) {
		if _, err := graph.Bind(op, attributes); err != nil {
			return nil, nil, err
		}
	}
	want, known := arguments[op]
	if !known {
		want = "input"
		if of, err := pointwise.ParseOp(op); err == nil && of != pointwise.TruncDivide {
			want = "input other?"
		} else if op == "cat" || op == "stack" || op == "einsum" {
			want = strings.Join(names, " ")
		}
	}
	var order []string
	for _, name := range strings.Fields(want) {
		bare, optional := strings.CutSuffix(name, "?")
		switch {
		case slices.Contains(names, bare):
			order = append(order, bare)
		case bare == "input" && slices.Contains(names, "self"): // its name in ATen's schemas
			order = append(order, "self")
		case !optional:
			return nil, nil, fmt.Errorf("%s: no tensor %s: want %s, of %.200q", op, bare, want, names)
		}
	}
	if len(order) < len(names) {
		return nil, nil, fmt.Errorf("%s: tensors %.200q: want %s", op, names, want)
	}
	if op == "instance_norm" || op == "group_norm" || op == "layer_norm" {
		if slices.Contains(order, "bias") && !slices.Contains(order, "weight") {
			return nil, nil, fmt.Errorf("%s: a bias without a weight: want both", op)
		}
	}
	g := graph.New(nil)
	var in []int
	for _, name := range order {
		in = append(in, g.Input(name))
	}
	out, is, err := chain(g, op, attributes, in)
	if err != nil {
		return nil, nil, err
	}
	if !is {
		bound, err := graph.Bind(op, attributes)
		if err != nil {
			return nil, nil, err
		}
		out = g.Add(bound, "output", in...)
	}
	g.Outputs = []int{out}
	return g, order, nil
}
