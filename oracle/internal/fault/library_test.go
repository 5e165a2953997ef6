package fault

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

var update = flag.Bool("update", false, "record what each fault does in testdata/effects.txt")

// between returns numbers from -1 to 1, n of them, which look like nothing.
func between(seed, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(measure.Mix64(uint64(i)<<20+uint64(seed))%2001)/1000 - 1
	}
	return v
}

// An effect is what a fault does to an operator's output, or to draws: the root mean square of the change, and a sum of
// it with factors, so that two changes of one size differ.
type effect struct{ rms, sum float64 }

// near reports whether an effect is another one but for the float64 sums of other kernels.
func (e effect) near(of effect) bool {
	within := func(a, b, least float64) bool { return math.Abs(a-b) <= 1e-4*math.Abs(b)+least }
	return within(e.rms, of.rms, 1e-12) && within(e.sum, of.sum, 1e-9)
}

// add notes what a fault does to numbers, if it does something.
func add(known map[string]effect, id string, was, now []float64) {
	squares, sum := 0.0, 0.0
	for k, w := range now {
		d := w - was[k]
		if d-d != 0 { // a number that is none
			d = 1e3
		}
		squares += float64(d*d) / float64(len(now))
		sum += float64(d * math.Sqrt(float64(k+1)))
	}
	if math.Sqrt(squares) < 1e-12 { // of float64 sums in another order
		return
	}
	name := id
	for again := 2; ; again++ { // of two with one name
		if _, ok := known[name]; !ok {
			break
		}
		name = fmt.Sprintf("%s (%d)", id, again)
	}
	known[name] = effect{math.Sqrt(squares), sum}
}

// effects adds what each fault of operations does to one operator's output, in all that can have it.
func effects(t *testing.T, name string, c operator.Config, mode graph.Mode, known map[string]effect) {
	t.Helper()
	op, err := operator.Init(c, 7)
	if err != nil {
		t.Fatal(err)
	}
	for k, p := range op.Params() { // no scale is 1, and no bias 0
		for i, v := range between(k, len(p.Data)) {
			p.Data[i] = fp16.Float32.Round(p.Data[i] + float64(0.1*v) + 0.05)
		}
	}
	x := tensor.New(fp16.Float64, 2, 2, 6, 7)
	copy(x.Data, between(99, len(x.Data)))
	g := op.GraphOf(false, 6, 7)
	p, err := g.Infer(mode, graph.Type{Shape: x.Shape, Format: fp16.Float32})
	if err != nil {
		t.Fatal(err)
	}
	of := trial.NewGraph(g, mode, func(v int) graph.Type { return p.Type(v) })
	output := func(g *graph.Graph) []float64 {
		y, err := lower.Exact(g, []*tensor.Tensor{x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	was := output(g)
	for _, h := range Library() {
		if !h.On() {
			continue
		}
		for _, s := range of.Scopes(h, false) {
			if now := output(of.With(h, s)); s == trial.Everywhere && len(now) == len(was) {
				add(known, name+" "+h.ID, was, now)
			}
		}
	}
}

// TestEffects: each fault of the library does what it did when this was recorded, on operators with each norm and
// activation, and on draws of each kind. A fault that says one thing and does another would name the wrong cause.
func TestEffects(t *testing.T) {
	got := map[string]effect{}
	for i, k := range []struct{ norm, precision, activation string }{
		{"instance", "float32", "gelu"}, {"group", "float16", "silu"}, {"layer", "bfloat16", "tanh"},
		{"batch", "float32", "relu"},
	} {
		mode, err := graph.ParseMode(k.precision, "")
		if err != nil {
			t.Fatal(err)
		}
		c := operator.Config{NumLayers: []int{2, 4}[i%2], BaseChannels: 4, InputChannels: 2, OutputChannels: 2,
			KernelSize: 3, Activation: k.activation, Normalization: k.norm}
		effects(t, fmt.Sprintf("%s, %s, %s", k.norm, k.precision, k.activation), c, mode, got)
	}
	for name, kind := range map[string]noise.Kind{"normal": noise.Normal, "bernoulli": noise.Bernoulli} {
		shape := [4]int{2, 4, 6, 7}
		if kind == noise.Bernoulli {
			shape[2], shape[3] = 1, 1
		}
		data := between(1000, shape[0]*shape[1]*shape[2]*shape[3])
		for i, v := range data {
			if data[i] = 2 * v; kind == noise.Bernoulli {
				data[i] = math.Ceil(v)
			}
		}
		for _, h := range Library() {
			if h.Draws == nil {
				continue
			}
			if now := h.Draws(kind, shape, slices.Clone(data)); now != nil {
				add(got, name+" "+h.ID, data, now)
			}
		}
	}
	const file = "testdata/effects.txt"
	if *update {
		var b strings.Builder
		for _, id := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&b, "%.6g %.6g %s\n", got[id].rms, got[id].sum, id)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for line := range strings.Lines(string(b)) {
		var want effect
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if _, err := fmt.Sscan(strings.Join(words[:2], " "), &want.rms, &want.sum); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		recorded++
		if now, ok := got[words[2]]; !ok || !now.near(want) {
			t.Errorf("%s: %v, want %v", words[2], now, want)
		}
	}
	if recorded != len(got) || recorded < 600 {
		t.Errorf("%d effects, and %d recorded", len(got), recorded)
	}
}
