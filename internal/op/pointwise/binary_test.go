package pointwise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

func TestArithmetic(t *testing.T) {
	hashed.OnEach(t, *elements, func(o *hashed.Outputs) { fractions(t, o) })
}

func fractions(t *testing.T, o *hashed.Outputs) {
	for op := Add; op < Equal; op++ {
		fraction := exactOf[op]
		if fraction == nil {
			continue
		}
		r := rand.New(rand.NewPCG(11, uint64(op)))
		n, wrong := 0, 0
		for round := 0; n < *elements; round++ {
			src := []fp16.Format{fp16.Float32, fp16.Float32, fp16.Float16, fp16.BFloat16}[round%4]
			a, b := pairs(r, min(*elements, 1<<14)/4, src)
			for _, dst := range short {
				all := pairwise(a, b, op, src, dst)
				o.Add(op.String(), all...)
				for i, got := range all {
					if b[i] == 0 && op >= Div && op != PReLU && op != Minimum && op != Maximum {
						continue // no fraction
					}
					if n++; !o.Judge {
						continue
					}
					want, ok := 0.0, false
					if ball := ballsOf[op]; ball != nil {
						want, ok = ball(bigref.Exactly(a[i]), bigref.Exactly(b[i])).Round(dst)
					}
					if !ok || want == 0 {
						var y *big.Rat
						if y, want, _ = fraction(a[i], b[i]); y.Sign() != 0 {
							want = bigref.Round(y, dst)
						}
					}
					if math.Float64bits(got) != math.Float64bits(want) {
						if wrong++; wrong < 5 {
							t.Errorf("%v of %x and %x, %v to %v: got %x, want %x", op, a[i], b[i], src, dst, got, want)
						}
					}
				}
			}
		}
		t.Logf("%-10v %8d elements, %d wrong", op, n, wrong)
	}
}

// TestChoices: what returns one of its operands, or 0 or 1, by the table of the package's doc.
func TestChoices(t *testing.T) {
	truth := func(b bool) float64 { return map[bool]float64{true: 1}[b] }
	of := map[Op]func(a, b float64) float64{
		FMin: func(a, b float64) float64 {
			if a != a || b < a || a == b && math.Signbit(b) {
				return b
			}
			return a
		},
		FMax: func(a, b float64) float64 {
			if a != a || b > a || a == b && math.Signbit(a) {
				return b
			}
			return a
		},
		Equal:        func(a, b float64) float64 { return truth(a == b) },
		NotEqual:     func(a, b float64) float64 { return truth(a != b) },
		Less:         func(a, b float64) float64 { return truth(a < b) },
		LessEqual:    func(a, b float64) float64 { return truth(a <= b) },
		Greater:      func(a, b float64) float64 { return truth(a > b) },
		GreaterEqual: func(a, b float64) float64 { return truth(a >= b) },
		And:          func(a, b float64) float64 { return truth(a != 0 && b != 0) },
		Or:           func(a, b float64) float64 { return truth(a != 0 || b != 0) },
		Xor:          func(a, b float64) float64 { return truth((a != 0) != (b != 0)) },
	}
	o := hashed.New(t, *elements)
	for op := Add; op <= Xor; op++ {
		if of[op] == nil && exactOf[op] == nil && op != Pow && op != Atan2 {
			t.Errorf("%v has no judge", op)
		}
	}
	for op, want := range of {
		r := rand.New(rand.NewPCG(17, uint64(op)))
		for n := 0; n < *elements; {
			src := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16}[r.IntN(3)]
			a, b := pairs(r, min(*elements, 1<<14)/4, src)
			for i := range a {
				if v := []float64{a[i], inf, -inf, nan, 0, b[i], -b[i]}[max(r.IntN(30)-23, 0)]; i%2 == 0 {
					a[i] = v
				} else {
					b[i] = v
				}
			}
			for _, dst := range short {
				got := pairwise(a, b, op, src, dst)
				o.Add(op.String(), got...)
				for i, y := range got {
					if w := rounded(want(a[i], b[i]), dst); math.Float64bits(y) != math.Float64bits(w) {
						t.Fatalf("%v of %x and %x, %v to %v: got %x, want %x", op, a[i], b[i], src, dst, y, w)
					}
				}
				n += len(got)
			}
		}
	}
	r := rand.New(rand.NewPCG(18, 1))
	for n := 0; n < *elements; {
		a, b := pairs(r, 4096, fp16.Float32)
		c := make([]float64, len(a))
		for i := range c {
			c[i] = []float64{0, 1, negZero, nan, -0x1p-149, inf}[r.IntN(6)]
		}
		for _, dst := range short {
			y := tensor.New(dst, len(a))
			Where(y, tensor.Of(fp16.Float32, c, len(c)), tensor.Of(fp16.Float32, a, len(a)), tensor.Of(fp16.Float32, b, len(b)))
			o.Add("where", y.Data...)
			for i, got := range y.Data {
				want := rounded(b[i], dst)
				if c[i] != 0 {
					want = rounded(a[i], dst)
				}
				if math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("where %x, %x, %x to %v: got %x, want %x", c[i], a[i], b[i], dst, got, want)
				}
			}
			n += len(a)
		}
	}
}

// rounded is the judge's rounding of one number.
func rounded(v float64, f fp16.Format) float64 {
	switch {
	case v != v:
		return fp16.NaN
	case v == 0 || v-v != 0:
		return v
	}
	return bigref.Exactly(v).Or(f, func() float64 { return bigref.Round(bigref.Rat(v), f) })
}

// powers returns n pairs for pow, of which many have float64 numbers, or ties, as
// their results.
func powers(r *rand.Rand, n int, f fp16.Format) (a, b []float64) {
	for i := range n {
		x := math.Exp(2 * r.NormFloat64())
		y := 3 * r.NormFloat64()
		switch i % 8 {
		case 0: // of all sizes
			x = math.Abs(float64(math.Float32frombits(r.Uint32())))
			y = 200 * r.NormFloat64() / max(1, math.Abs(math.Log(x)))
		case 1: // short powers
			x, y = math.Ldexp(float64(r.IntN(64)), -r.IntN(6)), float64(r.IntN(20)-6)
		case 2: // squares and fourth powers, and their roots
			k := float64(1 + r.IntN(60))
			x, y = math.Ldexp(k*k*k*k, 4*(r.IntN(20)-10)), []float64{0.25, 0.5, 0.75, 1.25, 1.5, -0.5, -0.25}[r.IntN(7)]
			if i&8 != 0 {
				x, y = k*k, 0.5
			}
		case 3: // near 1
			x, y = 1+math.Ldexp(r.NormFloat64(), -10-r.IntN(14)), math.Ldexp(r.NormFloat64(), r.IntN(20))
		case 4: // small exponents
			y = math.Ldexp(r.NormFloat64(), -r.IntN(140))
		case 5: // powers of 2
			x, y = math.Ldexp(1, r.IntN(40)-20), math.Ldexp(float64(r.IntN(64)-32), -r.IntN(4))
		case 6: // cubes of 8 bits are ties of 24 at times
			x, y = float64(1+r.IntN(1<<9)), float64(2+r.IntN(3))
		}
		if x, y = f.Round(x), f.Round(y); x-x != 0 || x == 0 || y-y != 0 {
			x, y = 3, 2
		}
		a, b = append(a, x), append(b, y)
	}
	return a, b
}

func TestPow(t *testing.T) {
	r, o := rand.New(rand.NewPCG(12, 1)), hashed.New(t, *elements)
	n, wrong, slow := 0, 0, 0
	for round := 0; n < *elements; round++ {
		src := []fp16.Format{fp16.Float32, fp16.Float32, fp16.Float32, fp16.Float16, fp16.BFloat16}[round%5]
		a, b := powers(r, min(*elements, 1<<14)/8, src)
		for _, dst := range short {
			all := pairwise(a, b, Pow, src, dst)
			o.Add("pow", all...)
			for i, got := range all {
				if !o.Judge {
					n++
					continue
				}
				want, ok := bigref.Exactly(a[i]).Log().Mul(bigref.Exactly(b[i])).Exp().Round(dst)
				if !ok {
					slow++
					want = bigref.Power(a[i], b[i], dst)
				}
				if n++; math.Float64bits(got) != math.Float64bits(want) {
					if wrong++; wrong < 5 {
						t.Errorf("pow of %x and %x, %v to %v: got %x, want %x", a[i], b[i], src, dst, got, want)
					}
				}
				if b[i] != math.Floor(b[i]) || i%4 != 0 {
					continue
				}
				if odd := math.Mod(b[i], 2) != 0; odd { // a negative base
					want = -want
				}
				if got := operations[Pow].at(-a[i], b[i], dst); math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("pow of %x and %x to %v: got %x, want %x", -a[i], b[i], dst, got, want)
				}
			}
		}
	}
	t.Logf("pow        %8d elements, %d wrong, %d by the slow judge", n, wrong, slow)
}

func TestAtan2(t *testing.T) {
	r, o := rand.New(rand.NewPCG(16, 1)), hashed.New(t, *elements)
	n, wrong, slow := 0, 0, 0
	for round := 0; n < *elements; round++ {
		src := []fp16.Format{fp16.Float32, fp16.Float32, fp16.Float32, fp16.Float16, fp16.BFloat16}[round%5]
		a, b := pairs(r, min(*elements, 1<<14)/8, src)
		for _, dst := range short {
			all := pairwise(a, b, Atan2, src, dst)
			o.Add("atan2", all...)
			for i, got := range all {
				if !o.Judge {
					n++
					continue
				}
				want, ok := bigref.Near(math.Atan2(a[i], b[i]), 0x1p-36, dst)
				if !ok {
					slow++
					want = bigref.Angle(a[i], b[i], dst)
				}
				if n++; math.Float64bits(got) != math.Float64bits(want) {
					if wrong++; wrong < 5 {
						t.Errorf("atan2 of %x and %x, %v to %v: got %x, want %x", a[i], b[i], src, dst, got, want)
					}
				}
			}
		}
	}
	t.Logf("atan2      %8d elements, %d wrong, %d by the slow judge", n, wrong, slow)

	a, b := pairs(r, 1200, fp16.Float32)
	for i := range a {
		if _, bound := atan2(a[i], b[i]); !(bound > 0) {
			continue
		}
		odd := exact.Atan2(a[i], b[i])
		for _, f := range short {
			if got, want := f.Round(odd), bigref.Angle(a[i], b[i], f); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("atan2 of %x and %x in %v: settled as %x, want %x", a[i], b[i], f, got, want)
			}
		}
	}
}

// The settlement of powers is right in every format, exact results included.
func TestSettlePow(t *testing.T) {
	a, b := powers(rand.New(rand.NewPCG(13, 1)), 2000, fp16.Float32)
	for i := range a {
		if b[i] == 0 || a[i] == 1 {
			continue
		}
		odd := settlePow(a[i], b[i])
		for _, f := range short {
			if got, want := f.Round(odd), bigref.Power(a[i], b[i], f); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("pow of %x and %x in %v: settled as %x, want %x", a[i], b[i], f, got, want)
			}
		}
	}
}

// The special cases of pow are those of math.Pow, which has IEEE 754's.
func TestPowSpecials(t *testing.T) {
	v := []float64{0, negZero, 1, -1, inf, -inf, fp16.NaN, 2, -2, 0.5, -0.5, 3, -3, 1e38, -1e38, 0x1p24 + 2,
		16777215, -16777215, 2.5}
	for _, a := range v {
		for _, b := range v {
			got, want := operations[Pow].at(a, b, fp16.Float32), math.Pow(a, b)
			if special := math.IsInf(want, 0) || want == 0 || want != want || math.Abs(want) == 1; special &&
				math.Float64bits(got) != math.Float64bits(fp16.Float32.Round(want)) {
				t.Errorf("pow(%g, %g) = %g, want %g", a, b, got, want)
			}
		}
	}
}

func TestBinarySpecials(t *testing.T) {
	for _, c := range []struct {
		op         Op
		a, b, want float64
	}{
		{Add, inf, -inf, nan}, {Add, inf, 1, inf}, {Add, 1, -inf, -inf}, {Add, nan, 1, nan},
		{Add, negZero, negZero, negZero}, {Add, 1, -1, 0},
		{Sub, inf, inf, nan}, {Sub, -inf, inf, -inf}, {Sub, 0, 0, 0}, {Sub, negZero, 0, negZero}, {Sub, 1, nan, nan},
		{Mul, 0, inf, nan}, {Mul, -1, inf, -inf}, {Mul, negZero, 2, negZero}, {Mul, nan, 0, nan},
		{Div, 0, 0, nan}, {Div, inf, inf, nan}, {Div, 1, negZero, -inf}, {Div, -1, 0, -inf}, {Div, 1, -inf, negZero},
		{Div, nan, 1, nan},
		{Atan2, 0, 0, 0}, {Atan2, negZero, 1, negZero}, {Atan2, 0, negZero, math.Pi}, {Atan2, negZero, -1, -math.Pi},
		{Atan2, 1, negZero, math.Pi / 2},
		{Atan2, -3, 0, -math.Pi / 2}, {Atan2, 2, inf, 0}, {Atan2, -2, inf, negZero}, {Atan2, -2, -inf, -math.Pi},
		{Atan2, inf, 2, math.Pi / 2},
		{Atan2, inf, inf, math.Pi / 4}, {Atan2, -inf, -inf, -3 * math.Pi / 4}, {Atan2, nan, 1, nan}, {Atan2, 1, nan, nan},
		{Minimum, 1, nan, nan}, {Minimum, nan, 1, nan}, {Minimum, 0, negZero, negZero}, {Minimum, -inf, 3, -inf},
		{Maximum, 1, nan, nan}, {Maximum, nan, inf, nan}, {Maximum, negZero, 0, 0}, {Maximum, -inf, 3, 3},
		{FMin, 1, nan, 1}, {FMin, nan, 1, 1}, {FMin, nan, nan, nan}, {FMin, 0, negZero, negZero}, {FMin, 2, 1, 1},
		{FMax, 1, nan, 1}, {FMax, nan, -inf, -inf}, {FMax, nan, nan, nan}, {FMax, negZero, 0, 0}, {FMax, 2, 1, 2},
		{PReLU, -inf, 0, nan}, {PReLU, inf, nan, inf}, {PReLU, negZero, 2, negZero}, {PReLU, nan, 1, nan}, {PReLU, -2, -3, 6},
		{FMod, 5, -3, 2}, {FMod, -5, 3, -2}, {FMod, -6, 3, negZero}, {FMod, 1, 0, nan}, {FMod, inf, 1, nan},
		{FMod, -1, inf, -1}, {FMod, negZero, 2, negZero}, {FMod, nan, 1, nan}, {FMod, 1, nan, nan},
		{Remainder, 5, -3, -1}, {Remainder, -5, 3, 1}, {Remainder, -6, 3, negZero}, {Remainder, 1, 0, nan},
		{Remainder, inf, 1, nan}, {Remainder, -1, inf, inf}, {Remainder, 1, inf, 1}, {Remainder, 1, -inf, -inf},
		{Remainder, 0, -2, 0}, {Remainder, nan, 1, nan},
		{FloorDivide, 5, -3, -2}, {FloorDivide, -5, -3, 1}, {FloorDivide, 1, 0, inf}, {FloorDivide, -1, 0, -inf},
		{FloorDivide, 0, 0, nan}, {FloorDivide, inf, 2, nan}, {FloorDivide, -1, inf, -1}, {FloorDivide, 1, inf, 0},
		{FloorDivide, negZero, 2, negZero}, {FloorDivide, 1, nan, nan},
		{TruncDivide, 5, -3, -1}, {TruncDivide, -1, 3, negZero}, {TruncDivide, 1, 0, inf}, {TruncDivide, 0, 0, nan},
		{TruncDivide, inf, -2, -inf}, {TruncDivide, inf, inf, nan}, {TruncDivide, -1, inf, negZero},
		{TruncDivide, nan, 1, nan},
		{Equal, nan, nan, 0}, {Equal, 0, negZero, 1}, {Equal, inf, inf, 1}, {Equal, 1, 2, 0},
		{NotEqual, nan, nan, 1}, {NotEqual, 0, negZero, 0}, {NotEqual, 1, 2, 1},
		{Less, nan, 1, 0}, {Less, 1, 2, 1}, {Less, 2, 2, 0}, {Less, -inf, inf, 1},
		{LessEqual, 1, nan, 0}, {LessEqual, 2, 2, 1}, {LessEqual, 3, 2, 0},
		{Greater, nan, 1, 0}, {Greater, 2, 1, 1}, {Greater, 2, 2, 0},
		{GreaterEqual, 1, nan, 0}, {GreaterEqual, 2, 2, 1}, {GreaterEqual, 1, 2, 0},
		{And, nan, 1, 1}, {And, 0, 1, 0}, {And, 2, 3, 1}, {And, negZero, negZero, 0},
		{Or, nan, 0, 1}, {Or, 0, negZero, 0}, {Or, 2, 0, 1}, {Or, 0, 3, 1},
		{Xor, 1, 2, 0}, {Xor, 0, 2, 1}, {Xor, nan, 0, 1}, {Xor, 0, 0, 0},
	} {
		for _, f := range append(short, fp16.Float64) {
			if got, want := pairwise([]float64{c.a}, []float64{c.b}, c.op, fp16.Float32, f)[0],
				f.Round(c.want); math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("%v(%g, %g) in %v = %g, want %g", c.op, c.a, c.b, f, got, c.want)
			}
		}
	}
}

// In float64 an operation is one IEEE 754 operation, and pow keeps its error.
func TestFloat64Binary(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	for range 2000 {
		a, b := math.Ldexp(r.NormFloat64(), r.IntN(200)-100), math.Ldexp(r.NormFloat64(), r.IntN(200)-100)
		for op, want := range map[Op]float64{Add: a + b, Sub: a - b, Mul: a * b, Div: a / b} {
			if got := pairwise([]float64{a}, []float64{b}, op, fp16.Float64, fp16.Float64)[0]; got != want {
				t.Fatalf("%v(%x, %x) = %x, want %x", op, a, b, got, want)
			}
		}
	}
	// of ordinary numbers the quotients are exact, and what is left is rounded once
	for range 2000 {
		a, b := math.Ldexp(r.NormFloat64(), r.IntN(60)-30), math.Ldexp(r.NormFloat64(), r.IntN(20)-10)
		if r.IntN(2) == 0 {
			a = float64(b * float64(r.IntN(1<<20)))
		}
		for op := FMod; op <= TruncDivide; op++ {
			exact, zero, _ := exactOf[op](a, b)
			want := zero
			if exact.Sign() != 0 {
				want, _ = exact.Float64()
			}
			if got := pairwise([]float64{a}, []float64{b}, op, fp16.Float64, fp16.Float64)[0]; math.Float64bits(got) !=
				math.Float64bits(want) {
				t.Fatalf("%v(%x, %x) = %x, want %x", op, a, b, got, want)
			}
		}
	}
	for range 500 {
		a, b := math.Exp(10*r.NormFloat64()), 8*r.NormFloat64()
		got, want := operations[Pow].at(a, b, fp16.Float64), bigref.Power(a, b, fp16.Float64)
		if !(math.Abs(got-want) <= (2.2+0.06*math.Abs(b*math.Log(a)))*0x1p-53*want) {
			t.Errorf("pow(%x, %x) = %x, want %x", a, b, got, want)
		}
	}
}

// Shapes are spread as numpy does: each index of the result is taken apart.
func TestBroadcast(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 1))
	for range 400 {
		shape := make([]int, r.IntN(5))
		for i := range shape {
			shape[i] = []int{1, 2, 3, 5, 1, 7, 0}[r.IntN(6+r.IntN(2)*r.IntN(2))]
		}
		operand := func() *tensor.Tensor {
			s := append([]int(nil), shape[r.IntN(len(shape)+1):]...)
			for i := range s {
				if r.IntN(3) == 0 {
					s[i] = 1
				}
			}
			v := tensor.New(fp16.Float32, s...)
			for i := range v.Data {
				v.Data[i] = float64(r.IntN(3))
			}
			return v
		}
		a, b, c := operand(), operand(), operand()
		at := func(v *tensor.Tensor, dst []int, index int) float64 {
			k, each := 0, 1
			for d := len(dst) - 1; d >= 0; d-- {
				i := index % dst[d]
				index /= dst[d]
				if e := d - len(dst) + len(v.Shape); e >= 0 && v.Shape[e] > 1 {
					k += i * each
					each *= v.Shape[e]
				}
			}
			return v.Data[k]
		}
		out, err := Broadcast(a.Shape, b.Shape)
		if err != nil {
			t.Fatal(err)
		}
		dst := tensor.New(fp16.Float32, out...)
		Binary(dst, a, b, Sub)
		for i, got := range dst.Data {
			if want := at(a, out, i) - at(b, out, i); got != want {
				t.Fatalf("%v - %v at %d: %g, want %g", a.Shape, b.Shape, i, got, want)
			}
		}
		if out, err = Broadcast(a.Shape, b.Shape, c.Shape); err != nil {
			t.Fatal(err)
		}
		dst = tensor.New(fp16.Float32, out...)
		Where(dst, a, b, c)
		for i, got := range dst.Data {
			want := at(c, out, i)
			if at(a, out, i) != 0 {
				want = at(b, out, i)
			}
			if got != want {
				t.Fatalf("where %v, %v, %v at %d: %g, want %g", a.Shape, b.Shape, c.Shape, i, got, want)
			}
		}
	}
	for _, c := range [][2][]int{{{2}, {3}}, {{2, 1, 3}, {2, 2}}, {{0}, {2}}} {
		if s, err := Broadcast(c[0], c[1]); err == nil {
			t.Errorf("%v and %v give %v", c[0], c[1], s)
		}
	}
}
