package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestFunctionsOfImages: functions of one number, products of two images and those with an image of one pixel, as
// detectors and nets that squeeze have them, stay in images between convolutions and have the bits of Run, in every
// mode and instruction set, for channels that leave blocks unfilled, with numbers that are not finite.
func TestFunctionsOfImages(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(41, 42))
	names := []string{"sigmoid", "hardsigmoid", "hardswish", "leaky_relu", "exp", "softplus", "abs", "clip"}
	for trial := range 60 {
		g := graph.New(new(graph.Kept))
		c, side := []int{3, 8, 13, 16, 1}[trial%5], 4+r.IntN(9)
		op := func(name string, in ...int) int {
			attributes := map[string]string{"clip": `{"min": 0, "max": 6}`, "adaptive_avg_pool2d": `{"output_size": 1}`}[name]
			o, err := graph.Bind(name, []byte(attributes))
			if err != nil {
				t.Fatal(err)
			}
			return g.Add(o, "", in...)
		}
		convolved := func(x, from, to, size int) int {
			return g.Add(graph.Conv{Params: conv.Square(1, size/2, conv.Zeros)}, "", x,
				g.Constant("", random(r, fp16.Float32, to, from, size, size)))
		}
		x := g.Input("x")
		y := convolved(x, 2, c, 3)
		name := names[trial%len(names)]
		f := op(name, y)
		y = op("mul", [][]int{{y, f}, {f, y}}[trial%2]...)
		pixel := op("sigmoid", convolved(op("adaptive_avg_pool2d", y), c, c, 1))
		y = op("mul", [][]int{{y, pixel}, {pixel, y}}[trial/2%2]...)
		if trial%3 == 1 {
			line := func() int { return g.Constant("", random(r, fp16.Float32, c)) }
			y = g.Add(graph.GroupNorm{Groups: 1, Eps: 1e-5}, "", op("sigmoid", y), line(), line())
		}
		if trial%4 < 2 { // the sum's channels that are missing must not be those of a convolution of infinities
			y = op("add", op("sigmoid", y), convolved(x, 2, c, 3))
		}
		y = convolved(y, c, 5, 3)
		g.Outputs = []int{op(name, y), y}
		image := graph.Type{Shape: []int{1 + trial%2, 2, side, side + 1}, Format: fp16.Float32}
		in := random(r, image.Format, image.Shape...)
		if trial%3 == 0 {
			in.Data[r.IntN(len(in.Data))] = []float64{math.Inf(1), math.NaN(), 1e30}[trial/3%3]
		}
		m := [][2]string{{"float32", ""}, {"tf32", ""}, {"float16", "cuda"}, {"bfloat16", "cpu"}}[trial%4]
		mode, err := graph.ParseMode(m[0], m[1])
		if err != nil {
			t.Fatal(err)
		}
		program, err := g.Infer(mode, image)
		if err != nil {
			t.Fatal(err)
		}
		want, err := program.Run(&graph.Run{}, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			p, err := plan.New(g, mode, image)
			if err != nil {
				t.Fatal(err)
			}
			var out []*tensor.Tensor
			for k := range g.Outputs {
				out = append(out, tensor.New(p.Type(k).Format, p.Type(k).Shape...))
			}
			if err := p.Run(nil, noise.Time{}, out, []*tensor.Tensor{in}); err != nil {
				t.Fatal(err)
			}
			for k := range out {
				for i, v := range out[k].Data {
					if math.Float64bits(v) != math.Float64bits(want[k].Data[i]) {
						t.Fatalf("trial %d, %s, %v, %s: number %d of output %d is %v, want %v",
							trial, name, m, isa, i, k, v, want[k].Data[i])
					}
				}
			}
			apart := slices.DeleteFunc(p.Nodes(), func(n plan.Node) bool {
				return n.Op != "sigmoid" && n.Op != "mul" || strings.HasPrefix(n.Kernel, "rows")
			})
			if m[1] == "" && len(apart) > 0 {
				t.Fatalf("trial %d, %s: not done in images: %s", trial, isa, fmt.Sprint(apart))
			}
		}
	}
}

// TestConstantsOfImages: sums, differences, products, quotients and extremes of images and constants, as exported
// activations have them, stay in images and have the bits of Run, in every instruction set, with zeros of both signs,
// numbers that are not finite, and channels that leave blocks unfilled.
func TestConstantsOfImages(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	r := rand.New(rand.NewPCG(43, 44))
	mode, err := graph.ParseMode("float32", "")
	if err != nil {
		t.Fatal(err)
	}
	special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), -2, 3, 6, 0.25}
	for trial := range 200 {
		c, side := []int{3, 8, 13, 16, 1}[trial%5], 4+r.IntN(9)
		g := graph.New(new(graph.Kept))
		x := g.Input("x")
		y := g.Add(graph.Conv{Params: conv.Square(1, 1, conv.Zeros)}, "", x,
			g.Constant("", random(r, fp16.Float32, c, 2, 3, 3)))
		if trial%2 == 0 { // zeros
			y = g.Add(graph.Act{Func: act.ReLU}, "", y)
			y = g.Add(graph.Binary{Of: pointwise.Mul, Other: &special[trial/2%2+4]}, "", y)
		}
		of := []pointwise.Op{pointwise.Add, pointwise.Sub, pointwise.Mul, pointwise.Div, pointwise.Maximum, pointwise.Minimum}
		for step := range 3 {
			v := special[r.IntN(len(special))]
			b := graph.Binary{Of: of[r.IntN(len(of))]}
			constant := random(r, fp16.Float32, [][]int{{1, c, 1, 1}, {c, 1, 1}, {1}, {}}[r.IntN(4)]...)
			constant.Data[0] = v
			switch (trial + step) % 4 {
			case 0:
				b.Other = &v
				y = g.Add(b, "", y)
			case 1:
				b.Self = &v
				y = g.Add(b, "", y)
			case 2:
				y = g.Add(b, "", y, g.Constant("", constant))
			case 3:
				y = g.Add(b, "", g.Constant("", constant), y)
			}
		}
		g.Outputs = []int{y, g.Add(graph.Conv{Params: conv.Square(1, 0, conv.Zeros)}, "", y,
			g.Constant("", random(r, fp16.Float32, 5, c, 1, 1)))}
		image := graph.Type{Shape: []int{1 + trial%2, 2, side, side + 1}, Format: fp16.Float32}
		in := random(r, image.Format, image.Shape...)
		if trial%3 == 0 {
			in.Data[r.IntN(len(in.Data))] = []float64{math.Inf(1), math.NaN(), 0x1p100}[trial/3%3]
		}
		program, err := g.Infer(mode, image)
		if err != nil {
			t.Fatal(err)
		}
		want, err := program.Run(&graph.Run{}, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			p, err := plan.New(g, mode, image)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]*tensor.Tensor, len(want))
			for i, y := range want {
				got[i] = tensor.New(y.Format, y.Shape...)
			}
			if err := p.Run(nil, noise.Time{}, got, []*tensor.Tensor{in}); err != nil {
				t.Fatal(err)
			}
			for i, y := range want {
				for j, v := range y.Data {
					if math.Float64bits(got[i].Data[j]) != math.Float64bits(v) {
						t.Fatalf("trial %d, %s, output %d, number %d: %x, want %x", trial, isa, i, j, got[i].Data[j], v)
					}
				}
			}
		}
	}
}

// TestWindowsOfImages: convolutions by windows of any sides, strides, dilations and padding, wider than the image too,
// of each channel by itself or of all, have the bits of Run, in every instruction set.
func TestWindowsOfImages(t *testing.T) {
	isa := asm.ISA()
	defer asm.Use(isa)
	mode, err := graph.ParseMode("float32", "")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(45, 46))
	kernels := map[string]bool{}
	for trial := range 150 {
		c, h, w := 8+r.IntN(10), 1+r.IntN(6), 1+r.IntN(20)
		kh, kw, groups := 1+r.IntN(5), 1+r.IntN(5), 1
		if trial%2 == 0 {
			groups = c
		}
		p := conv.Params{Stride: [2]int{1 + r.IntN(2), 1 + r.IntN(2)}, Dilation: [2]int{0, r.IntN(3)},
			Pad: [4]int{kh / 2, kw / 2, kh / 2, kw / 2}}
		if trial%5 == 0 {
			p.Padding = conv.Replicate
		}
		image := graph.Type{Shape: []int{1 + trial%2, c, h, w}, Format: fp16.Float32}
		g := graph.New(new(graph.Kept))
		y := g.Add(graph.Act{Func: act.ReLU}, "", g.Input("x"))
		weight := g.Constant("", random(r, fp16.Float32, c, c/groups, kh, kw))
		z := g.Add(graph.Conv{Params: p, Groups: groups}, "", y, weight, g.Constant("", random(r, fp16.Float32, c)))
		g.Outputs = []int{g.Add(graph.Act{Func: act.ReLU}, "", z), g.Add(graph.Conv{Params: conv.Square(1, 0, conv.Zeros)},
			"", y, g.Constant("", random(r, fp16.Float32, 5, c, 1, 1)))}
		program, err := g.Infer(mode, image)
		if err != nil {
			continue // the window does not fit
		}
		in := random(r, image.Format, image.Shape...)
		if trial%7 == 0 {
			in.Data[r.IntN(len(in.Data))] = math.Inf(1)
		}
		want, err := program.Run(&graph.Run{}, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			p, err := plan.New(g, mode, image)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range p.Nodes() {
				kernels[n.Kernel] = true
			}
			got := make([]*tensor.Tensor, len(want))
			for i, y := range want {
				got[i] = tensor.New(y.Format, y.Shape...)
			}
			if err := p.Run(nil, noise.Time{}, got, []*tensor.Tensor{in}); err != nil {
				t.Fatal(err)
			}
			for i, y := range want {
				for j, v := range y.Data {
					if math.Float64bits(got[i].Data[j]) != math.Float64bits(v) {
						t.Fatalf("trial %d, %s, output %d, number %d: %x, want %x", trial, isa, i, j, got[i].Data[j], v)
					}
				}
			}
		}
	}
	if slices.Contains(asm.ISAs(), "avx2") && !kernels["convolution by channel avx2"] {
		t.Errorf("no convolution by channel: %v", kernels)
	}
}
