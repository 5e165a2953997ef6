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
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/rollout"
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

// fixedDraws are the same numbers each time, other ones in each draw.
type fixedDraws int

func (d *fixedDraws) Draw(kind noise.Kind, p float64, _ []int, dst []float64) error {
	*d++
	for i, u := range between(1000+int(*d), len(dst)) {
		switch kind {
		case noise.Bernoulli:
			dst[i] = 0
			if (u+1)/2 < p {
				dst[i] = 1
			}
		case noise.Exponential:
			dst[i] = 2 * math.Abs(u)
		default:
			dst[i] = 2 * u
		}
	}
	return nil
}

// An effect is what a fault does to the states: the root mean square of the change, and a sum of it with factors, so
// that two changes of one size differ.
type effect struct{ rms, sum float64 }

// near reports whether an effect is another one but for the float64 sums of other kernels.
func (e effect) near(of effect) bool {
	within := func(a, b, least float64) bool { return math.Abs(a-b) <= 1e-4*math.Abs(b)+least }
	return within(e.rms, of.rms, 1e-12) && within(e.sum, of.sum, 1e-9)
}

// effects adds what each fault of the library does to a step of one operator; nothing of those that do nothing there.
func effects(t *testing.T, name string, c operator.Config, policy rollout.Config, mode graph.Mode,
	known map[string]effect) {
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
	policy.Timesteps, policy.Realizations = 2, 2
	m := emulate.New(op, policy)
	x := tensor.New(fp16.Float64, 2, 2, 6, 7)
	copy(x.Data, between(99, len(x.Data)))
	v := &trial.View{Machine: m, X: x, Device: &emulate.Device{Mode: mode, State: fp16.Float64},
		Evidence: &evidence.Evidence{Op: op, Machine: m, Mode: mode, Case: &rollout.Case{Operator: c, Rollout: policy}},
		Drawn:    func(int) *emulate.Draws { return nil }}
	if c.NoiseType != "" {
		v.Draws = emulate.Keep(new(fixedDraws))
	}
	if err := v.Compute(); err != nil {
		t.Fatal(err)
	}
	for _, h := range Library() {
		y, err := v.Run(h, trial.Everywhere, nil)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, h.ID, err)
		}
		if y == nil || measure.RootMeanSquareDiff(y.Data, v.Next.Data) < 1e-12 { // of float64 sums in another order
			continue
		}
		squares, sum := 0.0, 0.0
		for k, w := range y.Data {
			d := w - v.Next.Data[k]
			if d-d != 0 { // a number that is none
				d = 1e3
			}
			squares += float64(d*d) / float64(len(y.Data))
			sum += float64(d * math.Sqrt(float64(k+1)))
		}
		id := name + " " + h.ID
		for again := 2; ; again++ { // of two with one name
			if _, ok := known[id]; !ok {
				break
			}
			id = fmt.Sprintf("%s %s (%d)", name, h.ID, again)
		}
		known[id] = effect{math.Sqrt(squares), sum}
	}
}

// TestEffects: each fault of the library does what it did when this was recorded, on operators with each norm, noise
// and policy. A fault that says one thing and does another would name the wrong cause.
func TestEffects(t *testing.T) {
	got := map[string]effect{}
	for i, k := range []struct{ norm, noise, precision, activation string }{
		{"instance", "gaussian", "float32", "gelu"}, {"group", "laplace", "float16", "silu"},
		{"layer", "multiplicative", "bfloat16", "tanh"}, {"batch", "dropout", "float32", "relu"},
	} {
		mode, err := graph.ParseMode(k.precision, "")
		if err != nil {
			t.Fatal(err)
		}
		c := operator.Config{NumLayers: []int{2, 4}[i%2], BaseChannels: 4, InputChannels: 2, OutputChannels: 2,
			KernelSize: 3, Activation: k.activation, Normalization: k.norm, NoiseType: k.noise, NoiseScale: 0.3}
		policy := []rollout.Config{{Policy: rollout.Convex, Alpha: 0.4}, {Policy: rollout.Residual, Dt: 0.3},
			{Policy: rollout.Autoregressive, Clamp: &[2]float64{-0.3, 0.4}},
			{Policy: rollout.Convex, Alpha: 0.7, Normalization: rollout.ZScore}}[i]
		effects(t, fmt.Sprintf("%s, %s, %s, %s", k.norm, k.noise, k.precision, policy.Policy), c, policy, mode, got)
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
	if recorded != len(got) || recorded < 1000 {
		t.Errorf("%d effects, and %d recorded", len(got), recorded)
	}
}
