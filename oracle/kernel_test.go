package oracle

import (
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// TestCheckKernel: an operation by its name and a graph of it have one answer, and what is not given is an error.
func TestCheckKernel(t *testing.T) {
	x, y := tensor.New(fp16.Float32, 4, 16), tensor.New(fp16.Float32, 4, 16)
	for i := range x.Data {
		x.Data[i] = float64(i*i%29) / 8
		y.Data[i] = fp16.Float32.Round(1 / (1 + math.Exp(-x.Data[i])))
	}
	g := graph.New(nil)
	op, err := graph.Bind("sigmoid", nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = []int{g.Add(op, "y", g.Input("input"))}
	in := map[string]*tensor.Tensor{"input": x}
	byName, byGraph := Kernel{Op: "sigmoid", Inputs: in, Output: y}, Kernel{Graph: g, Inputs: in, Output: y}
	for _, k := range []Kernel{byName, byGraph} {
		if r, err := CheckKernel(k); err != nil || r.Verdict != "PASS" || r.Elements != 64 {
			t.Errorf("%q: %+v, %v", k.Op, r, err)
		}
		k.Output = y.Clone()
		k.Output.Data[7] = 0.25
		r, err := CheckKernel(k)
		if err != nil || r.Verdict != "FAIL" || r.Violations != 1 || r.Known != "proved" || r.Got != "0.25" ||
			len(r.Index) != 2 || r.Index[1] != 7 {
			t.Errorf("%q: %+v, %v", k.Op, r, err)
		}
	}
	claimed := byName
	claimed.Rounded = []string{"no such step"}
	for want, k := range map[string]Kernel{
		`input "input" is not given`: {Graph: g, Output: y},
		"the output is not given":    {Op: "sigmoid", Inputs: in},
		"no such step":               claimed,
		"unknown":                    {Op: "sigmoit", Inputs: in, Output: y},
	} {
		if _, err := CheckKernel(k); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
}
