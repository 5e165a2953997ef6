package tensorcore

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("tensorcore.elements", 200, "dot products of each unit that are held to the judge")

// rational is the sum of a block in the words of the rules, in exact fractions. It shares
// nothing with the units but the table.
func (u *Unit) rational(a, b []float64, c float64) float64 {
	rat := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	first := func(v float64, low int) int { // the exponent of the first digit
		_, e := math.Frexp(v)
		return max(e-1, low)
	}
	two := func(e int) *big.Rat {
		r := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(e, -e))))
		if e < 0 {
			r.Inv(r)
		}
		return r
	}
	// cut makes x a whole multiple of 2^place, toward zero or toward minus infinity.
	cut := func(x *big.Rat, place int, floor bool) *big.Rat {
		q := new(big.Rat).Quo(x, two(place))
		n := new(big.Int).Quo(q.Num(), q.Denom())
		if floor && q.Sign() < 0 && !q.IsInt() {
			n.Sub(n, big.NewInt(1))
		}
		return new(big.Rat).Mul(new(big.Rat).SetInt(n), two(place))
	}
	single := func(x *big.Rat) float64 {
		f, _ := x.Float32()
		return float64(f)
	}
	low := -126
	if u.Output == fp16.Float16 {
		low = -14
	}
	if u.Input == TF32 {
		a, b = cutTF32(a), cutTF32(b)
	}
	switch u.Kind {
	case Exact:
		sum := rat(c)
		for i := range a {
			sum.Add(sum, new(big.Rat).Mul(rat(a[i]), rat(b[i])))
		}
		return single(sum)
	case Pairs:
		flush := func(v, least float64) float64 {
			if math.Abs(v) < least {
				return 0
			}
			return v
		}
		add := func(x, y float64) float64 { return flush(float64(float32(x)+float32(y)), 0x1p-126) }
		var p [4]float64
		for i := range a {
			least := math.Ldexp(1, u.Input.lowest())
			p[i] = flush(single(new(big.Rat).Mul(rat(flush(a[i], least)), rat(flush(b[i], least)))), 0x1p-126)
		}
		return add(add(add(p[0], p[1]), add(p[2], p[3])), flush(c, 0x1p-126))
	}
	if u.Kind == Converted {
		half := must("h100", FP16, u.Output)
		var sum float64
		for _, first := range []bool{true, false} {
			var x, y []float64
			for k := range a {
				if (k%4 < 2) == first {
					x, y = append(x, a[k]), append(y, b[k])
				}
			}
			if sum = half.rational(x, y, sum); sum-sum != 0 {
				return sum
			}
		}
		if u.Output == fp16.Float16 {
			return fp16.Float16.Round(sum + c) // exact before: both are multiples of 2^-24
		}
		return single(new(big.Rat).Add(rat(sum), rat(c)))
	}
	top, some := math.MinInt32, false
	for i := range a {
		if a[i] != 0 && b[i] != 0 {
			top, some = max(top, first(a[i], u.Input.lowest())+first(b[i], u.Input.lowest())), true
		}
	}
	if u.Kind == Floor {
		if !some {
			return c
		}
		sum := new(big.Rat)
		for i := range a {
			sum.Add(sum, cut(new(big.Rat).Mul(rat(a[i]), rat(b[i])), top-24, false))
		}
		if c != 0 {
			most := max(top, first(c, low))
			sum = cut(sum, most-31, true)
			sum.Add(sum, cut(rat(c), most-24, true))
		}
		return single(sum)
	}
	least := u.Lowest[0]
	if u.Output == fp16.Float16 {
		least = u.Lowest[1]
	}
	top = max(top, least)
	if c != 0 {
		top = max(top, first(c, low))
	}
	sum := cut(rat(c), top-u.Fraction, false)
	for i := range a {
		sum.Add(sum, cut(new(big.Rat).Mul(rat(a[i]), rat(b[i])), top-u.Fraction, false))
	}
	if u.Output == fp16.Float16 {
		f, _ := sum.Float64()        // exact: fewer than 53 bits
		return fp16.Float16.Round(f) // which the tests of fp16 hold to fractions
	}
	bits := 23
	if u.Keep > 0 {
		bits = u.Keep
	}
	f, _ := sum.Float64()
	place := max(first(f, -126)-bits, -149)
	f, _ = cut(sum, place, false).Float64()
	if math.Abs(f) >= 0x1p128 {
		f = math.Inf(int(f / math.Abs(f)))
	}
	return f
}

// cutTF32 keeps 10 bits of the fraction of float32 numbers.
func cutTF32(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(math.Float32frombits(math.Float32bits(float32(x)) &^ (1<<13 - 1)))
	}
	return out
}

// numbers returns numbers of a format: of size 1, of all sizes, subnormal ones, zeros, and
// pairs that cancel.
func numbers(r *rand.Rand, in Input, n int) []float64 {
	v := make([]float64, n)
	fraction := [inputs]int{10, 7, 23, 3, 2}[in]
	greatest := [inputs]float64{65504, 0x1.fep127, 0x1.fffffep127, 448, 57344}[in]
	wide := r.IntN(3) == 0
	for i := range v {
		e := r.IntN(7) - 3
		if wide {
			e = in.lowest() - 3 + r.IntN(-2*in.lowest())
		}
		place := max(e, in.lowest()) - fraction
		x := math.RoundToEven(math.Ldexp(1+r.Float64(), e-place)) * math.Ldexp(1, place)
		if v[i] = min(x, greatest); r.IntN(2) == 0 {
			v[i] = -v[i]
		}
		if r.IntN(20) == 0 {
			v[i] = 0
		}
	}
	return v
}

func units(run func(m Model, u *Unit)) {
	for _, name := range Names() {
		m, _ := Lookup(name)
		for _, in := range m.Inputs() {
			for _, out := range []fp16.Format{fp16.Float32, fp16.Float16} {
				if u, err := m.Unit(in, out); err == nil {
					run(m, u)
				}
			}
		}
	}
}

// TestJudge: random, wide, cancelling and subnormal sums of several blocks, the last one
// short, are those of exact fractions.
func TestJudge(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	units(func(m Model, u *Unit) {
		finite := 0
		for range *elements {
			terms := 1 + r.IntN(2*u.Terms+1)
			a, b := numbers(r, u.Input, terms), numbers(r, u.Input, terms)
			if r.IntN(2) == 0 { // half of it cancels
				for i := 1; i < terms; i += 2 {
					a[i], b[i] = -a[i-1], b[i-1]
				}
			}
			c := fp16.Float32.Round(r.NormFloat64() * math.Ldexp(1, r.IntN(30)-20))
			if r.IntN(4) == 0 {
				c = 0
			}
			c = u.Output.Round(c)
			got, want := u.Dot(a, b, c), c
			for at := 0; at < terms && want-want == 0; at += u.Terms {
				end := min(at+u.Terms, terms)
				want = u.rational(a[at:end], b[at:end], want)
			}
			if want-want != 0 {
				continue // specials have a test of their own
			}
			finite++
			if got != want {
				t.Fatalf("%s %v to %v: c %v\na %v\nb %v\n%v (%x), want %v (%x)",
					m.Name(), u.Input, u.Output, c, a, b, got, got, want, want)
			}
		}
		if finite < *elements/2 {
			t.Errorf("%s %v to %v: %d finite sums", m.Name(), u.Input, u.Output, finite)
		}
	})
}

// TestSpecials: what is not finite is of IEEE 754's sums, and what is too large infinite.
func TestSpecials(t *testing.T) {
	inf := math.Inf(1)
	units(func(m Model, u *Unit) {
		if u.Input >= E4M3 {
			return
		}
		for _, c := range []struct {
			a, b    []float64
			c, want float64
		}{
			{[]float64{inf, 1}, []float64{1, 1}, 0, inf},
			{[]float64{inf, 1}, []float64{0, 1}, 0, fp16.NaN},
			{[]float64{inf, inf}, []float64{1, -1}, 0, fp16.NaN},
			{[]float64{1, -inf}, []float64{1, 1}, 3, -inf},
			{[]float64{fp16.NaN}, []float64{0}, 0, fp16.NaN},
			{[]float64{1}, []float64{1}, -inf, -inf},
			{[]float64{inf}, []float64{1}, -inf, fp16.NaN},
			{[]float64{0, 0}, []float64{1, 1}, 0, 0},
			{nil, nil, 2.5, 2.5},
		} {
			got := u.Dot(c.a, c.b, c.c)
			if math.Float64bits(got) != math.Float64bits(c.want) {
				t.Errorf("%s %v to %v: %v %v + %v is %v, want %v", m.Name(), u.Input, u.Output, c.a, c.b, c.c, got, c.want)
			}
		}
	})
	u := must("a100", BF16, fp16.Float32)
	if got := u.Dot([]float64{0x1p100}, []float64{0x1p100}, 0); !math.IsInf(got, 1) {
		t.Error(got)
	}
	if got := u.Dot([]float64{0x1p64, 0x1p-60}, []float64{0x1p63, 1}, 0x1.fffffep127); !math.IsInf(got, 1) {
		t.Error(got)
	}
}

// must returns a unit that there is.
func must(name string, in Input, out fp16.Format) *Unit {
	m, err := Lookup(name)
	if err == nil {
		var u *Unit
		if u, err = m.Unit(in, out); err == nil {
			return u
		}
	}
	panic(err)
}

// TestReveal: the numbers that tell devices apart (2^j, 1 and -2^j) do, as published.
func TestReveal(t *testing.T) {
	for _, c := range []struct {
		name     string
		in       Input
		j, m     int
		one, two float64 // with j, and with j+1
	}{
		{"a100", BF16, 24, 7, 1, 0}, {"h100", BF16, 25, 15, 1, 0},
	} {
		u := must(c.name, c.in, fp16.Float32)
		for k, want := range []float64{c.one, c.two} {
			a, b := make([]float64, u.Terms), make([]float64, u.Terms)
			for i := range b {
				b[i] = 1
			}
			a[0], a[1], a[c.m] = math.Ldexp(1, c.j+k), 1, -math.Ldexp(1, c.j+k)
			if got := u.Dot(a, b, 0); got != want {
				t.Errorf("%s, 2^%d: %v, want %v", c.name, c.j+k, got, want)
			}
		}
	}
}

// TestMatMul: products are those of the rows and columns, parts those of shorter sums, on any
// number of processors, with kernels and in plain Go.
func TestMatMul(t *testing.T) {
	r := rand.New(rand.NewPCG(73, 74))
	const m, k, n = 5, 70, 7
	round := 0
	all := func(model Model, u *Unit) {
		a, b := tensor.Of(fp16.Float32, numbers(r, u.Input, m*k), m, k),
			tensor.Of(fp16.Float32, numbers(r, u.Input, k*n), k, n)
		c, dst := tensor.New(u.Output, m, n), tensor.New(u.Output, m, n)
		for i := range c.Data {
			c.Data[i] = u.Output.Round([]float64{
				r.NormFloat64(), math.Ldexp(r.NormFloat64(), r.IntN(280)-150), 0, math.Copysign(0, -1), math.Inf(1),
			}[(round*r.IntN(5))%5])
		}
		if round == 3 { // whole numbers, many of which cancel
			for i := range a.Data {
				a.Data[i] = float64(r.IntN(5) - 2)
			}
			for i := range b.Data {
				b.Data[i] = float64(r.IntN(5) - 2)
			}
		}
		// products of the size of the smallest numbers, and accumulators too
		if least := math.Ldexp(1, u.Input.lowest()-2); round >= 5 {
			for _, v := range [][]float64{a.Data, b.Data} {
				for i := range v {
					v[i] = math.Copysign(max(least, math.Ldexp(float64(4+r.IntN(4)), -62-r.IntN(16))), r.NormFloat64())
					switch {
					case round == 7 || r.IntN(9) == 0:
						v[i] = math.Copysign(0, v[i])
					case round == 6 && i%k == 0: // too small a product, and nothing after it
						v[i] = math.Copysign(max(least, 0x1p-77), v[i])
					case round == 6:
						v[i] = 0
					}
				}
			}
			for i := range c.Data {
				c.Data[i] = u.Output.Round(math.Ldexp(float64(r.IntN(9)-4), -128-r.IntN(22)))
				if r.IntN(4) == 0 {
					c.Data[i] = math.Copysign(0, -1)
				}
			}
		}
		if round == 8 && u.Input.lowest() == -126 { // products and sums about the largest number
			for _, v := range [][]float64{a.Data, b.Data} {
				for i := range v {
					v[i] = math.Copysign(math.Ldexp(float64(4+r.IntN(4)), 60+r.IntN(2)), r.NormFloat64())
				}
			}
			for i := range c.Data {
				c.Data[i] = u.Output.Round(math.Ldexp(float64(r.IntN(9)-4), 125))
			}
		}
		if round == 4 {
			a.Data[r.IntN(m*k)], b.Data[r.IntN(n*k)] = a.Data[0]*math.Inf(1), 0
		}
		for _, parts := range []int{1, 2, 3} {
			u.MatMul(dst, a, b, c, parts)
			cuts := u.cuts(k, parts)
			for i := range m {
				for j := range n {
					column := make([]float64, k)
					for l := range column {
						column[l] = b.Data[l*n+j]
					}
					row := a.Data[i*k : (i+1)*k]
					want := u.Dot(row[:cuts[1]], column[:cuts[1]], c.Data[i*n+j])
					for p := 1; p < parts; p++ {
						want = u.Output.Round(float64(float32(want + u.Dot(row[cuts[p]:cuts[p+1]], column[cuts[p]:cuts[p+1]], 0))))
					}
					if got := dst.Data[i*n+j]; math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
						t.Fatalf("%s %v to %v, %d parts, [%d,%d]: %v, want %v", model.Name(), u.Input, u.Output, parts, i, j, got, want)
					}
				}
			}
		}
	}
	defer func() {
		if err := asm.Use(""); err != nil {
			t.Error(err)
		}
	}()
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for round = 0; round < 9; round++ {
			units(all)
		}
	}
	if got := must("a100", FP16, fp16.Float32).cuts(70, 3); got[1] != 24 || got[2] != 48 || got[3] != 70 {
		t.Error(got)
	}
}

func TestNames(t *testing.T) {
	for _, c := range [][2]string{
		{errorOf(Lookup("h101")), `tensor core "h101": want one of v100, t4, a100, a2, ada, l40s, h100, h100-mma, ` +
			`h200, h200-mma, b200, b200-tcgen05, mi100, mi200, mi300`},
		{errorOf(ParseInput("int8")), `operands "int8": want one of fp16, bf16, tf32, E4M3, E5M2`},
		{errorOf(model("v100").Unit(BF16, fp16.Float32)), "v100: operands bf16: want fp16"},
		{errorOf(model("a100").Unit(BF16, fp16.Float16)), "a100: float16 results of bf16 operands: want float32"},
		{errorOf(model("h100").Unit(E4M3, fp16.BFloat16)),
			"h100: bfloat16 results of E4M3 operands: want float32 or float16"},
		{errorOf(model("b200-tcgen05").Unit(E4M3, fp16.Float16)),
			"b200-tcgen05: float16 results of E4M3 operands: want float32"},
		{errorOf(model("a100").Unit(FP16, fp16.BFloat16)),
			"a100: bfloat16 results of fp16 operands: want float32 or float16"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}

func model(name string) Model {
	m, _ := Lookup(name)
	return m
}

func errorOf[T any](_ T, err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func BenchmarkMatMul(b *testing.B) {
	const n = 256
	r := rand.New(rand.NewPCG(75, 76))
	units(func(m Model, u *Unit) {
		if u.Output != fp16.Float32 {
			return
		}
		b.Run("device="+m.Name()+"/operands="+u.Input.String(), func(b *testing.B) {
			x, y, dst := tensor.New(fp16.Float32, n, n), tensor.New(fp16.Float32, n, n), tensor.New(fp16.Float32, n, n)
			for i := range x.Data { // numbers that all formats have
				x.Data[i], y.Data[i] = float64(r.IntN(15)-7)/4, float64(r.IntN(15)-7)/4
			}
			for b.Loop() {
				u.MatMul(dst, x, y, nil, 1)
			}
			b.ReportMetric(2*n*n*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	})
}
