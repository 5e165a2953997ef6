package gradient

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// backward is one of ATen's backward operations: the forward's, and what its tensors are there.
type backward struct {
	op      string
	given   string   // the name of the gradient by the output
	tensors names    // ATen's names of others: an input of the forward, saved.NAME, or "" for what nothing reads
	grads   []string // the inputs whose gradients are returned, in order
	passed  []string // attributes of the forward
	ignored []string // attributes that change nothing
	// like are inputs of the forward that the backward is not given, since no gradient reads their numbers.
	like likes
	// set changes attributes, and refuses those of which it is not known what they do.
	set func(a attributes) error
}

type attributes map[string]json.RawMessage

// likes are shapes of inputs, by name.
type likes map[string]func(t map[string]*tensor.Tensor, a attributes) []int

type names = map[string]string

// number is a whole number among attributes.
func (a attributes) number(name string) (n int) {
	if json.Unmarshal(a[name], &n) != nil {
		return 0
	}
	return n
}

func shapeOf(name string) func(t map[string]*tensor.Tensor, a attributes) []int {
	return func(t map[string]*tensor.Tensor, _ attributes) []int {
		if t[name] == nil {
			return nil
		}
		return t[name].Shape
	}
}

// channelsOf is one number for each channel, or for each of the first axis.
func channelsOf(name string, axis int) func(t map[string]*tensor.Tensor, a attributes) []int {
	return func(t map[string]*tensor.Tensor, _ attributes) []int {
		if t[name] == nil || len(t[name].Shape) <= axis {
			return nil
		}
		return t[name].Shape[axis : axis+1]
	}
}

func ofSelf(op string, passed ...string) backward {
	return backward{op: op, given: "grad_output", tensors: names{"self": "input"}, grads: []string{"input"},
		passed: passed}
}

func ofOutput(op string, passed ...string) backward {
	return backward{op: op, given: "grad_output", tensors: names{"output": "saved.output"}, grads: []string{"input"},
		passed: passed, ignored: []string{"input_dtype"},
		like: likes{"input": shapeOf("output")}}
}

func ofAttention(out, lse string) backward {
	return backward{op: "scaled_dot_product_attention", given: out,
		tensors: names{"query": "query", "key": "key", "value": "value", "out": "saved.output", lse: "saved.lse"},
		grads:   []string{"query", "key", "value"}, passed: []string{"is_causal", "scale"},
		ignored: []string{"dropout_p"}, set: func(a attributes) error {
			var p float64
			if json.Unmarshal(a["dropout_p"], &p) == nil && p != 0 {
				return fmt.Errorf("dropout_p: %v: want 0", p)
			}
			return nil
		}}
}

// backwards are those that are known, by ATen's names.
var backwards = map[string]backward{
	"native_layer_norm_backward": {op: "layer_norm", given: "grad_out",
		tensors: names{"input": "input", "mean": "saved.mean", "rstd": "saved.rstd", "weight": "weight", "bias": "bias"},
		grads:   []string{"input", "weight", "bias"}, passed: []string{"normalized_shape"},
		ignored: []string{"output_mask"}},
	"_fused_rms_norm_backward": {op: "rms_norm", given: "grad_out",
		tensors: names{"input": "input", "rstd": "saved.rstd", "weight": "weight"},
		grads:   []string{"input", "weight"}, passed: []string{"normalized_shape"}, ignored: []string{"output_mask"}},
	"native_group_norm_backward": {op: "group_norm", given: "grad_out",
		tensors: names{"input": "input", "mean": "saved.mean", "rstd": "saved.rstd", "weight": "weight"},
		grads:   []string{"input", "weight", "bias"}, passed: []string{"num_groups"},
		ignored: []string{"N", "C", "HxW", "output_mask"},
		like:    likes{"bias": shapeOf("weight")}, set: func(a attributes) error {
			if g := a["group"]; g != nil {
				a["num_groups"] = g
				delete(a, "group")
			}
			return nil
		}},
	"native_batch_norm_backward": {op: "batch_norm", given: "grad_out",
		tensors: names{"input": "input", "weight": "weight", "save_mean": "saved.mean", "save_invstd": "saved.rstd",
			"running_mean": "", "running_var": ""},
		grads: []string{"input", "weight", "bias"}, passed: []string{"training"},
		ignored: []string{"eps", "output_mask"},
		like:    likes{"bias": shapeOf("weight")}, set: func(a attributes) error {
			train := a["train"]
			delete(a, "train")
			if a["training"] = json.RawMessage("true"); string(train) != "true" {
				return fmt.Errorf("train: %.20s: want true, or batch_norm with --backward", train)
			}
			return nil
		}},
	"_softmax_backward_data":     ofOutput("softmax", "dim"),
	"_log_softmax_backward_data": ofOutput("log_softmax", "dim"),
	"sigmoid_backward":           ofOutput("sigmoid"),
	"tanh_backward":              ofOutput("tanh"),
	"gelu_backward":              ofSelf("gelu", "approximate"),
	"silu_backward":              ofSelf("silu"),
	"mish_backward":              ofSelf("mish"),
	"hardswish_backward":         ofSelf("hardswish"),
	"leaky_relu_backward": {op: "leaky_relu", given: "grad_output", tensors: names{"self": "input"},
		grads: []string{"input"}, passed: []string{"negative_slope"},
		ignored: []string{"self_is_result"}},
	"hardtanh_backward": ofSelf("hardtanh", "min_val", "max_val"),
	"softplus_backward": ofSelf("softplus", "beta", "threshold"),
	"threshold_backward": {op: "relu", given: "grad_output", tensors: names{"self": "input"}, grads: []string{"input"},
		set: func(a attributes) error {
			var at float64
			if t := a["threshold"]; t != nil && (json.Unmarshal(t, &at) != nil || at != 0) {
				return fmt.Errorf("threshold: %.20s: want 0", t)
			}
			delete(a, "threshold")
			return nil
		}},
	"embedding_dense_backward": {op: "embedding", given: "grad_output", tensors: names{"indices": "input"},
		grads: []string{"weight"}, passed: []string{"padding_idx"},
		ignored: []string{"num_weights", "scale_grad_by_freq"},
		like: likes{"weight": func(t map[string]*tensor.Tensor, a attributes) []int {
			d := t["grad_output"]
			if d == nil || len(d.Shape) == 0 {
				return nil
			}
			return []int{a.number("num_weights"), d.Shape[len(d.Shape)-1]}
		}}, set: func(a attributes) error {
			if string(a["scale_grad_by_freq"]) == "true" {
				return fmt.Errorf("scale_grad_by_freq: true: want false")
			}
			return nil
		}},
	"convolution_backward": {op: "conv2d", given: "grad_output", tensors: names{"input": "input", "weight": "weight"},
		grads:   []string{"input", "weight", "bias"},
		passed:  []string{"stride", "padding", "dilation", "groups"},
		ignored: []string{"bias_sizes", "output_padding", "transposed", "output_mask"},
		like:    likes{"bias": channelsOf("weight", 0)}, set: func(a attributes) error {
			if string(a["transposed"]) == "true" {
				return fmt.Errorf("transposed: true: want false")
			}
			return nil
		}},
	"max_pool2d_with_indices_backward": {op: "max_pool2d", given: "grad_output",
		tensors: names{"self": "input", "indices": ""}, grads: []string{"input"},
		passed: []string{"kernel_size", "stride", "padding", "dilation", "ceil_mode"}},
	"_scaled_dot_product_flash_attention_for_cpu_backward": ofAttention("grad_out", "logsumexp"),
	"_scaled_dot_product_flash_attention_backward":         ofAttention("grad_out", "logsumexp"),
	"_scaled_dot_product_efficient_attention_backward":     ofAttention("grad_out_", "logsumexp"),
}

// IsATen reports whether an operation is one of ATen's backward ones that are known.
func IsATen(op string) bool { _, is := backwards[op]; return is }

// Reads reports whether one of ATen's backward operations has a tensor of that name among those that it is given.
func Reads(op, name string) bool { _, is := backwards[op].tensors[name]; return is }

// ATen returns the question that one of ATen's backward operations is, of its tensors and attributes by their names in
// the schema, and its outputs in order, nil for those that it does not return.
func ATen(
	op string, attributesJSON []byte, tensors map[string]*tensor.Tensor, outputs []*tensor.Tensor,
) (*Question, error) {
	b, known := backwards[op]
	if !known {
		return nil, fmt.Errorf("unknown backward operation %.60q", op)
	}
	a := attributes{}
	if len(attributesJSON) > 0 {
		if err := json.Unmarshal(attributesJSON, &a); err != nil {
			return nil, fmt.Errorf("%s: attributes: want an object", op)
		}
	}
	if b.set != nil {
		if err := b.set(a); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	q, err := b.question(a, tensors, outputs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return q, nil
}

// question makes the question of attributes that are set.
func (b *backward) question(
	a attributes, tensors map[string]*tensor.Tensor, outputs []*tensor.Tensor,
) (*Question, error) {
	q := &Question{GradOutputs: []*tensor.Tensor{tensors[b.given]}, Grads: map[string]*tensor.Tensor{},
		Saved: map[string]*tensor.Tensor{}}
	if q.GradOutputs[0] == nil {
		return nil, fmt.Errorf("no tensor %s: want the gradient by the output", b.given)
	}
	in := map[string]*tensor.Tensor{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		as, known := b.tensors[name]
		switch {
		case name == b.given || as == "" && known:
		case !known:
			return nil, fmt.Errorf("tensor %.60q: want %v", name, slices.Sorted(maps.Keys(b.tensors)))
		case len(as) > 6 && as[:6] == "saved.":
			q.Saved[as[6:]] = tensors[name]
		default:
			in[as] = tensors[name]
		}
	}
	if len(outputs) > len(b.grads) {
		return nil, fmt.Errorf("%d outputs: want %d, the gradients by %v", len(outputs), len(b.grads), b.grads)
	}
	for k, y := range outputs {
		if y != nil {
			q.Grads[b.grads[k]] = y
		}
	}
	for name, like := range b.like {
		shape := like(tensors, a)
		if _, there := in[name]; !there && shape != nil {
			in[name] = tensor.New(q.GradOutputs[0].Format, shape...)
		}
	}
	passed := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		switch {
		case slices.Contains(b.passed, name):
			passed[name] = a[name]
		case !slices.Contains(b.ignored, name):
			return nil, fmt.Errorf("attribute %.60q: want %v", name, b.passed)
		}
	}
	text, err := json.Marshal(passed)
	if err != nil {
		return nil, err
	}
	g, order, err := Kernel(b.op, text, slices.Sorted(maps.Keys(in)))
	if err != nil {
		return nil, err
	}
	q.Graph = g
	for _, name := range order {
		x := in[name]
		if name == "input" && b.op == "embedding" {
			x = tensor.Of(fp16.Int64, x.Data, x.Shape...)
		}
		q.Inputs = append(q.Inputs, x)
	}
	return q, nil
}
