package noise

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
)

func torchStream(t testing.TB, version string, seed uint64) *TorchCPU {
	t.Helper()
	s, err := newTorchCPU(version, false)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed(seed)
	return s
}

// torchDiff fails at the first element whose bits differ.
func torchDiff(t testing.TB, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%s: %d numbers, want %d and more than none", what, len(got), len(want))
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: element %d is %#08x (%v), want %#08x (%v)", what, i,
				math.Float32bits(float32(got[i])), got[i], math.Float32bits(float32(want[i])), want[i])
		}
	}
}

// torchFill returns n numbers of a fill, between guards that must survive.
func torchFill(t testing.TB, n int, fill func([]float64)) []float64 {
	t.Helper()
	const guard = 12345.5
	buf := make([]float64, n+2)
	buf[0], buf[n+1] = guard, guard
	fill(buf[1 : n+1])
	if buf[0] != guard || buf[n+1] != guard {
		t.Fatalf("a fill of %d numbers wrote outside", n)
	}
	return buf[1 : n+1]
}

// Float32 bit patterns printed by PyTorch, the same in releases 1.13 and 2.6.
func TestTorchGolden(t *testing.T) {
	for _, version := range []string{"1.13", "2.x"} {
		s := torchStream(t, version, 0)
		uniform := func(a, b float64) func([]float64) {
			return func(d []float64) { s.Uniform(d, a, b) }
		}
		fill := func(n int, f func([]float64)) []float64 { return torchFill(t, n, f) }
		concat := func(parts ...[]float64) (all []float64) {
			for _, p := range parts {
				all = append(all, p...)
			}
			return all
		}
		for _, c := range []struct {
			name string
			seed uint64
			draw func() []float64
			want string
		}{
			{"rand(6)", 0, func() []float64 { return fill(6, uniform(0, 1)) },
				"3efe1558 3f44aa2f 3db533a8 3e073300 3e9d6686 3f2252fb"},
			{"rand(6)", 42, func() []float64 { return fill(6, uniform(0, 1)) },
				"3f61dc66 3f6a3db3 3ec406b8 3f75950e 3ec7e8d4 3f19d447"},
			{"randn(5)", 0, func() []float64 { return fill(5, s.Normal) },
				"3fc53f5c be963c50 c00b7149 3f1184b6 bf8ad1a1"},
			{"randn(16)", 0, func() []float64 { return fill(16, s.Normal) },
				"bf901b85 bf93808a be804bd6 bede255d 3f594515 3f312783 bea1cc6d c0075fc1 " +
					"3ea50138 bfa1b4f4 3eb330ff 3e9dc3bb 3df56f77 3f9e6b93 3f8ef28e be7d367c"},
			{"randn(20)[14:]", 0, func() []float64 { return fill(20, s.Normal)[14:] },
				"3f72409c bf57fb33 3f6e8c30 3fa12737 4000519a 3d5c1b3a"},
			{"randn(1000)[0,1,498,999], rand(2)", 0, func() []float64 {
				n := fill(1000, s.Normal)
				return concat(n[:2], n[498:499], n[999:], fill(2, uniform(0, 1)))
			}, "bf901b85 bf93808a bfa748dd bf160f60 3f6eb763 3eed5372"},
			{"randn(5), randn(16)[:2], randn(3)", 0, func() []float64 {
				return concat(fill(5, s.Normal), fill(16, s.Normal)[:2], fill(3, s.Normal))
			}, "3fc53f5c be963c50 c00b7149 3f1184b6 bf8ad1a1 bdb54ff7 3f061d37 bfb3052d bf891cab 3dfb4aca"},
			{"uniform_(-0.1, 0.1)", 0, func() []float64 { return fill(5, uniform(-0.1, 0.1)) },
				"ba444333 3d5bba30 bda88f45 bd96b867 bd1dc25d"},
			{"Conv2d(3, 4, 3)", 0, func() []float64 {
				weight, bias := make([]float64, 4*3*3*3), make([]float64, 4)
				s.ConvInit(weight, bias, 3*3*3)
				return concat(weight[:9], bias)
			}, "babcda8b 3dd36ec5 be223254 be1107db bd97cdcc 3d5361c4 bb79e456 3e1c40fc bc8be8d7 " +
				"bc2dbc15 3cecb61b bda1694f 3de9df5e"},
			{"bernoulli_(0.5)", 0, func() []float64 {
				return fill(16, func(d []float64) { s.Bernoulli(d, 0.5) })
			}, "0 0 3f800000 0 0 0 3f800000 3f800000 0 3f800000 3f800000 3f800000 3f800000 0 3f800000 3f800000"},
			{"dropout2d(ones, 0.3)", 0, func() []float64 {
				d := fill(5, func(d []float64) { s.Bernoulli(d, 1-0.3) })
				for i, kept := range d {
					d[i] = kept * torchDropoutScale(0.3)
				}
				return d
			}, "0 0 3fb6db6e 0 3fb6db6e"},
			{"exponential_(1)", 0, func() []float64 { return fill(3, s.Exponential) },
				"4060886b 3f9d7d3f 3f1d7388"},
			{"randn(2, complex64)", 0, func() []float64 { return fill(4, s.ComplexNormal) },
				"3f8b799d be547719 bfc53396 3ecdcb4a"},
		} {
			s.Seed(c.seed)
			var got []string
			for _, v := range c.draw() {
				if v != float64(float32(v)) {
					t.Errorf("%v: seed %d: %s: %v is not a float32 number", s, c.seed, c.name, v)
				}
				got = append(got, fmt.Sprintf("%x", math.Float32bits(float32(v))))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%v: seed %d: %s\n got %s\nwant %s", s, c.seed, c.name, g, c.want)
			}
		}
	}
}

// torchDropoutScale is what dropout multiplies kept elements by.
func torchDropoutScale(p float64) float64 { return float64(1 / float32(1-p)) }

// The releases take ln(1-u) from two functions. That both are the same number
// leaves the zero of u = 0 as the one difference to be seen.
func TestTorchReleases(t *testing.T) {
	old, now := torchStream(t, "1.13", 9), torchStream(t, "2.x", 9)
	if a := -old.logComplement(0); a != 0 || !math.Signbit(a) {
		t.Errorf("1.13: -log(1-0) = %v, want -0", a)
	}
	if a := -now.logComplement(0); a != 0 || math.Signbit(a) {
		t.Errorf("2.x: -log1p(-0) = %v, want +0", a)
	}
	for range 10000 {
		u := old.mt.u53()
		a, b := old.logComplement(u), now.logComplement(u)
		if math.Abs(a-b) > 0x1p-51*math.Abs(b) {
			t.Fatalf("ln(1-%x) = %x in 1.13, %x in 2.x", u, a, b)
		}
	}
	old.Seed(9)
	torchDiff(t, "exponential", torchFill(t, 10000, now.Exponential), torchFill(t, 10000, old.Exponential))
}

func TestTorchSeed(t *testing.T) {
	fresh, err := newTorchCPU("1.13", false)
	if err != nil {
		t.Fatal(err)
	}
	s := torchStream(t, "1.13", 0)
	torchDiff(t, "seed of a new stream", torchFill(t, 20, fresh.Normal), torchFill(t, 20, s.Normal))

	// Only the low 32 bits count.
	s.Seed(5)
	a := torchFill(t, 20, s.Normal)
	s.Seed(1<<32 + 5)
	torchDiff(t, "seed 2^32+5", torchFill(t, 20, s.Normal), a)

	// A cached normal goes with the seed.
	s.Seed(5)
	first := torchFill(t, 3, s.Normal)
	s.Seed(5)
	torchDiff(t, "randn(3) after a second seed", torchFill(t, 3, s.Normal), first)

	// And only with it: other fills neither take nor drop it.
	s.Seed(5)
	four := torchFill(t, 4, s.Normal)
	s.Seed(5)
	torchFill(t, 3, s.Normal)
	torchFill(t, 20, s.Normal)
	torchFill(t, 3, s.Exponential)
	torchFill(t, 16, s.ComplexNormal)
	torchDiff(t, "cached normal", torchFill(t, 1, s.Normal), four[3:])
}

func TestTorchUniform(t *testing.T) {
	// The product is not rounded: fused and unfused differ for these bounds.
	s, x := torchStream(t, "1.13", 0), torchStream(t, "1.13", 0)
	const n = 1000
	got, unit := torchFill(t, n, func(d []float64) { s.Uniform(d, -0.1, 0.1) }),
		torchFill(t, n, func(d []float64) { x.Uniform(d, 0, 1) })
	from, to := float32(-0.1), float32(0.1)
	unfused := 0
	for i, u := range unit {
		want := bigref.FMA32(float32(u), to-from, from)
		if float32(got[i]) != want {
			t.Fatalf("element %d is %v, want %v", i, got[i], want)
		}
		if float32(float32(u)*(to-from))+from != want {
			unfused++
		}
	}
	if unfused < n/4 {
		t.Errorf("only %d of %d values depend on the fusion", unfused, n)
	}
	for _, v := range torchFill(t, 5, func(d []float64) { s.Uniform(d, 3, 3) }) {
		if v != 3 {
			t.Errorf("uniform in [3, 3] gives %v", v)
		}
	}
	inf := math.Inf(1)
	for _, b := range [][2]float64{
		{1, 0}, {math.NaN(), 1}, {0, math.NaN()}, {-inf, 0}, {0, inf}, {inf, inf}, {-3e38, 3e38},
	} {
		torchPanics(t, msgTorchRange, func() { s.Uniform(make([]float64, 1), b[0], b[1]) })
	}
}

func torchPanics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

func TestTorchBernoulli(t *testing.T) {
	s, x := torchStream(t, "1.13", 3), torchStream(t, "1.13", 3)
	for _, p := range []float64{0, 0.25, 0.7, 1} {
		for i, v := range torchFill(t, 100, func(d []float64) { d[1] = math.NaN(); s.Bernoulli(d, p) }) {
			want := 0.0
			if x.mt.u53() < p {
				want = 1
			}
			if v != want || math.Signbit(v) {
				t.Fatalf("p = %v: element %d is %v, want %v", p, i, v, want)
			}
		}
	}
	// u = p is no success.
	p := x.mt.u53()
	if got := torchFill(t, 1, func(d []float64) { s.Bernoulli(d, p) }); got[0] != 0 {
		t.Errorf("u = p = %v gives %v", p, got[0])
	}
}

func TestTorchNames(t *testing.T) {
	for _, c := range []struct{ name, fallback, want string }{
		{"torch-cpu", "1.13", "torch-cpu:1.13"},
		{"torch-cpu", "2.x", "torch-cpu:2.x"},
		{"torch-cpu:1.13", "2.x", "torch-cpu:1.13"},
		{"torch-cpu:2.x", "1.13", "torch-cpu:2.x"},
		{"torch-cpu:mkl", "1.13", "torch-cpu:1.13:mkl"},
		{"torch-cpu:2.x:mkl", "1.13", "torch-cpu:2.x:mkl"},
	} {
		s, err := ParseTorchCPU(c.name, c.fallback)
		if err != nil || s.String() != c.want {
			t.Errorf("%s with default %s: %v, %v, want %s", c.name, c.fallback, s, err, c.want)
		}
	}
	const supported = "want torch-cpu:1.13 or torch-cpu:2.x, either with or without :mkl"
	for _, c := range []struct{ name, want string }{
		{"torch-cpu:2.6", `"torch-cpu:2.6" is not supported: ` + supported},
		{"torch-cpu:2.6:mkl", `"torch-cpu:2.6:mkl" is not supported: ` + supported},
		{"torch-cpu:", `"torch-cpu:" is not supported: ` + supported},
		{"torch-cpu:mkl:1.13", `"torch-cpu:mkl:1.13" is not supported: ` + supported},
		{"torch-cpux", `"torch-cpux" is not of the form torch-cpu[:VERSION][:mkl]`},
		{"torch-cuda:132", `"torch-cuda:132" is not of the form torch-cpu[:VERSION][:mkl]`},
		{"", `"" is not of the form torch-cpu[:VERSION][:mkl]`},
	} {
		s, err := ParseTorchCPU(c.name, "1.13")
		if s != nil || err == nil || err.Error() != "noise: stream "+c.want {
			t.Errorf("%s: %v, %v, want %s", c.name, s, err, c.want)
		}
	}
}

func TestTorchDraw(t *testing.T) {
	s, x := torchStream(t, "1.13", 4), torchStream(t, "1.13", 4)
	shape := []int{2, 3, 4}
	for _, c := range []struct {
		kind Kind
		n    int
		fill func([]float64)
	}{
		{Normal, 24, x.Normal},
		{Exponential, 24, x.Exponential},
		{Bernoulli, 24, func(d []float64) { x.Bernoulli(d, 0.3) }},
		{ComplexNormal, 48, x.ComplexNormal},
	} {
		got := torchFill(t, c.n, func(d []float64) {
			if err := s.Draw(c.kind, 0.3, shape, d); err != nil {
				t.Error(err)
			}
		})
		torchDiff(t, c.kind.String(), got, torchFill(t, c.n, c.fill))
		torchPanics(t, msgTorchShape, func() { _ = s.Draw(c.kind, 0.3, shape, make([]float64, c.n+1)) })
	}
	for _, p := range []float64{-0x1p-60, math.Nextafter(1, 2), math.NaN(), math.Inf(1)} {
		if err := s.Draw(Bernoulli, p, []int{1}, make([]float64, 1)); err == nil {
			t.Errorf("Bernoulli of %v is accepted", p)
		}
	}
	if err := s.Draw(ComplexNormal+1, 0, []int{1}, make([]float64, 1)); err == nil {
		t.Error("an unknown kind is accepted")
	}
	odd := make([]float64, 3)
	torchPanics(t, msgTorchComplex, func() { s.ComplexNormal(odd) })
}

func TestTorchConvInit(t *testing.T) {
	s, x := torchStream(t, "1.13", 6), torchStream(t, "1.13", 6)
	weight := torchFill(t, 30, func(d []float64) { s.ConvInit(d, nil, 10) })
	b := 1 / math.Sqrt(10) // the same float32 as the bound reached by way of kaiming
	torchDiff(t, "weight", weight, torchFill(t, 30, func(d []float64) { x.Uniform(d, -b, b) }))
	// Without a bias nothing more is drawn.
	torchDiff(t, "what follows", torchFill(t, 5, s.Normal), torchFill(t, 5, x.Normal))
	torchPanics(t, msgTorchFanIn, func() { s.ConvInit(weight, nil, 0) })
}

func BenchmarkTorchNormal(b *testing.B) { torchBenchmark(b, (*TorchCPU).Normal) }
func BenchmarkTorchUniform(b *testing.B) {
	torchBenchmark(b, func(s *TorchCPU, d []float64) { s.Uniform(d, -0.1, 0.1) })
}

func torchBenchmark(b *testing.B, fill func(*TorchCPU, []float64)) {
	s, dst := torchStream(b, "1.13", 0), make([]float64, 1<<16)
	for b.Loop() {
		fill(s, dst)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(dst)), "ns/number")
}
