package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// TestCores: what the matrix units of all known devices give passes, of numbers of both signs, of one
// sign, and of sums that cancel; and half the result does not.
func TestCores(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range tensorcore.Names() {
		m, err := tensorcore.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, shift := range []float64{0, 1, 8} {
			for _, of := range []struct {
				in tensorcore.Input
				f  fp16.Format
			}{{tensorcore.FP16, fp16.Float16}, {tensorcore.BF16, fp16.BFloat16}} {
				unit, err := m.Unit(of.in, fp16.Float32)
				if err != nil {
					continue
				}
				a, b := tensor.New(of.f, 24, 512), tensor.New(of.f, 512, 16)
				for _, x := range []*tensor.Tensor{a, b} {
					for i := range x.Data {
						x.Data[i] = of.f.Round(shift + r.NormFloat64())
					}
				}
				wide := func(x *tensor.Tensor) *tensor.Tensor { return tensor.Of(fp16.Float64, x.Data, x.Shape...) }
				y := tensor.New(fp16.Float32, 24, 16)
				unit.MatMul(y, wide(a), wide(b), nil, 1)
				g, _, err := Kernel("matmul", nil, []string{"input", "other"})
				if err != nil {
					t.Fatal(err)
				}
				rep, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: y})
				if err != nil || rep.Verdict != Pass {
					t.Errorf("%s %v shift %v: %+v %v", name, of.in, shift, rep, err)
				}
			}
		}
	}
}

// TestTF32Ways: with a claim of TF32, what matrix units give of operands that are rounded to nearest even, ties away or
// cut off passes, of one sign and of both, and the report says which it is; of bfloat16 operands, and of sums that keep
// 14 bits, it fails.
func TestTF32Ways(t *testing.T) {
	g, _, err := Kernel("matmul", nil, []string{"input", "other"})
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(v float64) float64{
		"tf32":           func(v float64) float64 { return fp16.RoundTF32(v, fp16.NearestEven) },
		"tf32 ties away": func(v float64) float64 { return fp16.RoundTF32(v, fp16.NearestAway) },
		"tf32 truncated": func(v float64) float64 { return fp16.RoundTF32(v, fp16.TowardZero) },
		"bfloat16":       fp16.BFloat16.Round,
		"14 bits":        func(v float64) float64 { return fp16.RoundTF32(v, fp16.NearestEven) },
	}
	for i, name := range []string{"a100", "h100", "b200", "mi300"} {
		m, err := tensorcore.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		unit, err := m.Unit(tensorcore.TF32, fp16.Float32)
		if err != nil {
			t.Fatal(err)
		}
		for seed, shift := range []float64{0, 1, 8} {
			if !share.All() && (i+seed)%3 > 0 {
				continue
			}
			for way, operand := range ways {
				r := rand.New(rand.NewPCG(uint64(seed), 17))
				draw := func(shape ...int) (given, used *tensor.Tensor) {
					given, used = tensor.New(fp16.Float32, shape...), tensor.New(fp16.Float64, shape...)
					for i := range given.Data {
						v := float64(float32(r.NormFloat64() + shift))
						if i%8 == 0 { // in the middle between two numbers of TF32
							v = fp16.RoundTF32(v, fp16.TowardZero) * (1 + 0x1p-11)
							v = math.Copysign(math.Float64frombits(math.Float64bits(v)&^(1<<41-1)|1<<41), v)
						}
						given.Data[i], used.Data[i] = v, operand(v)
					}
					return given, used
				}
				a, x := draw(16, 200)
				b, y := draw(200, 12)
				u := *unit
				if way == "14 bits" {
					u.Fraction, u.Keep = 13, 13
				}
				out := tensor.New(fp16.Float32, 16, 12)
				u.MatMul(out, x, y, nil, 1)
				rep, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: out,
					Claimed: &Contract{Form: Form{Operands: "tf32"}}})
				right := way != "bfloat16" && way != "14 bits"
				if err != nil || (rep.Verdict == Pass) != right || right && rep.Contract.Operands != way {
					t.Errorf("%s, numbers about %v, %s: %+v %v", name, shift, way, rep, err)
				}
			}
		}
	}
}

// TestTF32NotUsed: a device that may use TF32 and sums float32 products is right, and the report says that operands are
// float32; one that leaves out a term is wrong.
func TestTF32NotUsed(t *testing.T) {
	g, _, err := Kernel("matmul", nil, []string{"input", "other"})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 18))
	for _, terms := range []int{200, 199} {
		a, b, out := tensor.New(fp16.Float32, 16, 200), tensor.New(fp16.Float32, 200, 12), tensor.New(fp16.Float32, 16, 12)
		for _, x := range []*tensor.Tensor{a, b} {
			for i := range x.Data {
				x.Data[i] = float64(float32(r.NormFloat64()))
			}
		}
		for i := range out.Data {
			var sum float32
			for k := range terms {
				sum += float32(float32(a.Data[i/12*200+k]) * float32(b.Data[k*12+i%12]))
			}
			out.Data[i] = float64(sum)
		}
		right := terms == 200
		rep, err := Check(Question{
			Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: out, Claimed: &Contract{Form: Form{Operands: "tf32"}},
		})
		if err != nil || (rep.Verdict == Pass) != right || right && rep.Contract.Operands != "" {
			t.Errorf("%d terms: %+v %v", terms, rep, err)
		}
	}
}
