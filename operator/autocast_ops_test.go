package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// opCase is an entry of testdata/autocast/SET/ops/index.json: one operation that
// PyTorch ran under autocast.
type opCase struct {
	File, Op string
	Attrs    struct {
		Stride, Padding int
		NumGroups       int     `json:"num_groups"`
		KernelSize      int     `json:"kernel_size"`
		ScaleFactor     int     `json:"scale_factor"`
		P               float64 // of dropout2d
	}
	Inputs []string
}

// TestAutocastOps holds every operation that PyTorch's CPU ran under autocast to
// ours in the same mode. An element whose exact value is farther from a rounding
// boundary than float32 arithmetic may err must be ours: all of them are, where
// 99.9 % would do. The others must be within that error, and one ulp at most from
// ours unless the error is more (where terms cancel). The known exceptions of
// activations are counted, and kernels that round every operation to the half
// type are compared with a model of their own.
func TestAutocastOps(t *testing.T) {
	for _, d := range devices {
		t.Run(d.set, func(t *testing.T) {
			folder := filepath.Join("../testdata/autocast", d.set, "ops")
			data, err := os.ReadFile(filepath.Join(folder, "index.json"))
			if err != nil {
				t.Fatal(err)
			}
			var index struct{ Cases []opCase }
			if err := json.Unmarshal(data, &index); err != nil || len(index.Cases) == 0 {
				t.Fatalf("no operations: %v", err)
			}
			sums := counts{}
			for _, c := range index.Cases {
				if c.Op == "convex" || c.Op == "residual" || c.Op == "scaled" {
					continue // a rollout's: oracle.TestAutocastPolicies
				}
				f, err := safetensors.Open(filepath.Join(folder, c.File))
				if err != nil {
					t.Fatal(err)
				}
				d.checkOp(t, c, f, sums)
			}
			sums.report(t)
		})
	}
}

func (d device) checkOp(t *testing.T, c opCase, f *safetensors.File, sums counts) {
	t.Helper()
	name := strings.TrimSuffix(c.File, ".safetensors")
	if strings.HasPrefix(name, "act_") {
		d.checkActivation(t, name, c.Op, f, sums)
		return
	}
	theirs := readAsStored(t, f, "out")
	if c.Op == "add" {
		a, b := readAsStored(t, f, "a"), readAsStored(t, f, "b")
		y := joined(t, d.mode, graph.Addition, a, b)
		sums.add(t, "sum", name, compare(t, name, y, theirs, exactly(y.Data)))
		return
	}
	l, x, draws := c.layer(t, f)
	kind, got := d.check(t, name, l, x, theirs, draws)
	sums.add(t, kind, name, got)
}

// layer returns the operation as a layer, its input and its draws.
func (c opCase) layer(t *testing.T, f *safetensors.File) (l layer, x *tensor.Tensor, draws [][]float64) {
	t.Helper()
	param := func(name string) *Param {
		if !slices.Contains(c.Inputs, name) {
			return nil
		}
		raw, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		p := newParam(name, raw.Shape...)
		if p.Data, err = raw.Float64s(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	name := strings.TrimSuffix(c.File, ".safetensors")
	if slices.Contains(c.Inputs, "x") {
		x = readAsStored(t, f, "x")
	}
	switch c.Op {
	case "conv2d", "conv_transpose2d":
		l = &conv2d{name: name, weight: param("weight"), bias: param("bias"), transposed: c.Op == "conv_transpose2d",
			geometry: conv.Square(c.Attrs.Stride, c.Attrs.Padding, conv.Zeros)}
	case "instance_norm", "batch_norm", "group_norm", "layer_norm":
		l = &normalization{eps: epsilon, name: name, kind: strings.TrimSuffix(c.Op, "_norm"), groups: c.Attrs.NumGroups,
			weight: param("weight"), bias: param("bias"), mean: param("mean"), variance: param("variance")}
	case "avg_pool2d":
		l = &resample{name: name, mode: "pool", factor: c.Attrs.KernelSize}
	case "nearest", "bilinear":
		l = &resample{name: name, mode: c.Op, factor: c.Attrs.ScaleFactor}
	default:
		typ, scale := c.Op, c.Attrs.P
		switch {
		case typ == "dropout2d":
			typ = "dropout"
		case typ == "scale":
			typ = "gaussian" // of zeros
		}
		for _, in := range []string{"mask", "e", "n"} {
			if slices.Contains(c.Inputs, in) {
				draws = append(draws, param(in).Data)
			}
		}
		if s := param("s"); s != nil {
			scale = s.Data[0]
		}
		if x == nil {
			x = tensor.Like(readAsStored(t, f, "n"))
		}
		b := noise.Block{Scale: scale}
		var err error
		if b.Type, err = noise.ParseType(typ); err != nil {
			t.Fatal(err)
		}
		l = newStochasticBlock(name, b)
	}
	if err := l.prepare(); err != nil {
		t.Fatal(err)
	}
	return l, x, draws
}

// given hands out recorded draws in order.
type given struct {
	draws [][]float64
	next  int
}

func (g *given) Draw(kind noise.Kind, _ float64, _ []int, dst []float64) error {
	if g.next == len(g.draws) || len(g.draws[g.next]) != len(dst) {
		return fmt.Errorf("no %v draw of %d numbers", kind, len(dst))
	}
	copy(dst, g.draws[g.next])
	g.next++
	return nil
}

// readAsStored returns a tensor in the format in which the file has it; one of
// fewer than four dimensions has 1 for the others.
func readAsStored(t *testing.T, f *safetensors.File, name string) *tensor.Tensor {
	t.Helper()
	raw, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := raw.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	s := append(slices.Repeat([]int{1}, max(0, 4-len(raw.Shape))), raw.Shape...)
	for _, format := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
		if safetensors.DTypeOf(format) == raw.DType {
			return tensor.Of(format, v, s[0], s[1], s[2], s[3])
		}
	}
	t.Fatalf("%s: %s: dtype %s", f.Path, name, raw.DType)
	return nil
}
