package act_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

var fastStep = flag.Int("act.fast", 65521, "`step` from one number to the next of TestFastGELU: 1 for all of them")

// TestFastGELU: every instruction set has the bits of the definition, and that lies as
// near to GELU as its comment says.
func TestFastGELU(t *testing.T) {
	defer asm.Use(asm.ISA())
	const block = 8 * 61
	var x, want, y [block]float32
	from, distance := 0.0, 0.0
	for at := 0; at < 1<<32; {
		for i := range x {
			x[i] = math.Float32frombits(uint32(at))
			if x[i] != x[i] {
				x[i] = float32(fp16.NaN)
			}
			want[i] = act.FastGELU(x[i])
			at += *fastStep
			if v := float64(x[i]); math.Abs(v) < 40 && v != 0 {
				// erfc is good to some 10 units of float64's.
				exact := float64(0.5*v) * elem.Erfc(float64(-v*(1/math.Sqrt2)))
				err := math.Abs(float64(want[i]) - exact)
				if v >= -0.25 {
					distance = max(distance, err/max(fp16.Float32.Ulp(exact), 0x1p-149))
				}
				if math.Abs(v) > 0x1p-120 {
					from = max(from, err/math.Abs(v))
				}
			}
		}
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			r := act.NewFastRows(act.GELU, fp16.Float32)
			for pixels := 1; pixels <= 61; pixels += 1 + at%30 {
				r.Apply(y[:8*pixels], x[:8*pixels], nil)
				for i, v := range y[:8*pixels] {
					if math.Float32bits(v) != math.Float32bits(want[i]) {
						t.Fatalf("%s: GELU of %x is %x, want %x", isa, x[i], v, want[i])
					}
				}
			}
		}
	}
	t.Logf("within %.3f ulp for x >= -1/4, and %.3f 2^-24 of x", distance, from*0x1p24)
	if distance > 2 || from > 2.6*0x1p-24 {
		t.Errorf("%.3f ulp for x >= -1/4, and %.3f 2^-24 of x: want 2 and 2.6", distance, from*0x1p24)
	}
}

// TestForwardFast: tensors have the bits of the definition, what has no fast arithmetic is
// exact, and infinities and zeros are what the limit says.
func TestForwardFast(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(41, 2))
	x := tensor.New(fp16.Float32, 3, 1, 7, 321)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(2 * r.NormFloat64())
	}
	inf := math.Inf(1)
	copy(x.Data, []float64{inf, -inf, 0, math.Copysign(0, -1), math.NaN(), -5.25, -100, 5.25, 100})
	special := []float64{inf, math.Copysign(0, -1), 0, math.Copysign(0, -1), math.NaN(), math.Copysign(0, -1),
		math.Copysign(0, -1), 5.25, 100}
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		y := tensor.Like(x)
		act.ForwardFast(y, x, act.GELU)
		for i, v := range x.Data {
			want := float64(act.FastGELU(float32(v)))
			if i < len(special) {
				want = special[i]
			}
			if y.Data[i] != want && (want == want || y.Data[i] == y.Data[i]) || math.Signbit(y.Data[i]) != math.Signbit(want) {
				t.Fatalf("%s: GELU of %v is %v, want %v", isa, v, y.Data[i], want)
			}
		}
		for _, c := range []struct {
			f    act.Func
			to   fp16.Format
			same bool
		}{{act.SiLU, fp16.Float32, true}, {act.GELU, fp16.Float16, true}, {act.GELU, fp16.Float32, false}} {
			fast, exact, same := tensor.New(c.to, x.Shape...), tensor.New(c.to, x.Shape...), true
			act.ForwardFast(fast, x, c.f)
			act.Forward(exact, x, c.f)
			for i, v := range exact.Data[len(special):] {
				same = same && v == fast.Data[len(special)+i]
			}
			if same != c.same {
				t.Errorf("%s: %v to %v as exact: %v, want %v", isa, c.f, c.to, same, c.same)
			}
		}
	}
}
