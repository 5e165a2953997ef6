package noise

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// script is a source of draws that were written down, and asks for them in
// that order.
type script struct {
	kinds []Kind
	draws [][]float64
	p     float64 // of the last Bernoulli draw
	taken int
}

func (s *script) Draw(kind Kind, p float64, shape []int, dst []float64) error {
	if s.taken == len(s.kinds) {
		return fmt.Errorf("draw %d: %v: want no more draws", s.taken, kind)
	}
	if s.kinds[s.taken] != kind || len(s.draws[s.taken]) != len(dst) {
		return fmt.Errorf("draw %d: %v %v: want %v of %d numbers",
			s.taken, kind, shape, s.kinds[s.taken], len(s.draws[s.taken]))
	}
	copy(dst, s.draws[s.taken])
	s.p = p
	s.taken++
	return nil
}

func (s *script) then(kind Kind, draws []float64) *script {
	s.kinds, s.draws = append(s.kinds, kind), append(s.draws, draws)
	return s
}

func apply(t *testing.T, b Block, dst, src *tensor.Tensor, when Time, s *script) {
	t.Helper()
	if err := b.Apply(dst, src, when, s); err != nil {
		t.Fatal(err)
	}
	if s.taken != len(s.kinds) {
		t.Fatalf("%v: %d of %d draws taken", b.Type, s.taken, len(s.kinds))
	}
}

func sameBits(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: element %d is %x (%v), want %x (%v)", what, i, got[i], got[i], want[i], want[i])
		}
	}
}

// gridNumbers returns numbers of format f: normal deviates, large and small
// ones, and subnormals. In float64 too they are float32 numbers: the last bits of package
// rand's deviates are not the same on every port.
func gridNumbers(rng *rand.Rand, f fp16.Format, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		x := float64(float32(rng.NormFloat64()))
		switch i % 4 {
		case 1:
			x = math.Ldexp(x, rng.IntN(28)-24) // half's subnormals begin at 2^-14
		case 2:
			if f != fp16.Float16 {
				x = math.Ldexp(x, -rng.IntN(150))
			}
		}
		v[i] = f.Round(x)
	}
	return v
}

var elements = flag.Int("noise.elements", 50_000, "numbers of each type that the judge sees")

// Every type, in every format below Float64, against exact rational arithmetic
// with one rounding per written operation.
func TestApplyRoundsEachOperationOnce(t *testing.T) {
	rng, o := rand.New(rand.NewPCG(9, 10)), hashed.New(t, *elements)
	const side = 28
	for seen := 0; seen < *elements; {
		for i, s := range gridNumbers(rng, fp16.Float32, 8) {
			f := []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}[i/2]
			rn := func(x bigref.Ball) float64 { // exact, as two float64 hold products of float32 numbers
				y, ok := x.Round(f)
				if !ok {
					t.Fatalf("%v is not exact", x)
				}
				return y
			}
			of := bigref.Exactly
			seen += side * side
			// Each row is one x against each draw; draws are float32 numbers.
			xs, ns, es := gridNumbers(rng, f, side), gridNumbers(rng, fp16.Float32, side), gridNumbers(rng, fp16.Float32, side)
			x, n, e := make([]float64, side*side), make([]float64, side*side), make([]float64, side*side)
			for i := range x {
				x[i], n[i], e[i] = xs[i/side], ns[i%side], math.Abs(es[i%side])
			}
			s = bigref.Round(bigref.Rat(s), fp16.Float32)
			for _, kind := range []Type{Gaussian, Laplace, Multiplicative} {
				draws := new(script).then(Normal, n)
				if kind == Laplace {
					draws = new(script).then(Exponential, e).then(Normal, n)
				}
				src := tensor.Of(f, slices.Clone(x), 1, 1, side, side)
				dst := tensor.Like(src)
				apply(t, Block{Type: kind, Scale: s}, dst, src, Time{}, draws)
				if o.Add(kind.String(), dst.Data...); !o.Judge {
					continue
				}
				want := make([]float64, len(x))
				for i := range want {
					v := rn(of(n[i]))
					if kind == Laplace {
						v = rn(of(e[i]))*map[bool]float64{true: 1}[v > 0] - rn(of(e[i]))*map[bool]float64{true: 1}[v < 0]
					}
					v = rn(of(v).Mul(of(s)))
					if kind == Multiplicative {
						want[i] = rn(of(x[i]).Mul(of(rn(of(v).Add(of(1))))))
					} else {
						want[i] = rn(of(x[i]).Add(of(v)))
					}
					if want[i] == 0 { // the judge has no signed zeros: see TestApplySpecials
						want[i] = math.Copysign(0, dst.Data[i])
					}
				}
				what := fmt.Sprintf("%v in %v, scale %v", kind, f, s)
				sameBits(t, what, dst.Data, want)
				draws.taken = 0
				apply(t, Block{Type: kind, Scale: s}, src, src, Time{}, draws)
				sameBits(t, what+", in place", src.Data, dst.Data)
			}
		}
	}
}

func TestApplyFloat64IsPlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	const n = 1000
	x, m, e := make([]float64, n), normals(rng, n), normals(rng, n)
	for i := range x {
		x[i], e[i] = rng.NormFloat64(), math.Abs(e[i])
	}
	when := at(37, 100)
	s := float64(float32(0.1)) * (63.0 / 100)
	for _, kind := range []Type{Gaussian, Laplace, Multiplicative} {
		draws := new(script).then(Normal, m)
		if kind == Laplace {
			draws = new(script).then(Exponential, e).then(Normal, m)
		}
		src := tensor.Of(fp16.Float64, x, 1, 1, 1, n)
		dst := tensor.Like(src)
		apply(t, Block{Type: kind, Scale: 0.1, Schedule: Annealing}, dst, src, when, draws)
		want := make([]float64, n)
		for i := range want {
			switch kind {
			case Gaussian:
				want[i] = x[i] + float64(m[i]*s)
			case Laplace:
				want[i] = x[i] + float64(math.Copysign(e[i], m[i])*s)
			case Multiplicative:
				want[i] = x[i] * (1 + float64(m[i]*s))
			}
		}
		sameBits(t, kind.String(), dst.Data, want)
	}
}

func TestApplySpecials(t *testing.T) {
	inf, nan, zero := math.Inf(1), fp16.NaN, math.Copysign(0, -1)
	payload := math.Float64frombits(0xfff8000000000123)
	least := 0x1p-149
	for _, c := range []struct {
		b           Block
		x, e, n     float64
		want        float64
		format, out fp16.Format
	}{
		{b: Block{Type: Gaussian, Scale: 0.5}, x: payload, n: 1, want: nan},
		{b: Block{Type: Gaussian, Scale: 0.5}, x: inf, n: 1, want: inf},
		{b: Block{Type: Gaussian, Scale: inf}, x: inf, n: -1, want: nan},
		{b: Block{Type: Gaussian, Scale: 0.5}, x: zero, n: zero, want: zero},
		{b: Block{Type: Gaussian, Scale: 0.5}, x: zero, n: 0, want: 0},
		{b: Block{Type: Gaussian, Scale: 0.5}, x: -0.5, n: 1, want: 0},
		{b: Block{Type: Gaussian, Scale: 0.5}, x: zero, n: -least, want: zero}, // rounds to -0
		{b: Block{Type: Gaussian, Scale: 1}, x: least, n: least, want: 2 * least},
		{b: Block{Type: Gaussian, Scale: math.MaxFloat32}, x: 1, n: 2, want: inf},
		{b: Block{Type: Gaussian, Scale: 1}, x: 65504, n: 16, want: inf, format: fp16.Float16, out: fp16.Float16},
		{b: Block{Type: Gaussian, Scale: 1}, x: 65504, n: 16, want: 65520, format: fp16.Float16, out: fp16.Float32},
		{b: Block{Type: Laplace, Scale: 0.5}, x: 1, e: 3, n: -1e-30, want: -0.5},
		{b: Block{Type: Laplace, Scale: 0.5}, x: 1, e: 3, n: zero, want: 1},
		{b: Block{Type: Laplace, Scale: 0.5}, x: zero, e: 3, n: zero, want: 0}, // sign(-0) = +0
		{b: Block{Type: Laplace, Scale: 0.5}, x: 1, e: 3, n: -1e-30, want: 1, format: fp16.Float16, out: fp16.Float16},
		{b: Block{Type: Multiplicative, Scale: 0.5}, x: zero, n: 1, want: zero},
		{b: Block{Type: Multiplicative, Scale: 0.5}, x: -1, n: -2, want: zero},
		{b: Block{Type: Multiplicative, Scale: 0.5}, x: inf, n: -2, want: nan},
		{b: Block{Type: Multiplicative, Scale: 0.5}, x: -least, n: -1.5, want: zero},
		{b: Block{Type: Multiplicative, Scale: 0.5}, x: payload, n: -2, want: nan},
	} {
		if c.out == fp16.Float64 {
			c.format, c.out = fp16.Float32, fp16.Float32
		}
		draws := new(script).then(Normal, []float64{c.n})
		if c.b.Type == Laplace {
			draws = new(script).then(Exponential, []float64{c.e}).then(Normal, []float64{c.n})
		}
		dst := tensor.New(c.out, 1, 1, 1, 1)
		apply(t, c.b, dst, tensor.Of(c.format, []float64{c.x}, 1, 1, 1, 1), Time{}, draws)
		if math.Float64bits(dst.Data[0]) != math.Float64bits(c.want) {
			t.Errorf("%v %v of x = %v, e = %v, n = %v: %x, want %x", c.b.Type, c.b.Scale, c.x, c.e, c.n, dst.Data[0], c.want)
		}
	}
}

func TestDropout(t *testing.T) {
	rng, o := rand.New(rand.NewPCG(13, 14)), hashed.New(t, *elements)
	inf, zero := math.Inf(1), math.Copysign(0, -1)
	mask := []float64{1, 0, 0, 1, 1, 0}
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16, fp16.BFloat16} {
		for _, p := range append([]float64{0.3, 0.1, 0x1p-30, 1 - 0x1p-24, 0.999},
			gridNumbers(rng, fp16.Float32, max(200, *elements/24))...) {
			p = float64(float32(math.Abs(p)))
			if p == 0 || p >= 1 {
				continue
			}
			x := gridNumbers(rng, f, 2*3*4)
			x[0], x[1], x[4], x[5], x[6] = fp16.NaN, zero, fp16.NaN, inf, -2
			src := tensor.Of(f, x, 2, 3, 2, 2)
			dst := tensor.Like(src)
			draws := new(script).then(Bernoulli, mask)
			apply(t, Block{Type: Dropout, Scale: p}, dst, src, Time{}, draws)
			o.Add("dropout", dst.Data...)
			if want := 1 - p; draws.p != want {
				t.Fatalf("p = %v: mask drawn with probability %v, want %v", p, draws.p, want)
			}
			k := 1 / (1 - p)
			if f != fp16.Float64 {
				q := new(big.Rat).Sub(big.NewRat(1, 1), bigref.Rat(p))
				k = bigref.Round(q.Inv(q), f)
			}
			want := make([]float64, len(x))
			for i := range x {
				want[i] = f.Round(x[i] * (mask[i/4] * min(k, math.MaxFloat32)))
				if mask[i/4] == 1 && math.IsInf(k, 0) {
					want[i] = f.Round(x[i] * k)
				}
			}
			sameBits(t, fmt.Sprintf("%v, p = %v", f, p), dst.Data, want)
			if got := dst.Data[6]; got != 0 || !math.Signbit(got) {
				t.Fatalf("a dropped -2 became %v, want -0", got)
			}
		}
		// The ends of the range take no draw.
		x := []float64{1, -2, fp16.NaN, inf, -inf, zero}
		src := tensor.Of(f, x, 1, 2, 1, 3)
		apply(t, Block{Type: Dropout, Scale: 0, Correlation: 0.3}, src, src, Time{}, new(script))
		sameBits(t, "p = 0", src.Data, []float64{1, -2, fp16.NaN, inf, -inf, zero})
		apply(t, Block{Type: Dropout, Scale: 1}, src, src, Time{}, new(script))
		sameBits(t, "p = 1", src.Data, []float64{0, zero, fp16.NaN, fp16.NaN, fp16.NaN, zero})
	}
}

func TestApplyErrors(t *testing.T) {
	x := tensor.New(fp16.Float32, 1, 1, 1, 2)
	broken := errors.New("no such draw")
	for _, c := range []struct {
		b    Block
		at   Time
		want string
	}{
		{Block{Type: Dropout, Scale: 1.5}, Time{}, "noise_scale: 1.5: want a probability from 0 to 1"},
		{Block{Type: Dropout, Scale: -0.25}, Time{}, "noise_scale: -0.25: want a probability from 0 to 1"},
		{Block{Type: Dropout, Scale: math.NaN()}, Time{}, "noise_scale: NaN: want a probability from 0 to 1"},
		{Block{Correlation: -1}, Time{}, "spatial_correlation: -1: want a finite number of 0 or more"},
		{Block{Correlation: math.Inf(1)}, Time{}, "spatial_correlation: +Inf: want"},
		{Block{Correlation: math.NaN()}, Time{}, "spatial_correlation: NaN: want"},
		{Block{Schedule: Periodic}, at(1, 2), "schedule_period: 0: want 1 or more"},
		{Block{Type: Dropout, Schedule: Annealing}, at(1, 0), "max_steps: 0: want 1 or more"},
		{Block{Type: Type(7)}, Time{}, "Type(7): want one of gaussian, laplace, dropout, multiplicative"},
	} {
		if err := c.b.Apply(x, x, c.at, new(script)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.b, err, c.want)
		}
	}
	for _, b := range []Block{{}, {Type: Laplace}, {Type: Dropout, Scale: 0.5}, {Correlation: 1}} {
		if err := b.Apply(x, x, Time{}, failing{broken}); !errors.Is(err, broken) {
			t.Errorf("%v: error %v, want that of the source", b.Type, err)
		}
	}
	if _, err := ParseType("poisson"); err == nil ||
		!strings.Contains(err.Error(), `"poisson": want one of gaussian, laplace, dropout, multiplicative`) {
		t.Errorf("ParseType: error %v", err)
	}
	for _, k := range []Type{Gaussian, Laplace, Dropout, Multiplicative} {
		if got, err := ParseType(k.String()); got != k || err != nil {
			t.Errorf("ParseType(%q) = %v, %v", k.String(), got, err)
		}
	}
	mustPanic(t, "noise: dst and src have different shapes", func() {
		(&Block{}).Apply(tensor.New(fp16.Float32, 1, 1, 2, 1), x, Time{}, new(script))
	})
	mustPanic(t, "noise: dst's format does not hold src's numbers", func() {
		(&Block{}).Apply(tensor.New(fp16.Float16, 1, 1, 1, 2), x, Time{}, new(script))
	})
}

type failing struct{ err error }

func (f failing) Draw(Kind, float64, []int, []float64) error { return f.err }

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

// The promotion of a half input by the float32 field.
func TestBlockFormat(t *testing.T) {
	all := []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}
	for _, in := range all {
		for _, k := range []Type{Gaussian, Laplace, Dropout, Multiplicative} {
			if got := (&Block{Type: k}).Format(in); got != in {
				t.Errorf("white %v of %v is %v", k, in, got)
			}
			want := in
			if k != Dropout && in != fp16.Float64 {
				want = fp16.Float32
			}
			if got := (&Block{Type: k, Correlation: 0.1}).Format(in); got != want {
				t.Errorf("correlated %v of %v is %v, want %v", k, in, got, want)
			}
			for _, out := range all {
				_, err := fp16.ParseFormat(out.String())
				holds := true // checked on the grid's finest and widest numbers
				for _, v := range []float64{
					math.MaxFloat64, math.MaxFloat32, 65504, 1 + 0x1p-10, 1 + 0x1p-7, 0x1p-24, 0x1p-133, 0x1p-149,
				} {
					holds = holds && (!in.Holds(v) || out.Holds(v))
				}
				if widens(in, out) != holds || err != nil {
					t.Errorf("widens(%v, %v) = %v", in, out, !holds)
				}
			}
		}
	}
}

// Threads and, but for a field of the whole batch, the split into samples do
// not change a bit.
func TestApplySplits(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	const n, c, h, w = 4, 3, 6, 10
	size := n * c * h * w
	x, z, m := normals(rng, size), normals(rng, 2*size), normals(rng, size)
	run := func(lo, hi int, scope Scope) []float64 {
		chw := c * h * w
		src := tensor.Of(fp16.Float32, x, n, c, h, w).Samples(lo, hi)
		dst := tensor.Like(src)
		draws := new(script).then(ComplexNormal, z[2*lo*chw:2*hi*chw]).then(Normal, m[lo*chw:hi*chw])
		apply(t, Block{Type: Laplace, Scale: 0.1, Correlation: 0.2, Scope: scope}, dst, src, Time{}, draws)
		return dst.Data
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	whole, batch := run(0, n, PerRealization), run(0, n, WholeBatch)
	runtime.GOMAXPROCS(4)
	sameBits(t, "4 threads", run(0, n, PerRealization), whole)
	sameBits(t, "4 threads, whole batch", run(0, n, WholeBatch), batch)
	sameBits(t, "split 1+3", append(run(0, 1, PerRealization), run(1, n, PerRealization)...), whole)
	if slices.Equal(append(run(0, 1, WholeBatch), run(1, n, WholeBatch)...), batch) {
		t.Error("a field normalised over the batch does not depend on the batch")
	}
}

// Blocks as PyTorch computed them, in float32, from the same draws.
func TestBlocksAgainstPyTorch(t *testing.T) {
	const folder = "../testdata/blocks/"
	text, err := os.ReadFile(folder + "index.json")
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Blocks []struct {
			File, Block string
			Params      struct {
				Type        string  `json:"noise_type"`
				Scale       float64 `json:"noise_scale"`
				Schedule    string  `json:"noise_schedule"`
				Period      int     `json:"schedule_period"`
				Correlation float64 `json:"spatial_correlation"`
			}
			Forward struct {
				Step *int
				Max  *int `json:"max_steps"`
			}
		}
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range index.Blocks {
		if c.Block != "StochasticBlock" {
			continue
		}
		checked++
		t.Run(strings.TrimSuffix(c.File, ".safetensors"), func(t *testing.T) {
			file, err := safetensors.Open(folder + c.File)
			if err != nil {
				t.Fatal(err)
			}
			read := func(name string) ([]float64, []int) {
				array, err := file.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				v, err := array.Float64s()
				if err != nil {
					t.Fatal(err)
				}
				return v, array.Shape
			}
			input, s := read("input")
			want, _ := read("output_f32")
			scale, _ := read("weights.noise_scale")
			b := Block{Scale: c.Params.Scale, Period: c.Params.Period, Correlation: c.Params.Correlation, Scope: WholeBatch}
			if b.Type, err = ParseType(c.Params.Type); err != nil {
				t.Fatal(err)
			}
			if c.Params.Schedule != "" {
				if b.Schedule, err = ParseSchedule(c.Params.Schedule); err != nil {
					t.Fatal(err)
				}
			}
			if got := fp16.Float32.Round(b.Scale); got != scale[0] {
				t.Fatalf("scale %v, recorded %v", got, scale[0])
			}
			draws := new(script)
			for i := 0; ; i++ {
				at := slices.IndexFunc(file.Names(),
					func(name string) bool { return strings.HasPrefix(name, fmt.Sprintf("draw%d.", i)) })
				if at < 0 {
					break
				}
				name := file.Names()[at]
				v, _ := read(name)
				_, kind, _ := strings.Cut(name, ".")
				draws.then(Kind(slices.Index(kindNames[:], kind)), v)
			}
			src := tensor.Of(fp16.Float32, input, s[0], s[1], s[2], s[3])
			bound := make([]float64, len(input)) // white noise: the same bits
			switch {
			case b.Type == Dropout:
				draws.then(Bernoulli, maskOf(t, src, want))
				// PyTorch divides 1 by 1-p rounded to float32, an error of
				// half an ulp more in k and then in x*k: 3 half ulps of at
				// most 2^-23, and the same for ours.
				for i := range bound {
					bound[i] = 0x1p-22 * math.Abs(want[i])
				}
			case b.Correlation != 0:
				bound = correlatedBound(src, b, draws)
			}
			dst := tensor.Like(src)
			apply(t, b, dst, src, Time{c.Forward.Step, c.Forward.Max}, draws)
			worst := 0.0
			for i := range want {
				d := math.Abs(dst.Data[i] - want[i])
				if !(d <= bound[i]) {
					t.Fatalf("element %d: %v, PyTorch %v: difference %.3g, want at most %.3g", i, dst.Data[i], want[i], d, bound[i])
				}
				if bound[i] > 0 {
					worst = max(worst, d/bound[i])
				}
			}
			t.Logf("largest difference: %.2g of the bound", worst)
		})
	}
	if checked != 9 {
		t.Errorf("%d stochastic blocks in the index, want 9", checked)
	}
}

// maskOf reads the dropout mask off a block's output: a channel is dropped if
// all of it is zero.
func maskOf(t *testing.T, src *tensor.Tensor, out []float64) []float64 {
	var mask []float64
	kept := 0
	for plane := range slices.Chunk(out, src.H()*src.W()) {
		keep := 0.0
		for _, v := range plane {
			if v != 0 {
				keep = 1
			}
		}
		kept += int(keep)
		mask = append(mask, keep)
	}
	if kept == 0 || kept == len(mask) {
		t.Fatalf("%d of %d channels kept: the mask shows nothing", kept, len(mask))
	}
	return mask
}

// correlatedBound bounds the distance of PyTorch's float32 evaluation of a
// correlated block from ours.
//
// With v = 2^-24: the filter's exponent a = k^2 (rho H)^2/2 takes about 8
// float32 operations, so the filter is off by (8a+2)v relative, a <= A at the
// corner of the spectrum, and the filtered spectrum by 2v more. A float32 FFT
// of h*w points errs by at most 6 log2(hw) v relative in the 2-norm for radix 2
// (5 operations and a twiddle per stage; other radices are dearer by less than
// 2), and by its norm for any single point: sqrt(hw) times the field's RMS. The
// deviation and the divisions add a few v; then a product with s, and a sum.
func correlatedBound(x *tensor.Tensor, b Block, draws *script) []float64 {
	hw := float64(x.H() * x.W())
	a := 0.25 * math.Pow(b.Correlation*float64(x.H()), 2)
	rms := 1.0
	relative := (12*math.Log2(hw) + 8*a + 4) * 0x1p-24
	bound := make([]float64, len(x.Data))
	for i := range bound {
		// Fields have unit variance; |field| < 6 is generous here.
		e := b.Scale * (relative*math.Sqrt(hw)*rms*2 + 6*8*0x1p-24)
		if b.Type == Multiplicative {
			bound[i] = math.Abs(x.Data[i])*(e+0x1p-23) + 0x1p-23*math.Abs(x.Data[i])*2
		} else {
			bound[i] = e + 0x1p-23*(math.Abs(x.Data[i])+1)
		}
	}
	return bound
}
