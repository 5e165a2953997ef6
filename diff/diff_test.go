package diff

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
)

var (
	inf = math.Inf(1)
	nan = math.NaN()
)

// hist builds a histogram from pairs of bucket and count.
func hist(pairs ...int) (h Histogram) {
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
	}
	return h
}

// Every figure, on integers whose figures are known exactly.
func TestCompare(t *testing.T) {
	sqrt := func(x float64) Number { return Number(math.Sqrt(x)) }
	for _, c := range []struct {
		name      string
		got, want []float64
		diff      Diff
	}{
		{"nothing", nil, nil, Diff{At: -1}},
		{"equal", []float64{-1, 1}, []float64{-1, 1}, Diff{
			Count: 2, At: -1, Std: 1, RelFloor: 0.001, Ulps: hist(0, 2)}},
		{"zeros of both signs", []float64{0, math.Copysign(0, -1)}, []float64{math.Copysign(0, -1), 0}, Diff{
			Count: 2, At: -1, Ulps: hist(0, 2)}},
		// d = 1, -1, 3, -5; 1024 steps a binade, 15 binades below 1.
		{"all differ", []float64{-1, 1, 1, -3}, []float64{-2, 2, -2, 2}, Diff{
			Count: 4, MaxAbs: 5, At: 3, MeanAbs: 2.5, RMS: 3,
			Std: 2, MaxOverStd: 2.5, RMSOverStd: 1.5,
			RelFloor: 0.002, MaxRel: 2.5, MeanRel: 1.25, RMSRel: 1.5,
			MaxUlp: 33*1024 - 512, Ulps: hist(11, 2, 16, 1, 17, 1)}},
		// Relative to 0 the floor counts: 1/0.002.
		{"floor", []float64{1, 0, 4, 2}, []float64{0, 0, 4, 4}, Diff{
			Count: 4, MaxAbs: 2, At: 3, MeanAbs: 0.75, RMS: sqrt(1.25),
			Std: 2, MaxOverStd: 1, RMSOverStd: sqrt(1.25) / 2,
			RelFloor: 0.002, MaxRel: 500, MeanRel: 500.5 / 4, RMSRel: sqrt(1.25) / sqrt(8),
			MaxUlp: 15 * 1024, Ulps: hist(0, 2, 11, 1, 15, 1)}},
		{"the first of equal maxima", []float64{0, 3, -1, 5}, []float64{0, 1, 1, 5}, Diff{
			Count: 4, MaxAbs: 2, At: 1, MeanAbs: 1, RMS: sqrt(2),
			Std: Number(Std([]float64{0, 1, 1, 5})), MaxOverStd: 2 / Number(Std([]float64{0, 1, 1, 5})),
			RMSOverStd: sqrt(2) / Number(Std([]float64{0, 1, 1, 5})), RelFloor: Number(Std([]float64{0, 1, 1, 5})) / 1000,
			MaxRel: 2, MeanRel: 1, RMSRel: sqrt(2) / sqrt(27.0/4),
			MaxUlp: 30 * 1024, Ulps: hist(0, 2, 12, 1, 16, 1)}},
		{"constant reference", []float64{4, 6}, []float64{4, 4}, Diff{
			Count: 2, MaxAbs: 2, At: 1, MeanAbs: 1, RMS: sqrt(2),
			MaxOverStd: Number(inf), RMSOverStd: Number(inf), MaxRel: 0.5, MeanRel: 0.25, RMSRel: sqrt(2) / 4,
			MaxUlp: 512, Ulps: hist(0, 1, 10, 1)}},
		{"zero reference", []float64{0, 2}, []float64{0, 0}, Diff{
			Count: 2, MaxAbs: 2, At: 1, MeanAbs: 1, RMS: sqrt(2),
			MaxOverStd: Number(inf), RMSOverStd: Number(inf), MaxRel: Number(inf), MeanRel: Number(inf), RMSRel: Number(inf),
			MaxUlp: 16 * 1024, Ulps: hist(0, 1, 15, 1)}},

		{"equal non-finite are left out", []float64{nan, inf, -inf, 2, 0},
			[]float64{math.Float64frombits(0xfff8000000000123), inf, -inf, 1, -1}, Diff{
				Count: 5, NonFiniteEqual: 3, MaxAbs: 1, At: 3, MeanAbs: 1, RMS: 1,
				Std: 1, MaxOverStd: 1, RMSOverStd: 1, RelFloor: 0.001, MaxRel: 1, MeanRel: 1, RMSRel: 1,
				MaxUlp: 15 * 1024, Ulps: hist(11, 1, 15, 1)}},
		{"only equal non-finite", []float64{nan, inf}, []float64{nan, inf}, Diff{Count: 2, NonFiniteEqual: 2, At: -1}},
		// The infinity of the half format against its largest number: still infinite.
		{"rounds to infinity", []float64{65520, -1}, []float64{65504, -1}, Diff{
			Count: 2, MaxAbs: 16, At: 0, MeanAbs: 8, RMS: sqrt(128),
			Std: 32752.5, MaxOverStd: 16 / 32752.5, RMSOverStd: sqrt(128) / 32752.5, RelFloor: 32.7525,
			MaxRel: Number(16 / 65504.0), MeanRel: Number(8 / 65504.0), RMSRel: sqrt(128) / sqrt((65504*65504+1)/2.0),
			MaxUlp: Number(inf), Ulps: hist(0, 1, 18, 1)}},
		{"off the grid", []float64{1 + 0x1p-12, -1}, []float64{1, -1 + 0x1p-20}, Diff{
			Count: 2, MaxAbs: 0x1p-12, At: 0, MeanAbs: 0x101p-21, RMS: sqrt((0x1p-24 + 0x1p-40) / 2),
			Std: 1 - 0x1p-21, MaxOverStd: 0x1p-12 / (1 - 0x1p-21), RMSOverStd: sqrt((0x1p-24+0x1p-40)/2) / (1 - 0x1p-21),
			RelFloor: (1 - 0x1p-21) / 1000, MaxRel: 0x1p-12, MeanRel: (0x1p-12 + 0x1p-20/(1-0x1p-20)) / 2,
			RMSRel: sqrt((0x1p-24+0x1p-40)/2) / sqrt((1+(1-0x1p-20)*(1-0x1p-20))/2),
			Ulps:   hist(0, 2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.diff.Format = "float16"
			if got := Compare(c.got, c.want, fp16.Float16); got != c.diff {
				t.Errorf("\ngot  %+v\nwant %+v", got, c.diff)
			}
		})
	}
}

// One NaN or infinity where the other array has something else makes every
// figure of the difference infinite.
func TestNonFiniteDiffer(t *testing.T) {
	numbers := []float64{nan, inf, -inf, 1}
	for i, g := range numbers {
		for j, w := range numbers {
			if i == j {
				continue
			}
			ref := []float64{-3, 3, w, 2}
			got := []float64{-3, 3 + 0x1p-22, g, 2} // one ulp beside
			x, std := Number(inf), Number(Std(ref))
			want := Diff{Count: 4, NonFiniteDiffer: 1, MaxAbs: x, At: 2, MeanAbs: x, RMS: x,
				Std: std, MaxOverStd: x, RMSOverStd: x, RelFloor: std / 1000, MaxRel: x, MeanRel: x, RMSRel: x,
				Format: "float32", MaxUlp: x, Ulps: hist(0, 2, 1, 1, 18, 1)}
			if d := Compare(got, ref, fp16.Float32); d != want {
				t.Errorf("%v against %v:\ngot  %+v\nwant %+v", g, w, d, want)
			}
		}
	}
}

// The figures belong to the whole, however it came.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	got, want := make([]float64, 1000), make([]float64, 1000)
	for i := range want {
		want[i] = r.NormFloat64()
		got[i] = want[i] + 1e-4*r.NormFloat64()
	}
	whole := Compare(got, want, fp16.BFloat16)
	for range 20 {
		a := NewAccumulator(fp16.BFloat16, Std(want))
		for at := 0; at < len(want); {
			end := min(len(want), at+r.IntN(200))
			a.Add(got[at:end], want[at:end])
			at = end
		}
		if d := a.Diff(); d != whole {
			t.Fatalf("\ngot  %+v\nwant %+v", d, whole)
		}
	}
	if a, b := Std(want), Std(want[:123], nil, want[123:]); a != b {
		t.Errorf("Std %v in one piece, %v in three", a, b)
	}
}

// A large mean does not spoil the standard deviation; the truth is from
// integers.
func TestStd(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name       string
		n          int
		mean, unit float64
		spread     int
	}{
		{"mean 1e4, std 1e-3", 200000, 1e4, 0x1p-20, 1800},
		{"mean 2^40, std 1", 1000000, 1 << 40, 1, 2},
		{"mean 0", 1000, 0, 1, 1000},
		{"tiny", 1000, 0, 0x1p-149, 1000},
		{"mean -1e4, two numbers", 2, -1e4, 0x1p-10, 1},
		{"squares beyond float64", 1000, 0, 0x1p1013, 1000},
		{"mean 2^1010, sum beyond float64", 200000, 0x1p1010, 0x1p965, 1000},
		{"squares below float64", 1000, 0, 0x1p-1030, 1000},
	} {
		x := make([]float64, c.n)
		var s, q int64 // sums of the integers and their squares
		for i := range x {
			k := r.IntN(2*c.spread+1) - c.spread
			if c.n == 2 {
				k = 2*i - 1
			}
			x[i] = c.mean + float64(k)*c.unit
			s += int64(k)
			q += int64(k) * int64(k)
		}
		// n^2 var = n q - s^2
		v := new(big.Int).Mul(big.NewInt(int64(c.n)), big.NewInt(q))
		v.Sub(v, new(big.Int).Mul(big.NewInt(s), big.NewInt(s)))
		f, _ := new(big.Float).Sqrt(new(big.Float).SetInt(v)).Float64()
		want := f / float64(c.n) * c.unit
		if got := Std(x); !(math.Abs(got-want) <= 1e-10*want) {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
	if got := Std([]float64{nan, -4, inf, 4, -inf}); got != 4 {
		t.Errorf("non-finite numbers count: %v", got)
	}
	for _, x := range [][]float64{nil, {nan}, {5}, {0.1, 0.1, 0.1}} {
		if got := Std(x); got > 1e-16 || got != got {
			t.Errorf("Std(%v) = %v, want 0", x, got)
		}
	}
}

// TestStdOfGreatest: no rounding on the way makes more of the greatest numbers.
func TestStdOfGreatest(t *testing.T) {
	for n := range 20 {
		x := []float64{math.MaxFloat64, -math.MaxFloat64}
		for range n {
			x = append(x, math.MaxFloat64, -math.MaxFloat64)
		}
		if got := Std(x); !(got <= math.MaxFloat64 && got > 0.999999*math.MaxFloat64) {
			t.Errorf("%d numbers: %v, want %v", len(x), got, math.MaxFloat64)
		}
	}
	// mean -M/2, deviations 3/2 M and M/2
	x := []float64{math.MaxFloat64, -math.MaxFloat64, -math.MaxFloat64, -math.MaxFloat64}
	if got, want := Std(x), math.Sqrt(3)/2*math.MaxFloat64; !(math.Abs(got-want) <= 1e-15*want) {
		t.Errorf("a difference beyond float64: %v, want %v", got, want)
	}
}

// TestCompareAnySize: figures of numbers that are all larger by a power of two are
// those of the numbers, larger by it, also where squares and sums leave float64.
func TestCompareAnySize(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	got, want := make([]float64, 1000), make([]float64, 1000)
	for i := range want {
		want[i] = float64(r.IntN(2001) - 1000)
		got[i] = want[i] + float64(r.IntN(3)-1)
	}
	got[7] = want[7] + 1500
	scaled := func(x []float64, by float64) []float64 {
		y := make([]float64, len(x))
		for i := range x {
			y[i] = x[i] * by
		}
		return y
	}
	plain := Compare(got, want, fp16.Float64)
	for _, by := range []float64{0x1p-1020, 0x1p-600, 0x1p-530, 0x1p480, 0x1p490, 0x1p800, 0x1p1012} {
		d, n := Compare(scaled(got, by), scaled(want, by), fp16.Float64), Number(by)
		is := []Number{
			d.MaxAbs, d.MeanAbs, d.RMS, d.Std, d.RelFloor, d.MaxOverStd, d.RMSOverStd, d.MaxRel, d.MeanRel, d.RMSRel,
		}
		want := []Number{plain.MaxAbs * n, plain.MeanAbs * n, plain.RMS * n, plain.Std * n, plain.RelFloor * n,
			plain.MaxOverStd, plain.RMSOverStd, plain.MaxRel, plain.MeanRel, plain.RMSRel}
		for i := range is {
			if !(math.Abs(float64(is[i]-want[i])) <= 1e-12*float64(want[i])) {
				t.Errorf("numbers times %v: figure %d is %v, want %v", by, i, is[i], want[i])
			}
		}
	}
}

// TestCompareExtremes: the greatest numbers there are, and the least.
func TestCompareExtremes(t *testing.T) {
	const least, greatest = math.SmallestNonzeroFloat64, math.MaxFloat64
	for _, x := range []float64{least, 5 * least, greatest / 3, greatest} {
		for n := 1; n < 8; n++ {
			got, want := make([]float64, n), make([]float64, n)
			for i := range got {
				got[i] = x
			}
			d := Compare(got, want, fp16.Float64)
			if d.MaxAbs != Number(x) || !(math.Abs(float64(d.MeanAbs)/x-1) < 1e-15) || !(math.Abs(float64(d.RMS)/x-1) < 1e-15) {
				t.Errorf("%d times %v: greatest %v, mean %v, RMS %v", n, x, d.MaxAbs, d.MeanAbs, d.RMS)
			}
		}
	}
}

// The steps of each format, against the integers that its bits are.
func TestSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		f     fp16.Format
		most  uint64 // bits of the largest finite number
		value func(bits uint64) float64
	}{
		{fp16.Float64, 0x7fefffffffffffff, math.Float64frombits},
		{fp16.Float32, 0x7f7fffff, func(b uint64) float64 { return float64(math.Float32frombits(uint32(b))) }},
		{fp16.TF32, 0x7f7fe000 >> 13, func(b uint64) float64 { return float64(math.Float32frombits(uint32(b << 13))) }},
		{fp16.BFloat16, 0x7f7f, func(b uint64) float64 { return float64(math.Float32frombits(uint32(b << 16))) }},
		{fp16.Float16, 0x7bff, func(b uint64) float64 {
			if b < 1<<10 {
				return math.Ldexp(float64(b), -24)
			}
			return math.Ldexp(float64(1<<10|b&(1<<10-1)), int(b>>10)-25)
		}},
	} {
		u := NewUlpScale(c.f)
		check := func(a, b uint64, negA, negB bool) {
			x, y := c.value(a), c.value(b)
			want := max(a, b) - min(a, b)
			if negA {
				x = -x
			}
			if negB {
				y = -y
			}
			if negA != negB {
				want = a + b
			}
			if got := u.Steps(x, y); got != float64(want) || u.Steps(y, x) != got {
				t.Fatalf("%s: %v to %v: %v steps, want %d", c.f, x, y, got, want)
			}
		}
		for b := uint64(0); b < 1<<12; b++ { // around 0 and the largest
			check(b, b+1, b%2 == 0, b%2 == 0)
			check(b, b+1, b%2 == 0, b%2 != 0)
			check(c.most-b, c.most, false, b%2 == 0)
		}
		for range 20000 {
			check(r.Uint64()%(c.most+1), r.Uint64()%(c.most+1), r.IntN(2) == 0, r.IntN(2) == 0)
		}
		// over the end of the subnormals, and every binade's
		for p := u.normal; p <= math.MaxFloat64/4 && c.f.Holds(2*p) && !math.IsInf(c.f.Round(2*p), 0); p *= 2 {
			if got := u.Steps(p, p-c.f.Ulp(p/2)); p > u.normal && got != 1 {
				t.Fatalf("%s: %v steps below %v", c.f, got, p)
			}
			if got := u.Steps(p, p+c.f.Ulp(p)); got != 1 {
				t.Fatalf("%s: %v steps above %v", c.f, got, p)
			}
		}
		if got := u.Steps(c.value(c.most), -c.value(c.most)); got != float64(2*c.most) {
			t.Errorf("%s: %v steps over everything", c.f, got)
		}
	}
}

// Each distance falls into the bucket whose label contains it.
func TestHistogram(t *testing.T) {
	var h Histogram
	labels := []string{"0", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129-256", "257-512",
		"513-1024", "1025-2048", "2049-4096", "4097-8192", "8193-16384", "16385-32768", "32769-65536", "65537+"}
	if len(labels) != len(h) {
		t.Fatal(len(h))
	}
	for k, want := range labels {
		if got := h.Label(k); got != want {
			t.Errorf("bucket %d: %s, want %s", k, got, want)
		}
	}
	for n := range 70000 {
		k := 0
		for most := []int{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}; k <
			len(most) && n > most[k]; k++ {
		}
		before := h[k]
		h.Add(float64(n))
		if h[k] != before+1 {
			t.Fatalf("%d is not in %s", n, labels[k])
		}
	}
	for _, x := range []float64{1 << 60, 0x1p64, inf} {
		before := h[18]
		h.Add(x)
		if h[18] != before+1 {
			t.Errorf("%v is not in the last bucket", x)
		}
	}
}

// The text is valid JSON whatever the numbers are.
func TestJSON(t *testing.T) {
	for _, c := range []struct {
		diff Diff
		want string
	}{
		{Compare([]float64{-1, 1, 1, -3}, []float64{-2, 2, -2, 2}, fp16.Float16),
			`{"count":4,"nonfinite_equal":0,"nonfinite_differ":0,"max_abs":5,"at":3,"mean_abs":2.5,"rms":3,` +
				`"std":2,"max_over_std":2.5,"rms_over_std":1.5,"rel_floor":0.002,"max_rel":2.5,"mean_rel":1.25,"rms_rel":1.5,` +
				`"format":"float16","max_ulp":33280,"ulps":{"513-1024":2,"16385-32768":1,"32769-65536":1}}`},
		{Compare([]float64{nan}, []float64{0}, fp16.Float64),
			`{"count":1,"nonfinite_equal":0,"nonfinite_differ":1,"max_abs":"inf","at":0,"mean_abs":"inf","rms":"inf",` +
				`"std":0,"max_over_std":"inf","rms_over_std":"inf","rel_floor":0,"max_rel":"inf","mean_rel":"inf",` +
				`"rms_rel":"inf",` +
				`"format":"float64","max_ulp":"inf","ulps":{"65537+":1}}`},
	} {
		got, err := json.Marshal(c.diff)
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%v\ngot  %s\nwant %s", err, got, c.want)
		}
	}
	got, err := json.Marshal([]Number{Number(nan), Number(inf), Number(-inf), 0.1, 1e-30})
	if err != nil || string(got) != `["nan","inf","-inf",0.1,1e-30]` {
		t.Errorf("%s %v", got, err)
	}
	if got, err := json.Marshal(Histogram{}); err != nil || string(got) != "{}" {
		t.Errorf("%s %v", got, err)
	}
}

// Steps are taken out of [M,T,C,H,W] with M=2, T=3, chw=2.
func TestPerStep(t *testing.T) {
	want := []float64{
		0, 4, 10, 20, 5, 5, // realization 0
		4, 0, 30, 40, 5, 5,
	}
	got := []float64{
		0, 4, 10, 20, 5, 5,
		4, 0, 30, 41, 5, 7,
	}
	steps := PerStep(got, want, 2, 3, 2, fp16.Float32)
	if len(steps) != 3 {
		t.Fatal(len(steps))
	}
	for s, c := range []struct {
		max, std Number
		at       int
		ref      []float64
	}{
		{0, 2, -1, []float64{0, 4, 4, 0}},
		{1, Number(math.Sqrt(125)), 3, []float64{10, 20, 30, 40}},
		{2, 0, 3, []float64{5, 5, 5, 5}},
	} {
		d := steps[s]
		if d.Count != 4 || d.MaxAbs != c.max || d.At != c.at || d.Std != c.std {
			t.Errorf("step %d: %+v", s, d)
		}
		g := append([]float64{}, c.ref...)
		if c.at >= 0 {
			g[c.at] += float64(c.max)
		}
		if w := Compare(g, c.ref, fp16.Float32); d != w {
			t.Errorf("step %d:\ngot  %+v\nwant %+v", s, d, w)
		}
	}
}

func TestMisuse(t *testing.T) {
	for want, f := range map[string]func(){
		"diff: got and want differ in length": func() { Compare([]float64{1}, nil, fp16.Float32) },
		"diff: trajectory length does not match its shape": func() {
			PerStep(make([]float64, 6), make([]float64, 6), 1, 2, 2, fp16.Float32)
		},
	} {
		func() {
			defer func() {
				if r := recover(); r != want {
					t.Errorf("%v, want panic %q", r, want)
				}
			}()
			f()
		}()
	}
}

func TestGrowth(t *testing.T) {
	steps := func(r ...float64) (d []Diff) {
		for _, x := range r {
			d = append(d, Diff{RMSOverStd: Number(x)})
		}
		return d
	}
	geometric := func(r, factor float64, n int, most float64) (x []float64) {
		for range n {
			x = append(x, min(r, most))
			r *= factor
		}
		return x
	}
	for _, c := range []struct {
		name      string
		r         []float64
		factor    float64
		saturated bool
	}{
		{"doubles and saturates", geometric(0x1p-26, 2, 60, math.Sqrt2), 2, true},
		{"doubles, ends before", geometric(0x1p-60, 2, 50, math.Sqrt2), 2, false},
		{"by 3/2", geometric(0x1p-26, 1.5, 20, 1), 1.5, false},
		{"decays", geometric(0x1p-3, 0.5, 100, 1), 0.5, false},
		{"stays", geometric(0x1p-30, 1, 100, 1), 1, false},
		{"starts equal", append([]float64{0, 0, 0}, geometric(0x1p-26, 4, 60, 1)...), 4, true},
		{"equal in between", []float64{0x1p-20, 0, 0, 0x1p-17}, 2, false},
		{"wavers", []float64{0x1p-20, 0x1p-15, 0x1p-19, 0x1p-14}, 4, false},
		{"equal throughout", []float64{0, 0, 0}, 0, false},
		{"no step", nil, 0, false},
		{"one step", []float64{0x1p-20}, 0, false},
		{"two lost each other", []float64{1, 1.4}, 0, true},
		{"one before it is lost", []float64{0x1p-20, 1.4}, 0, true},
		{"infinite", []float64{0x1p-20, 0x1p-19, inf}, 2, true},
		{"NaN", []float64{0x1p-20, 0x1p-19, nan}, 2, true},
		{"near the threshold", []float64{0.125, 0.2499, 0.25}, 0.2499 / 0.125, true},
	} {
		factor, saturated := Growth(steps(c.r...))
		if factor != c.factor || saturated != c.saturated {
			t.Errorf("%s: %v %v, want %v %v", c.name, factor, saturated, c.factor, c.saturated)
		}
	}
}

// rollouts runs m realizations of a map for n steps, from starts apart by eps.
func rollouts(m, n int, eps float64, step func(x float64) float64) (got, want []float64) {
	r := rand.New(rand.NewPCG(7, 8))
	for range m {
		x := 0.1 + 0.8*r.Float64()
		y := x + eps
		for range n {
			got, want = append(got, y), append(want, x)
			x, y = step(x), step(y)
		}
	}
	return got, want
}

// A map with a known Lyapunov exponent, a contraction, and a linear growth
// that only looks like one.
func TestGrowthOfMaps(t *testing.T) {
	// x -> 4x(1-x) has exponent log 2; the mean of squares, led by the fastest
	// pairs, grows faster at first: E f'^2 = 8.
	got, want := rollouts(500, 40, 1e-9, func(x float64) float64 { return 4 * x * (1 - x) })
	factor, saturated := Growth(PerStep(got, want, 500, 40, 1, fp16.Float64))
	if !(factor > 1.9 && factor < 3) || !saturated {
		t.Errorf("logistic map: %v %v", factor, saturated)
	}
	got, want = rollouts(500, 40, 1e-3, func(x float64) float64 { return 2 * x })
	factor, saturated = Growth(PerStep(got, want, 500, 40, 1, fp16.Float64))
	if math.Abs(factor-1) > 1e-9 || saturated {
		t.Errorf("doubling: %v %v", factor, saturated)
	}
}

func TestRoot(t *testing.T) {
	for _, c := range []struct {
		x    float64
		n    int
		want float64
	}{{1 << 30, 10, 8}, {1, 7, 1}, {2.25, 2, 1.5}, {0x1p-300, 100, 0.125}, {9, 1, 9}, {0x1p1000, 10, 0x1p100},
		{2, 2, 1.414213562373095}} {
		if got := root(c.x, c.n); got != c.want {
			t.Errorf("root(%v, %d) = %v, want %v", c.x, c.n, got, c.want)
		}
	}
}
