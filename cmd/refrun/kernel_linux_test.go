package main

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

var memoryAttention = flag.Bool("kernel.attention", false,
	"TestKernelMemory judges an attention of 2 x 8 x 1024 x 64 too")

// TestKernelMemory: what one kernel's judging holds at a time, as the system counts it, is less than four
// times the tensors, of 8 bytes a number as they are read.
func TestKernelMemory(t *testing.T) {
	all := map[string][][]int{"matmul": {{1024, 1024}, {1024, 1024}}}
	if *memoryAttention {
		x := []int{2, 8, 1024, 64}
		all["scaled_dot_product_attention"] = [][]int{x, x, x}
	}
	for op, shapes := range all {
		path := t.TempDir() + "/kernel.safetensors"
		names := []string{"query", "key", "value"}
		if len(shapes) == 2 {
			names = []string{"input", "other"}
		}
		bytes := writeRight(t, path, op, names, shapes)
		r, seconds, peak := process(t, "kernel", path, "--op", op)
		if r.Code != cli.ExitOK {
			t.Errorf("%s: exit code %d, %s%s", op, r.Code, r.Stderr, r.Stdout)
		}
		if peak >= 4*bytes {
			t.Errorf("%s of %d MB of tensors takes %d MB: want less than four times", op, bytes/1e6, peak/1e6)
		}
		t.Logf("%s: %d MB of %d MB of tensors, %.1f s of the processors", op, peak/1e6, bytes/1e6, seconds)
	}
}

// writeRight writes a bfloat16 kernel's inputs and the nearest numbers to what it should return, and returns
// how many bytes they have in float64.
func writeRight(t *testing.T, path, op string, names []string, shapes [][]int) (bytes int64) {
	t.Helper()
	g, _, err := judge.Kernel(op, nil, names)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var in []*tensor.Tensor
	var types []graph.Type
	for _, shape := range shapes {
		x := tensor.New(fp16.Float64, shape...)
		for i := range x.Data {
			x.Data[i] = fp16.BFloat16.Round(r.NormFloat64())
		}
		in, types = append(in, x), append(types, graph.Type{Shape: shape, Format: fp16.Float64})
	}
	p, err := g.Infer(graph.Mode{Precision: fp16.Float64}, types...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(&graph.Run{}, in...)
	if err != nil {
		t.Fatal(err)
	}
	fp16.BFloat16.RoundSlice(out[0].Data, out[0].Data)
	var stored []*safetensors.Tensor
	for k, x := range append(in, out[0]) {
		s, err := safetensors.OfFloat64s(append(names, "output")[k], safetensors.DTypeOf(fp16.BFloat16), x.Shape, x.Data)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, s)
		bytes += 8 * int64(len(x.Data))
	}
	if err := safetensors.WriteFile(path, stored, nil); err != nil {
		t.Fatal(err)
	}
	return bytes
}
