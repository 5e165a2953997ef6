package emulate

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

func f32(v float64) float64 { return fp16.Float32.Round(v) }

// TestBlendConstants: a third of an ensemble has each way to form the two constants.
func TestBlendConstants(t *testing.T) {
	for _, alpha := range []float64{.999, .01} {
		a, b := f32(alpha), f32(1-alpha)
		if f32(1-a) == b && f32(1-b) == a {
			t.Fatalf("alpha %v: the ways do not differ", alpha)
		}
		for member, want := range [3][2]float64{{a, b}, {a, f32(1 - a)}, {f32(1 - b), b}} {
			p := blendOf(rollout.Config{Policy: rollout.Convex, Alpha: alpha},
				graph.Mode{Precision: fp16.Float32}).constants(uint64(member))
			if p.a != want[0] || p.b != want[1] {
				t.Errorf("alpha %v, member %d: %v, %v: want %v", alpha, member, p.a, p.b, want)
			}
		}
	}
}

// TestAdvanceConstants: exact arithmetic has the constants of the mode, which float32 rounds.
func TestAdvanceConstants(t *testing.T) {
	m := &Machine{Config: rollout.Config{Policy: rollout.Convex, Alpha: .999}}
	x, o := tensor.Of(fp16.Float64, []float64{100}, 1, 1, 1, 1), tensor.Of(fp16.Float64, []float64{3}, 1, 1, 1, 1)
	for precision, want := range map[fp16.Format]float64{
		fp16.Float32: f32(.999)*100 + f32(1-.999)*3, fp16.Float64: .999*100 + (1-.999)*3,
	} {
		got := m.Advance(&Device{Mode: graph.Mode{Precision: precision}, State: fp16.Float64}, x, o).Data[0]
		if math.Abs(got-want) > 1e-13 {
			t.Errorf("%v: %v, want %v", precision, got, want)
		}
	}
}

// TestTwice: products of a policy's constants with half numbers are rounded to float32 first, where it is said: of 0.7
// and multiples of 5 many are ties there, and none before.
func TestTwice(t *testing.T) {
	const alpha = .3
	mode, err := graph.ParseMode("bfloat16", "cpu")
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Config: rollout.Config{Policy: rollout.Convex, Alpha: alpha}}
	x, out := tensor.New(fp16.Float32, 1, 1, 1, 128), tensor.New(fp16.BFloat16, 1, 1, 1, 128)
	for k := range out.Data {
		out.Data[k] = float64(128 + k)
	}
	d := &Device{Mode: mode, Store: []fp16.Format{fp16.BFloat16}, State: fp16.Float32}
	once := m.Advance(d, x, out)
	d.Twice = true
	twice, others := m.Advance(d, x, out), 0
	share := float32(1 - alpha)
	for k, v := range out.Data {
		if want := fp16.BFloat16.Round(float64(share * float32(v))); twice.Data[k] != want {
			t.Errorf("0.7 times %v: %v, want %v", v, twice.Data[k], want)
		}
		if twice.Data[k] != once.Data[k] {
			others++
		}
	}
	if others < 4 {
		t.Errorf("%d of 128 are others: want ties", others)
	}
}
