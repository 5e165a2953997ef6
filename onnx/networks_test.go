package onnx_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// networks are models as PyTorch 2.9.1 exports them, with inputs and with what it makes of
// them in float32 and in float64.
var networks = []string{"fno", "painn", "resnet", "unet", "vit"}

// digests are those of their outputs in float32, on every machine.
var digests = map[string]string{
	"fno":    "d562a590d707ed52ff09045695ac3977f82f1a68826821a22fead760ada83495",
	"painn":  "6c47eefa9a46ca7abb53804130c956d361c2588e05d04f785b7f3d2e564ae01d",
	"resnet": "9022a0e0550bb626b072d61048b9587edd2424aa537e0872522d9067b248d652",
	"unet":   "7c1360ee7ac345c345b6e9bc8e3152cdc642b562cb3645fd34a40b47b1356205",
	"vit":    "c1902d189debd0fe6ba46addfa1bd5e0a05cc7dca525f71923d97d8760c00ddb",
}

func open(t testing.TB, name string) *onnx.Model {
	m, err := onnx.Open(filepath.Join("testdata", "models", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// arrays returns the arrays of an archive.
func arrays(t testing.TB, path string) map[string]*tensor.Tensor {
	z, err := npy.OpenArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	of := map[string]*tensor.Tensor{}
	for _, name := range z.Names() {
		a, err := z.Array(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		f, ok := a.Format()
		if !ok {
			f = fp16.Int64
		}
		of[name] = tensor.Of(f, data, a.Shape...)
	}
	return of
}

// distance returns the RMS distance of two tensors, as a fraction of the second one's
// standard deviation, or of its magnitude where it has one number.
func distance(a, b *tensor.Tensor) float64 {
	var sum, mean, dev float64
	n := float64(len(b.Data))
	for i, v := range b.Data {
		sum += (a.Data[i] - v) * (a.Data[i] - v)
		mean += v / n
	}
	for _, v := range b.Data {
		dev += (v - mean) * (v - mean)
	}
	if len(b.Data) == 1 {
		dev = mean * mean
	}
	return math.Sqrt(sum / dev)
}

// TestNetworks: a network in float32 is at most as far from float64 as PyTorch's float32 is,
// in float64 nearer (weights that the exporter has rounded remain), and a plan has the bits of the definition.
func TestNetworks(t *testing.T) {
	for _, name := range networks {
		t.Run(name, func(t *testing.T) {
			m := open(t, name)
			of := arrays(t, filepath.Join("testdata", "models", name+".npz"))
			g, fixed, err := m.Graph(nil)
			if err != nil || len(fixed) > 0 {
				t.Fatal(err, fixed)
			}
			run := func(mode graph.Mode) *tensor.Tensor {
				var types []graph.Type
				var in []*tensor.Tensor
				for _, input := range m.Inputs {
					x := of[input.Name]
					if mode.Precision == fp16.Float64 && x.Format == fp16.Float32 {
						x = tensor.Of(fp16.Float64, x.Data, x.Shape...)
					}
					in, types = append(in, x), append(types, graph.Type{Shape: x.Shape, Format: x.Format})
				}
				p, err := g.Infer(mode, types...)
				if err != nil {
					t.Fatal(err)
				}
				out, err := p.Run(new(graph.Run), in...)
				if err != nil {
					t.Fatal(err)
				}
				if mode.Precision != fp16.Float64 {
					c, err := plan.New(g, mode, types...)
					if err != nil {
						t.Fatal(err)
					}
					planned := tensor.New(out[0].Format, out[0].Shape...)
					if err := c.Run(nil, noise.Time{}, []*tensor.Tensor{planned}, in); err != nil ||
						!slices.Equal(planned.Data, out[0].Data) {
						t.Errorf("%v: the plan has other bits, %v", mode, err)
					}
				}
				return out[0]
			}
			exact := of["float64"]
			torch, ours := distance(of["torch_float32"], exact), distance(run(graph.Mode{Precision: fp16.Float32}), exact)
			truth := distance(run(graph.Mode{Precision: fp16.Float64}), exact)
			single := run(graph.Mode{Precision: fp16.Float32})
			if got := fmt.Sprintf("%x", sha256.Sum256(fp16.Float32.Append(nil, single.Data))); got != digests[name] {
				t.Errorf("digest %s, want %s", got, digests[name])
			}
			if name == "painn" {
				// The file has pi and its multiples in float32: that alone moves its one number by
				// 1.0e-7, further than PyTorch's roundings do. What is judged are ours.
				exact = tensor.Of(fp16.Float64, run(graph.Mode{Precision: fp16.Float64}).Data)
				torch, ours, truth = distance(of["torch_float32"], exact),
					distance(run(graph.Mode{Precision: fp16.Float32}), exact), 0
			}
			t.Logf("%d nodes, float32 %.3g, PyTorch's %.3g, float64 %.3g", len(g.Nodes), ours, torch, truth)
			if !(ours <= torch) {
				t.Errorf("float32 is %.3g from float64: want at most PyTorch's %.3g", ours, torch)
			}
			if !(truth <= ours) {
				t.Errorf("float64 is %.3g from PyTorch's: want at most float32's %.3g", truth, ours)
			}
		})
	}
}
