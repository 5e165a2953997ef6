package operator

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// randomGraph draws a list of operations: any earlier result may be an input, of
// several operations too, and convolutions differ in size and padding.
func randomGraph(r *rand.Rand) Config {
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	c := Config{InputChannels: 1 + r.IntN(4)}
	type value struct {
		name     string
		channels int
	}
	values := []value{{"input", c.InputChannels}}
	read := map[string]bool{}
	add := func(n NodeConfig, channels int, in ...value) {
		n.Name = fmt.Sprintf("n%d", len(c.Nodes))
		for _, v := range in {
			n.In = append(n.In, v.name)
			read[v.name] = true
		}
		c.Nodes = append(c.Nodes, n)
		values = append(values, value{n.Name, channels})
	}
	conv := func(from value, out int) {
		add(NodeConfig{Op: "conv", OutChannels: out, KernelSize: []int{1, 3, 3, 5, 7}[r.IntN(5)],
			NoBias: r.IntN(2) != 0, PaddingMode: one("zeros", "zeros", "circular", "reflect", "replicate")}, out, from)
	}
	noises := 0
	for range 2 + r.IntN(7) {
		v := values[len(values)-1]
		if r.IntN(3) == 0 {
			v = values[r.IntN(len(values))]
		}
		switch r.IntN(7) {
		case 0, 1, 2:
			conv(v, []int{3, 8, 12, 16, 20}[r.IntN(5)])
		case 3:
			n := NodeConfig{Op: "norm", Normalization: one("instance", "batch", "layer"), NoAffine: r.IntN(2) != 0}
			add(n, v.channels, v)
		case 4:
			add(NodeConfig{Op: "act", Activation: one("gelu", "relu", "tanh", "none")}, v.channels, v)
		case 5:
			for _, w := range values {
				if w.channels == v.channels {
					add(NodeConfig{Op: "add"}, v.channels, v, w)
					break
				}
			}
		case 6:
			if noises++; noises == 1 {
				add(NodeConfig{Op: "noise", NoiseType: "gaussian", NoiseScale: 0.1}, v.channels, v)
			}
		}
	}
	conv(values[len(values)-1], 2)
	for _, v := range values[1 : len(values)-1] { // every result has a reader
		if !read[v.name] {
			conv(v, 2)
			add(NodeConfig{Op: "add"}, 2, values[len(values)-1], values[len(values)-2])
		}
	}
	if last := values[len(values)-1]; last.channels != 2 {
		conv(last, 2)
	}
	c.OutputChannels = 2
	return c
}

// TestPlanGraphs: plans of random graphs give the bits of the path that is not
// compiled, more than once, on images smaller and greater than windows, and of inputs
// that are outputs of a half mode, whose format more than convolutions may see.
func TestPlanGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	compiled := 0
	for trial := range 150 {
		c := randomGraph(r)
		op, err := Init(c, uint64(trial))
		if err != nil {
			t.Fatalf("trial %d: %v", trial, err)
		}
		name := planModes[r.IntN(6)]
		mode, err := graph.ParseMode(name[0], name[1])
		if err != nil {
			t.Fatal(err)
		}
		n, h, w := 1+r.IntN(2), 1+r.IntN(14), 1+r.IntN(20)
		if trial%3 == 0 {
			h, w = 8+r.IntN(9), 8+r.IntN(9)
		}
		p := op.Compile(mode, n, h, w)
		if ok, _ := p.Compiled(); ok {
			compiled++
		}
		got := tensor.New(mode.Output(), n, 2, h, w)
		for step := range 3 {
			x := tensor.New(mode.Wide(), n, c.InputChannels, h, w)
			if step == 1 {
				x.Format = mode.Output()
			}
			for i := range x.Data {
				x.Data[i] = x.Format.Round(r.NormFloat64())
			}
			if r.IntN(3) == 0 {
				fp16.Float32.RoundSlice(x.Data, x.Data)
			}
			draws := func() noise.Draws {
				d, err := noise.Counter{Seed: uint64(trial)}.At(step, 0, n)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			want, err := attempt(op, mode, draws(), x)
			if err == nil {
				err = p.Forward(got, x, draws(), noise.Time{})
			}
			if err != nil {
				continue // an image too small for its padding, which both refuse
			}
			for i := range want.Data {
				if got.Data[i] != want.Data[i] && (got.Data[i] == got.Data[i] || want.Data[i] == want.Data[i]) {
					t.Fatalf("trial %d, %v, %dx%dx%d, step %d: number %d is %v, want %v\n%+v",
						trial, mode, n, h, w, step, i, got.Data[i], want.Data[i], c.Nodes)
				}
			}
		}
	}
	if compiled < 100 {
		t.Errorf("%d of 150 plans are compiled", compiled)
	}
}

// attempt is Forward, which panics where a padding is greater than the image.
func attempt(op *Operator, mode graph.Mode, d noise.Draws, x *tensor.Tensor) (y *tensor.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return op.Forward(&Pass{Mode: mode, Draws: d}, x)
}

// TestPlanNormAndSkip: a sum may not take the place of an image that the norm before
// it still reads. It reads it again for the first element that its guard leaves open:
// here zeros about a mean of 0 in the middle row, between greater numbers and lesser ones.
func TestPlanNormAndSkip(t *testing.T) {
	op, err := Init(Config{InputChannels: 32, OutputChannels: 32, Nodes: []NodeConfig{
		{Op: "norm", Name: "n", Normalization: "instance", NoAffine: true},
		{Op: "add", Name: "s", In: []string{"n", "input"}},
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := graph.ParseMode("float32", "")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(45, 46))
	const n, h, w = 16, 9, 8 // so many that each block's rows come in order
	x := tensor.New(fp16.Float32, n, 32, h, w)
	for k := range n * 32 {
		plane := x.Plane(k/32, k%32)
		for i := range h / 2 * w {
			plane[i] = fp16.Float32.Round(1 + r.Float64())
			plane[h*w-1-i] = -plane[i]
		}
	}
	want, err := op.Forward(&Pass{Mode: mode}, x)
	if err != nil {
		t.Fatal(err)
	}
	p, got := op.Compile(mode, n, h, w), tensor.Like(x)
	if ok, why := p.Compiled(); !ok {
		t.Fatal(why)
	}
	if err := p.Forward(got, x, nil, noise.Time{}); err != nil {
		t.Fatal(err)
	}
	for i, v := range want.Data {
		if got.Data[i] != v {
			t.Fatalf("number %d is %v, want %v", i, got.Data[i], v)
		}
	}
}
