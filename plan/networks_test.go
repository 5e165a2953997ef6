package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// resnet builds a ResNet-18 (He and others, 2015) of that many channels in its first stage,
// with weights of the sizes that keep numbers of size 1, batch norms in evaluation, and 1000
// classes.
func resnet(r *rand.Rand, width int) *graph.Graph {
	g := graph.New(new(graph.Kept))
	constant := func(scale, shift float64, shape ...int) int {
		t := random(r, fp16.Float32, shape...)
		for i, v := range t.Data {
			t.Data[i] = fp16.Float32.Round(shift + float64(scale*v))
		}
		return g.Constant("w", t)
	}
	convolve := func(name string, x, ic, oc, side, stride int) int {
		x = g.Add(graph.Conv{Params: conv.Square(stride, side/2, conv.Zeros)}, name, x,
			constant(math.Sqrt(2/float64(ic*side*side)), 0, oc, ic, side, side))
		variance := constant(0, 1, oc)
		return g.Add(graph.BatchNorm{Eps: 1e-5}, name+".bn", x, constant(0.1, 1, oc), constant(0.1, 0, oc),
			constant(0.1, 0, oc), variance)
	}
	relu := func(name string, x int) int { return g.Add(graph.Act{Func: act.ReLU}, name, x) }
	x := relu("relu", convolve("stem", g.Input("x"), 3, width, 7, 2))
	x = g.Add(bound("max_pool2d", `{"kernel_size": 3, "stride": 2, "padding": 1}`), "pool", x)
	ic := width
	for stage := range 4 {
		oc := width << stage
		for block := range 2 {
			name, stride, skip := fmt.Sprintf("layer%d.%d", stage+1, block), 1, x
			if ic != oc {
				stride = 2
				skip = convolve(name+".down", x, ic, oc, 1, 2)
			}
			y := relu(name+".relu", convolve(name+".conv1", x, ic, oc, 3, stride))
			y = convolve(name+".conv2", y, oc, oc, 3, 1)
			x = relu(name+".out", g.Add(graph.Addition, name+".add", y, skip))
			ic = oc
		}
	}
	x = g.Add(bound("adaptive_avg_pool2d", `{"output_size": 1}`), "mean", x)
	x = g.Add(bound("flatten", `{"start_dim": 1}`), "flatten", x)
	x = g.Add(bound("linear", ``), "fc", x, constant(1/math.Sqrt(float64(ic)), 0, 1000, ic), constant(0.1, 0, 1000))
	g.Outputs = []int{x}
	return g
}

// vit builds a vision transformer (ViT: Dosovitskiy and others, 2021) for images of side x
// side with patches of patch x patch: that many layers, heads and numbers of a token.
func vit(r *rand.Rand, side, patch, layers, heads, width int) *graph.Graph {
	g := graph.New(new(graph.Kept))
	constant := func(scale, shift float64, shape ...int) int {
		t := random(r, fp16.Float32, shape...)
		for i, v := range t.Data {
			t.Data[i] = fp16.Float32.Round(shift + float64(scale*v))
		}
		return g.Constant("w", t)
	}
	n := 0
	op := func(name, attributes string, in ...int) int {
		n++
		return g.Add(bound(name, attributes), fmt.Sprintf("%s %d", name, n), in...)
	}
	normal := func(x int) int {
		return op("layer_norm", `{"eps": 1e-6}`, x, constant(0.1, 1, width), constant(0.1, 0, width))
	}
	linear := func(x, from, to int) int {
		return op("linear", "", x, constant(1/math.Sqrt(float64(from)), 0, to, from), constant(0.1, 0, to))
	}
	tokens := side/patch*(side/patch) + 1
	x := op("conv2d", fmt.Sprintf(`{"stride": %d}`, patch), g.Input("x"), constant(0.05, 0, width, 3, patch, patch),
		constant(0.1, 0, width))
	x = op("permute", `{"dims": [0, 2, 1]}`, op("flatten", `{"start_dim": 2}`, x))
	x = op("add", "", op("cat", `{"dim": 1}`, constant(0.02, 0, 1, 1, width), x), constant(0.02, 0, 1, tokens, width))
	for range layers {
		y := op("reshape", fmt.Sprintf(`{"shape": [1, %d, 3, %d, %d]}`, tokens, heads, width/heads),
			linear(normal(x), width, 3*width))
		y = op("permute", `{"dims": [2, 0, 3, 1, 4]}`, y)
		var parts []int
		for k := range 3 {
			parts = append(parts, op("select", fmt.Sprintf(`{"dim": 0, "index": %d}`, k), y))
		}
		y = op("permute", `{"dims": [0, 2, 1, 3]}`, op("scaled_dot_product_attention", "", parts...))
		x = op("add", "", x, linear(op("reshape", fmt.Sprintf(`{"shape": [1, %d, %d]}`, tokens, width), y), width, width))
		x = op("add", "", x, linear(op("gelu", "", linear(normal(x), width, 4*width)), 4*width, width))
	}
	g.Outputs = []int{linear(op("select", `{"dim": 1, "index": 0}`, normal(x)), width, 1000)}
	return g
}

func bound(name, attributes string) graph.Op {
	op, err := graph.Bind(name, []byte(attributes))
	if err != nil {
		panic(err)
	}
	return op
}

// TestNetworks: whole networks have the bits of Run.
func TestNetworks(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for name, g := range map[string]*graph.Graph{"resnet": resnet(r, 8), "vit": vit(r, 64, 16, 2, 2, 64)} {
		for _, m := range [][2]string{{"float32", ""}, {"bfloat16", "cpu"}} {
			mode, err := graph.ParseMode(m[0], m[1])
			if err != nil {
				t.Fatal(err)
			}
			of := graph.Type{Shape: []int{1, 3, 64, 64}, Format: fp16.Float32}
			p, err := plan.New(g, mode, of)
			if err != nil {
				t.Fatal(err)
			}
			program, err := g.Infer(mode, of)
			if err != nil {
				t.Fatal(err)
			}
			out := []*tensor.Tensor{tensor.New(p.Type(0).Format, p.Type(0).Shape...)}
			x := random(r, fp16.Float32, of.Shape...)
			want, err := program.Run(&graph.Run{}, x)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Run(nil, noise.Time{}, out, []*tensor.Tensor{x}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out[0].Data, want[0].Data) {
				t.Errorf("%s, %v: plan and Run differ", name, mode)
			}
		}
	}
}

// BenchmarkResNet18 is one image of 224x224, with other numbers each time.
func BenchmarkResNet18(b *testing.B) {
	r := rand.New(rand.NewPCG(33, 34))
	benchmarkNetwork(b, resnet(r, 64), 1, 3, 224, 224)
}

// BenchmarkViT is ViT-B/16, of one image of 224x224.
func BenchmarkViT(b *testing.B) {
	r := rand.New(rand.NewPCG(37, 38))
	benchmarkNetwork(b, vit(r, 224, 16, 12, 12, 768), 1, 3, 224, 224)
}

func benchmarkNetwork(b *testing.B, g *graph.Graph, shape ...int) {
	r := rand.New(rand.NewPCG(35, 36))
	of := graph.Type{Shape: shape, Format: fp16.Float32}
	p, err := plan.New(g, graph.Mode{Precision: fp16.Float32}, of)
	if err != nil {
		b.Fatal(err)
	}
	out := []*tensor.Tensor{tensor.New(p.Type(0).Format, p.Type(0).Shape...)}
	var in [3][]*tensor.Tensor
	for i := range in {
		in[i] = []*tensor.Tensor{random(r, fp16.Float32, shape...)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := p.Run(nil, noise.Time{}, out, in[i%3]); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if testing.Verbose() {
		for _, s := range p.Profile(out, in[0]) {
			b.Log(s)
		}
	}
}
