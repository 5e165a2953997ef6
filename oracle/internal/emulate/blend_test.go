package emulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

func f32(v float64) float64 { return fp16.Float32.Round(v) }

// TestBlend: whatever way a right float32 device forms a convex state in, from numbers of one size or of very different
// ones, its errors are within the bound, number by number, and no larger in the mean square than those of the ensemble.
func TestBlend(t *testing.T) {
	const n = 4096
	mode := graph.Mode{Precision: fp16.Float32}
	r := rand.New(rand.NewPCG(1, 7))
	for _, alpha := range []float64{.01, .3, .9, .999} {
		a, b := f32(alpha), f32(1-alpha)
		ways := map[string]func(x, o float64) float64{
			"products": func(x, o float64) float64 { return f32(f32(a*x) + f32(b*o)) },
			"o + a d":  func(x, o float64) float64 { return f32(o + f32(a*f32(x-o))) },
			"x + b d":  func(x, o float64) float64 { return f32(x + f32(b*f32(o-x))) },
			"b from a": func(x, o float64) float64 { return f32(f32(a*x) + f32(f32(1-a)*o)) },
			"a from b": func(x, o float64) float64 { return f32(f32(f32(1-b)*x) + f32(b*o)) },
		}
		for _, size := range []struct{ x, o float64 }{{1, 1}, {1000, 1}, {1, 1000}} {
			x, o := tensor.New(fp16.Float64, 1, 1, 1, n), tensor.New(fp16.Float64, 1, 1, 1, n)
			for k := range x.Data {
				x.Data[k], o.Data[k] = f32(size.x*(1+r.Float64()/32)), f32(size.o*(1+r.Float64()/32))
			}
			c := rollout.Config{Policy: rollout.Convex, Alpha: alpha}
			bound, sums := BlendBound(x, o, c, mode)
			most := 0.0
			for member := range uint64(6) {
				sum := 0.0
				for k, y := range (&Legal{Member: member}).Blend(x, o, c, mode, fp16.Float64).Data {
					sum += float64((y - sums[k]) * (y - sums[k]))
				}
				most = max(most, sum)
			}
			for name, way := range ways {
				sum := 0.0
				for k, s := range sums {
					d := way(x.Data[k], o.Data[k]) - s
					if sum += float64(d * d); math.Abs(d) > bound[k] {
						t.Fatalf("%s, alpha %v, %v: %v off, bound %v", name, alpha, size, d, bound[k])
					}
				}
				if sum > most {
					t.Errorf("%s, alpha %v, %v: %.3g times the ensemble's mean square", name, alpha, size, sum/most)
				}
			}
		}
	}
}

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
