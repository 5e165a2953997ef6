package norm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// mirrored returns the numbers and their negatives: their mean is 0, and their variance the
// mean square of the numbers.
func mirrored(xs []float64) []float64 {
	both := append([]float64(nil), xs...)
	for _, x := range xs {
		both = append(both, -x)
	}
	return both
}

// TestRowsAgainstJudge: layer and RMS norms are the judge's.
func TestRowsAgainstJudge(t *testing.T) {
	hashed.OnEach(t, *norm.Elements, func(o *hashed.Outputs) { rowsAgainstJudge(t, o) })
}

func rowsAgainstJudge(t *testing.T, o *hashed.Outputs) {
	r := rand.New(rand.NewPCG(21, 22))
	for seen, trial := 0, 0; seen < *norm.Elements; trial++ {
		s, f := sources[trial%len(sources)], formats[trial/len(sources)%len(formats)]
		n := []int{1, 2, 7, 24, 100}[r.IntN(5)]
		src := filled(s, []fp16.Format{f, fp16.Float32}[r.IntN(2)], r, 2, 1, 1, n)
		dst := tensor.New(f, 2, 1, 1, n)
		gamma, beta := float32s(r, n, r.NormFloat64), float32s(r, n, r.NormFloat64)
		if r.IntN(2) == 0 {
			gamma[r.IntN(n)] = 0
		}
		eps := []float64{1e-5, 0x1p-300, 1e-12, 0.25}[r.IntN(4)]
		if r.IntN(4) == 0 {
			gamma = nil
		}
		if r.IntN(4) == 0 {
			beta = nil
		}
		seen += 2 * n
		norm.Layer(dst, src, n, gamma, beta, eps)
		o.Add("layer_norm", dst.Data...)
		for k := range 2 {
			if !o.Judge {
				break
			}
			judge := bigref.GroupNorm(src.Data[k*n:][:n], eps)
			for i := range n {
				checkElement(t, dst, src, judge, k*n+i, param(gamma, i, 1), param(beta, i, 0))
			}
		}
		norm.RMS(dst, src, n, gamma, eps)
		o.Add("rms_norm", dst.Data...)
		for k := range 2 {
			if !o.Judge {
				break
			}
			judge := bigref.GroupNorm(mirrored(src.Data[k*n:][:n]), eps)
			for i := range n {
				checkElement(t, dst, src, judge, k*n+i, param(gamma, i, 1), 0)
			}
		}
	}
}

// TestLayerIsGroup: a layer norm is a group norm of one group whose channels are the places,
// in every format, in place too, for rows of any length.
func TestLayerIsGroup(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for _, f := range all {
		for _, n := range []int{1, 8, 197, 768} {
			src := filled(sources[0], f, r, 3, n, 1, 1)
			gamma, beta := float32s(r, n, r.NormFloat64), float32s(r, n, r.NormFloat64)
			want := tensor.Like(src)
			norm.Group(want, src, 1, gamma, beta, 1e-5)
			norm.Layer(src, src, n, gamma, beta, 1e-5)
			sameTensor(t, f.String(), src, want)
		}
	}
}

// TestHardRows: numbers next to the mean of their row, and results next to the middle of two
// numbers of a narrow format.
func TestHardRows(t *testing.T) {
	for _, f := range formats {
		for _, tiny := range []float64{0, 0x1p-20, -0x1p-60, 0x1p-100} {
			for _, in := range [][]float64{
				{0x1p100, 0x1p101, tiny}, // the mean is 2^100 + tiny/3
				{1, -1, 1, -1},
				{tiny, -tiny, 0x1p60, -0x1p60},
			} {
				src := tensor.Of(fp16.Float32, in, 1, 1, 1, len(in))
				for _, bits := range []int{8, 11} { // the middle above 1, in bfloat16 and float16
					gamma, beta := make([]float64, len(in)), make([]float64, len(in))
					for i := range in {
						gamma[i], beta[i] = 1+math.Ldexp(1, -bits), tiny*float64(1-2*(i/2))
					}
					dst := tensor.New(f, src.Shape...)
					norm.Layer(dst, src, len(in), gamma, nil, 0)
					judge := bigref.GroupNorm(in, 0)
					for i := range in {
						checkElement(t, dst, src, judge, i, gamma[i], 0)
					}
					norm.Layer(dst, src, len(in), gamma, beta, 0)
					for i := range in {
						checkElement(t, dst, src, judge, i, gamma[i], beta[i])
					}
					norm.RMS(dst, src, len(in), gamma, 0)
					judge = bigref.GroupNorm(mirrored(in), 0)
					for i := range in {
						checkElement(t, dst, src, judge, i, gamma[i], 0)
					}
				}
			}
		}
	}
}

// TestRowRules: what is not finite, and zeros.
func TestRowRules(t *testing.T) {
	for _, f := range all {
		x := tensor.Of(f, []float64{1, 2, nan, 4, 1, inf, -2, 3, 0, negZero, 0, 0, 3, -4, 0, negZero}, 4, 4)
		y := tensor.Like(x)
		norm.RMS(y, x, 4, nil, 0)
		for i, want := range []float64{
			nan, nan, nan, nan, 0, nan, 0, 0, nan, nan, nan, nan, f.Round(1.2), f.Round(-1.6), 0, 0,
		} {
			if got := y.Data[i]; !same(got, want) && (f != fp16.Float64 || math.Abs(got-want) > 1e-15) {
				t.Errorf("%v: RMS, element %d: %v, want %v", f, i, got, want)
			}
		}
		norm.Layer(y, x, 4, nil, []float64{1, 1, 1, inf}, 1e-5)
		for i, want := range []float64{nan, nan, nan, nan, nan, nan, nan, nan, 1, 1, 1, inf} {
			if got := y.Data[i]; !same(got, want) {
				t.Errorf("%v: layer norm, element %d: %v, want %v", f, i, got, want)
			}
		}
	}
}

// TestRowMisuse: what cannot be is refused.
func TestRowMisuse(t *testing.T) {
	x, y := tensor.New(fp16.Float32, 2, 6), tensor.New(fp16.Float32, 2, 5)
	for what, f := range map[string]func(){
		"norm: source and destination differ in shape":                 func() { norm.Layer(y, x, 6, nil, nil, 0) },
		"norm: the source is not rows of that length":                  func() { norm.RMS(x, x, 5, nil, 0) },
		"norm: gamma and beta need one number for each place in a row": func() { norm.RMS(x, x, 6, []float64{1}, 0) },
		"norm: eps must be finite and not negative":                    func() { norm.Layer(x, x, 6, nil, nil, -1) },
		"norm: a float64 source needs a float64 destination": func() {
			norm.Layer(x, tensor.New(fp16.Float64, 2, 6), 6, nil, nil, 0)
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != what {
					t.Errorf("%v, want %q", got, what)
				}
			}()
			f()
		}()
	}
}

func BenchmarkLayer(b *testing.B) {
	r := rand.New(rand.NewPCG(25, 26))
	src := filled(sources[0], fp16.Float32, r, 197, 768, 1, 1)
	dst := tensor.Like(src)
	gamma, beta := float32s(r, 768, r.NormFloat64), float32s(r, 768, r.NormFloat64)
	for b.Loop() {
		norm.Layer(dst, src, 768, gamma, beta, 1e-6)
	}
	perElement(b, src)
}
