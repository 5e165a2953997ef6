package onnx_test

import (
	"archive/zip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

var suite = flag.String("onnx.cases", "testdata/cases.zip",
	"cases of the onnx package's suite, as interop/onnx/cases.py writes them")

var runtimes = flag.String("onnx.runtime", "testdata/runtime.zip",
	"cases of ONNX Runtime, as interop/onnx/runtime.py writes them")

// suiteCase is a row of the index.
type suiteCase struct {
	Name            string
	RTol, ATol      float64
	Inputs, Outputs []*string
}

// exception is a case of the suite that ends otherwise.
type exception struct {
	why   string
	err   string  // what the error is, or
	bound float64 // how far numbers may lie apart, relative to the greatest of them
}

// roundsBetween is that of attention in bfloat16: the suite rounds scores and weights to
// bfloat16 in between. Here it is one function, rounded once; the suite's is one or two units
// in the last place from it.
var roundsBetween = exception{why: "the suite rounds in between", bound: 0x1p-7}

// exceptions are all of them.
var exceptions = map[string]exception{
	"test_attention_3d_causal_bf16":           roundsBetween,
	"test_attention_4d_attn_mask_causal_bf16": roundsBetween,
	"test_attention_4d_causal_bf16":           roundsBetween,
	"test_attention_4d_causal_padded_kv_bf16": roundsBetween,
	"test_attention_4d_padded_kv_bf16":        roundsBetween,
	"test_dft_inverse": {
		why: "0, which is right, where the suite has its own rounding errors", bound: 0x1p-20,
	},
	"test_dft_inverse_opset19": {why: "the same", bound: 0x1p-20},
	"test_dynamicquantizelinear": {why: "a quotient just below 25.5, " +
		"which the suite rounds to it before it rounds it to 26", err: "output 0: number 5: 178: want 179"},
	"test_equal_string": {
		why: "strings", err: `constant "input_0", constant "input_1": string numbers: want a type that a graph holds`,
	},
	"test_equal_string_broadcast": {
		why: "strings", err: `constant "input_0", constant "input_1": string numbers: want a type that a graph holds`,
	},
	"test_if_opt": {
		why: "an optional sequence", err: `sequence/Optional that makes "else_opt"`,
	},
	"test_if_seq":          {why: "a sequence", err: `output "res": a sequence: not supported`},
	"test_loop13_seq":      {why: "a sequence", err: "input 2 is no tensor"},
	"test_loop16_seq_none": {why: "an optional sequence", err: "input 2 is no tensor"},
	"test_scan_sum": {
		why: "opset 8, which has batches", err: `Scan that makes "y, z": opset 8: want 9 or later`,
	},
	"test_identity_opt":      {why: "an optional sequence", err: "input 0 is no tensor"},
	"test_identity_sequence": {why: "a sequence", err: "input 0 is no tensor"},
}

// TestSuite runs the cases of ONNX's own suite. Whole numbers must be equal; others within
// the suite's tolerance.
func TestSuite(t *testing.T) {
	cases, entry := archived(t, *suite)
	excepted := 0
	for _, c := range cases {
		model, data := entry(c.Name+"/model.onnx"), entry(c.Name+"/data.onnx")
		got := errorText(c.run(model, data, 0))
		x, except := exceptions[c.Name]
		if !except {
			if got != "" {
				t.Errorf("%s: %s", c.Name, got)
			}
			continue
		}
		excepted++
		switch {
		case got == "":
			t.Errorf("%s: no exception, though %s", c.Name, x.why)
		case x.err != "" && !strings.HasPrefix(got, x.err):
			t.Errorf("%s: %q, want %q", c.Name, got, x.err)
		case x.bound > 0:
			if err := c.run(model, data, x.bound); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	t.Logf("%d cases, %d exceptions", len(cases), excepted)
}

// archived returns the cases of an archive, and what reads its entries.
func archived(t *testing.T, path string) ([]suiteCase, func(name string) []byte) {
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { z.Close() })
	entry := func(name string) []byte {
		f, err := z.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var index struct{ Cases []suiteCase }
	if err := json.Unmarshal(entry("index.json"), &index); err != nil || len(index.Cases) < 40 {
		t.Fatal(len(index.Cases), err)
	}
	return index.Cases, entry
}

// TestRuntime: ONNX Runtime's own operations, and others with random attributes, are what ONNX Runtime makes of
// them: whole numbers in every bit, and others within its rounding.
func TestRuntime(t *testing.T) {
	cases, entry := archived(t, *runtimes)
	for _, c := range cases {
		if err := c.run(entry(c.Name+"/model.onnx"), entry(c.Name+"/data.onnx"), 0); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	t.Logf("%d cases", len(cases))
}

// run evaluates a case and says what is wrong with the result, by the suite's tolerance or by
// a bound relative to the greatest number.
func (c suiteCase) run(model, data []byte, bound float64) error {
	of, err := constants(data)
	if err != nil {
		return err
	}
	m, err := read(model)
	if err != nil {
		return err
	}
	given := map[string]onnx.Given{}
	var in []*tensor.Tensor
	var types []graph.Type
	for k, name := range c.Inputs {
		if name == nil {
			return fmt.Errorf("input %d is no tensor", k)
		}
		if k >= len(m.Inputs) {
			continue
		}
		x := of[*name]
		given[m.Inputs[k].Name] = onnx.Given{Value: x}
		in, types = append(in, x), append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	g, _, err := m.Graph(given)
	if err != nil {
		return err
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		return err
	}
	out, err := p.Run(new(graph.Run), in...)
	if err != nil {
		return err
	}
	if err := planned(g, types, in, out); err != nil {
		return err
	}
	for k, name := range c.Outputs {
		if name == nil {
			return fmt.Errorf("output %d is no tensor", k)
		}
		if err := c.compare(out[k], of[*name], bound); err != nil {
			return fmt.Errorf("output %d: %w", k, err)
		}
	}
	return nil
}

// planned says where a plan of the graph has other bits than out.
func planned(g *graph.Graph, types []graph.Type, in, out []*tensor.Tensor) error {
	p, err := plan.New(g, graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	var again []*tensor.Tensor
	for _, t := range out {
		again = append(again, tensor.New(t.Format, t.Shape...))
	}
	if err := p.Run(nil, noise.Time{}, again, in); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	for k, t := range out {
		for i, v := range t.Data {
			if math.Float64bits(v) != math.Float64bits(again[k].Data[i]) {
				return fmt.Errorf("plan: output %d: number %d is %v: want %v", k, i, again[k].Data[i], v)
			}
		}
	}
	return nil
}

func (c suiteCase) compare(got, want *tensor.Tensor, bound float64) error {
	far := 0.0
	for _, w := range want.Data {
		if bound > 0 {
			far = max(far, bound*math.Abs(w))
		}
	}
	if !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("shape %v: want %v", got.Shape, want.Shape)
	}
	if got.Format != want.Format {
		return fmt.Errorf("%v numbers: want %v", got.Format, want.Format)
	}
	for i, w := range want.Data {
		v := got.Data[i]
		near := v == w || v != v && w != w
		if want.Format != fp16.Int64 {
			near = near || math.Abs(v-w) <= max(c.ATol+c.RTol*math.Abs(w), far)
		}
		if !near {
			return fmt.Errorf("number %d: %v: want %v", i, v, w)
		}
	}
	return nil
}

// constants returns the constants of a model that has no nodes.
func constants(b []byte) (map[string]*tensor.Tensor, error) {
	m, err := read(b)
	if err != nil {
		return nil, err
	}
	g, _, err := m.Graph(nil)
	if err != nil {
		return nil, err
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float32})
	if err != nil {
		return nil, err
	}
	out, err := p.Run(new(graph.Run))
	of := map[string]*tensor.Tensor{}
	for k := range out {
		of[m.Outputs[k]] = out[k]
	}
	return of, err
}
