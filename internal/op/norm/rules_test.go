package norm_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

var (
	inf     = math.Inf(1)
	nan     = fp16.NaN
	negZero = math.Copysign(0, -1)
	all     = append([]fp16.Format{fp16.Float64}, formats...)
)

// TestGroupSpecials: one number that is not finite makes its group NaN and
// leaves the others alone.
func TestGroupSpecials(t *testing.T) {
	for _, f := range all {
		for _, bad := range []float64{inf, -inf, nan, math.Float64frombits(0xfff8000000000001)} {
			src := tensor.Of(f, []float64{1, 2, 3, bad, 1, 2, 3, 4, 5, 5, 5, 5}, 1, 3, 2, 2)
			dst := tensor.Like(src)
			norm.Instance(dst, src, nil, []float64{0, 0, 2}, 1e-5)
			clean := tensor.Of(f, []float64{1, 2, 3, 4}, 1, 1, 2, 2)
			want := tensor.Like(clean)
			norm.Instance(want, clean, nil, nil, 1e-5)
			for i, got := range dst.Data {
				w := nan
				switch i / 4 {
				case 1:
					w = want.Data[i-4]
				case 2:
					w = 2
				}
				if !same(got, w) {
					t.Errorf("%v with %g: element %d is %x, want %x", f, bad, i, got, w)
				}
			}
		}
	}
}

// TestParameterSpecials walks the rest of the table of special values.
func TestParameterSpecials(t *testing.T) {
	for _, f := range all {
		// A group of -1 and 1 at eps 0.
		for _, c := range []struct{ gamma, beta, below, above float64 }{
			{inf, 3, -inf, inf},
			{-inf, 3, inf, -inf},
			{nan, 3, nan, nan},
			{2, inf, inf, inf},
			{2, -inf, -inf, -inf},
			{2, nan, nan, nan},
			{inf, inf, nan, inf},
			{0, inf, inf, inf},
			{0, nan, nan, nan},
			{0, negZero, 0, 0},
			{0, 0, 0, 0},
			{1, 1, 0, 2},
			{-1, -1, 0, -2},
			{0x1p-150, 0, negZero, 0},
			{-0x1p-150, 0, 0, negZero},
			{0x1p127, 0, -0x1p127, 0x1p127},
			{0x1p128, 0, -inf, inf},
		} {
			if f == fp16.Float64 && math.Abs(math.Log2(math.Abs(c.gamma))) > 100 {
				continue // no underflow or overflow there
			}
			src := tensor.Of(f, []float64{-1, 1}, 1, 1, 1, 2)
			dst := tensor.Like(src)
			norm.Instance(dst, src, []float64{c.gamma}, []float64{c.beta}, 0)
			for i, want := range []float64{c.below, c.above} {
				if f == fp16.Float16 && math.Abs(want) == 0x1p127 {
					want = math.Copysign(inf, want)
				}
				if got := dst.Data[i]; !same(got, want) {
					t.Errorf("%v gamma %g beta %g: element %d is %g, want %g", f, c.gamma, c.beta, i, got, want)
				}
			}
		}
		// A group without variance, and eps 0: 0/0.
		src := tensor.Of(f, []float64{4, 4}, 1, 1, 1, 2)
		dst := tensor.Like(src)
		norm.Instance(dst, src, nil, nil, 0)
		if !same(dst.Data[0], nan) || !same(dst.Data[1], nan) {
			t.Errorf("%v: 0/0 is %v", f, dst.Data)
		}
		// The same with an eps is beta, and +0 for any zero.
		for _, beta := range []float64{0, negZero, -1.5} {
			norm.Instance(dst, src, []float64{-1}, []float64{beta}, 1e-5)
			if want := beta + 0; !same(dst.Data[0], want) || !same(dst.Data[1], want) {
				t.Errorf("%v: a constant plane at beta %g is %v", f, beta, dst.Data)
			}
		}
	}
}

func TestBatchSpecials(t *testing.T) {
	for _, f := range all {
		for _, c := range []struct{ x, mean, variance, eps, gamma, beta, want float64 }{
			{inf, 0, 1, 1e-5, 2, 3, inf},
			{-inf, 0, 1, 1e-5, 2, 3, -inf},
			{inf, 0, 1, 1e-5, -2, 3, -inf},
			{-inf, 0, 1, 1e-5, -2, 3, inf},
			{inf, 0, 1, 1e-5, 0, 3, nan},
			{nan, 0, 1, 1e-5, 0, 3, nan},
			{nan, 0, 1, 1e-5, 2, 3, nan},
			{1, inf, 1, 1e-5, 2, 3, -inf},
			{1, -inf, 1, 1e-5, 2, 3, inf},
			{inf, inf, 1, 1e-5, 2, 3, nan},
			{-inf, inf, 1, 1e-5, 2, 3, -inf},
			{1, nan, 1, 1e-5, 2, 3, nan},
			{1, 0, inf, 1e-5, 2, 3, 3},
			{1, 0, inf, 1e-5, 2, negZero, 0},
			{inf, 0, inf, 1e-5, 2, 3, nan},
			{1, 0, nan, 1e-5, 2, 3, nan},
			{1, 0, -1, 1e-5, 2, 3, nan},
			{1, 0, -1, 1, 2, 3, nan},
			{1, 0, -1, 1, 0, 3, nan},
			{1, 0, 0, 0, 2, 3, nan},
			{1, 1, 0, 0, 2, 3, nan},
			{1, 0, -0.75, 1, 2, 3, 7},
			{1, 1, 1, 0, inf, 3, nan},
			{0, 1, 1, 0, inf, 3, -inf},
			{3, 1, 1, 0, -1, 2, 0},
			{3, 1, 1, 0, 0, negZero, 0},
		} {
			src := tensor.Of(f, []float64{c.x}, 1, 1, 1, 1)
			dst := tensor.Like(src)
			norm.Batch(dst, src, []float64{c.mean}, []float64{c.variance}, []float64{c.gamma}, []float64{c.beta}, c.eps)
			if got := dst.Data[0]; !same(got, c.want) {
				t.Errorf("%v %+v: got %g", f, c, got)
			}
		}
	}
}

// each calls one of the three operations in every way the tests below vary.
var each = []struct {
	name string
	call func(dst, src *tensor.Tensor, gamma, beta []float64)
}{
	{"instance", func(dst, src *tensor.Tensor, gamma, beta []float64) { norm.Instance(dst, src, gamma, beta, 1e-5) }},
	{"group", func(dst, src *tensor.Tensor, gamma, beta []float64) { norm.Group(dst, src, 2, gamma, beta, 1e-5) }},
	{"layer", func(dst, src *tensor.Tensor, gamma, beta []float64) { norm.Group(dst, src, 1, gamma, beta, 1e-5) }},
	{"batch", func(dst, src *tensor.Tensor, gamma, beta []float64) {
		norm.Batch(dst, src, []float64{0, 1, 2, 3}, []float64{1, 0, 0.5, 2}, gamma, beta, 1e-5)
	}},
}

// TestSameBits: neither the number of threads, nor the split of the batch,
// nor working in place changes a bit.
func TestSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, op := range each {
		for _, f := range all {
			src := filled(sources[0], f, r, 3, 4, 50, 50) // a layer group has two pieces
			src.Data[7] = inf
			gamma, beta := float32s(r, 4, r.NormFloat64), float32s(r, 4, r.NormFloat64)
			want := tensor.Like(src)
			func() {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				op.call(want, src, gamma, beta)
			}()
			check := func(how string, got *tensor.Tensor) {
				t.Helper()
				for i := range got.Data {
					if !same(got.Data[i], want.Data[i]) {
						t.Fatalf("%s %v, %s: element %d is %x, not %x", op.name, f, how, i, got.Data[i], want.Data[i])
					}
				}
			}
			for _, procs := range []int{2, 3, 7} {
				func() {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
					got := tensor.Like(src)
					op.call(got, src, gamma, beta)
					check("threads", got)
				}()
			}
			split := tensor.Like(src)
			op.call(split.Samples(0, 1), src.Samples(0, 1), gamma, beta)
			op.call(split.Samples(1, 3), src.Samples(1, 3), gamma, beta)
			check("split batch", split)
			inPlace := src.Clone()
			op.call(inPlace, inPlace, gamma, beta)
			check("in place", inPlace)
		}
	}
}

// TestFloat64Mode writes the sequence of operations out for a group of 3, with
// numbers for which another order or a fused product gives other bits.
func TestFloat64Mode(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 200 {
		xs := []float64{r.NormFloat64(), 1e3 * r.NormFloat64(), r.NormFloat64()}
		gamma, beta, eps := r.NormFloat64(), r.NormFloat64(), 1e-5
		src := tensor.Of(fp16.Float64, xs, 1, 1, 1, 3)
		dst := tensor.Like(src)
		norm.Instance(dst, src, []float64{gamma}, []float64{beta}, eps)

		sum := xs[0] + xs[1]
		sum += xs[2]
		mean := sum / 3
		q := [3]float64{}
		for i, x := range xs {
			q[i] = float64((x - mean) * (x - mean))
		}
		squares := q[0] + q[1]
		squares += q[2]
		inv := 1 / math.Sqrt(squares/3+eps)
		batch := tensor.Like(src)
		norm.Batch(batch, src, []float64{mean}, []float64{squares / 3}, []float64{gamma}, []float64{beta}, eps)
		for i, x := range xs {
			standard := float64((x - mean) * inv)
			want := float64(standard*gamma) + beta
			if !same(dst.Data[i], want) {
				t.Fatalf("element %d of %x: %x, want %x", i, xs, dst.Data[i], want)
			}
			if !same(batch.Data[i], want) {
				t.Fatalf("batch, element %d of %x: %x, want %x", i, xs, batch.Data[i], want)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	for _, f := range all {
		for _, sh := range [][4]int{{0, 4, 2, 2}, {2, 4, 0, 2}, {2, 4, 2, 0}} {
			x := tensor.New(f, sh[0], sh[1], sh[2], sh[3])
			for _, op := range each {
				op.call(x, x, nil, nil)
			}
		}
		x := tensor.New(f, 2, 0, 2, 2)
		norm.Instance(x, x, nil, nil, 1e-5)
		norm.Batch(x, x, nil, nil, nil, nil, 1e-5)
	}
}

func TestMisuse(t *testing.T) {
	x := tensor.New(fp16.Float32, 1, 4, 2, 2)
	four, three := make([]float64, 4), make([]float64, 3)
	const (
		shape  = "norm: source and destination differ in shape"
		params = "norm: gamma and beta need one number per channel"
		stats  = "norm: running statistics need one number per channel"
		groups = "norm: groups must be a positive divisor of the channels"
		eps    = "norm: eps must be finite and not negative"
	)
	for i, c := range []struct {
		want string
		call func()
	}{
		{shape, func() { norm.Instance(tensor.New(fp16.Float32, 1, 4, 1, 4), x, nil, nil, 1e-5) }},
		{shape, func() { norm.Batch(tensor.New(fp16.Float32, 4, 1, 2, 2), x, four, four, nil, nil, 1e-5) }},
		{params, func() { norm.Instance(x, x, three, nil, 1e-5) }},
		{params, func() { norm.Group(x, x, 2, nil, three, 1e-5) }},
		{params, func() { norm.Batch(x, x, four, four, []float64{}, nil, 1e-5) }},
		{stats, func() { norm.Batch(x, x, three, four, nil, nil, 1e-5) }},
		{stats, func() { norm.Batch(x, x, four, nil, nil, nil, 1e-5) }},
		{groups, func() { norm.Group(x, x, 0, nil, nil, 1e-5) }},
		{groups, func() { norm.Group(x, x, -2, nil, nil, 1e-5) }},
		{groups, func() { norm.Group(x, x, 3, nil, nil, 1e-5) }},
		{groups, func() { norm.Group(x, x, 8, nil, nil, 1e-5) }},
		{eps, func() { norm.Instance(x, x, nil, nil, -1e-5) }},
		{eps, func() { norm.Instance(x, x, nil, nil, math.NaN()) }},
		{eps, func() { norm.Batch(x, x, four, four, nil, nil, math.Inf(1)) }},
		{"norm: a float64 source needs a float64 destination", func() {
			norm.Instance(x, tensor.New(fp16.Float64, 1, 4, 2, 2), nil, nil, 1e-5)
		}},
	} {
		func() {
			defer func() {
				if r := recover(); r != c.want {
					t.Errorf("call %d: panic %v, want %q", i, r, c.want)
				}
			}()
			c.call()
		}()
	}
}
