package norm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

var formats = []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// param returns p[c], or otherwise without p.
func param(p []float64, c int, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return p[c]
}

// checkGroup compares dst with the judge, element by element, or only those
// whose index is a multiple of stride. All of src must be finite.
func checkGroup(t *testing.T, dst, src *tensor.Tensor, groups int, gamma, beta []float64, eps float64, stride int) {
	t.Helper()
	perGroup := src.C() / groups
	m := perGroup * src.H() * src.W()
	for g := range src.N() * groups {
		judge := bigref.GroupNorm(src.Data[g*m:(g+1)*m], eps)
		for i := g * m; i < (g+1)*m; i++ {
			if i%stride == 0 {
				c := i / (src.H() * src.W()) % src.C()
				checkElement(t, dst, src, judge, i, param(gamma, c, 1), param(beta, c, 0))
			}
		}
	}
}

func checkElement(t *testing.T, dst, src *tensor.Tensor, judge bigref.Norm, i int, gamma, beta float64) {
	t.Helper()
	want := judge.Round(src.Data[i], gamma, beta, dst.Format)
	if got := dst.Data[i]; !same(got, want) {
		mean, _ := judge.Mean().Float64()
		v, _ := judge.V().Float64()
		t.Fatalf("%v, %v to %v, element %d: x %x mean %x V %x gamma %x beta %x: got %x, want %x",
			dst.Dims(), src.Format, dst.Format, i, src.Data[i], mean, v, gamma, beta, got, want)
	}
}

// A source is a way to fill a tensor.
type source struct {
	name string
	fill func(r *rand.Rand, i int) float64
}

var sources = []source{
	{"normal", func(r *rand.Rand, _ int) float64 { return r.NormFloat64() }},
	{"constant", func(*rand.Rand, int) float64 { return 0.1 }},
	{"nearly constant", func(r *rand.Rand, _ int) float64 { return 1e4 + 1e-3*r.NormFloat64() }},
	{"one off", func(_ *rand.Rand, i int) float64 { return 1 + 0x1p-7*float64(max(0, 1-i)) }},
	{"variance near eps", func(r *rand.Rand, _ int) float64 { return 1 + 3e-3*r.NormFloat64() }},
	{"subnormal", func(r *rand.Rand, _ int) float64 { return 0x1p-149 * float64(r.IntN(64)-32) }},
	{"wide", func(r *rand.Rand, _ int) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(200)-120) }},
	{"integers", func(r *rand.Rand, _ int) float64 { return float64(r.IntN(5) - 2) }},
	{"signs", func(r *rand.Rand, i int) float64 { return float64(1 - 2*(i&1)) }},
	{"mean far below", func(_ *rand.Rand, i int) float64 { return []float64{1, -1, 0x1p-60, 0}[i&3] }},
}

// filled returns a tensor of finite numbers of its format.
func filled(s source, f fp16.Format, r *rand.Rand, n, c, h, w int) *tensor.Tensor {
	t := tensor.New(f, n, c, h, w)
	for i := range t.Data {
		t.Data[i] = f.Round(s.fill(r, i))
		if math.IsInf(t.Data[i], 0) {
			t.Data[i] = math.Copysign(65504, t.Data[i])
		}
	}
	return t
}

func float32s(r *rand.Rand, n int, f func() float64) []float64 {
	p := make([]float64, n)
	for i := range p {
		p[i] = float64(float32(f()))
	}
	return p
}

// shapes has one element, one row, odd sizes, and a group of one channel.
var shapes = []struct{ n, c, h, w, groups int }{
	{1, 2, 1, 1, 2}, // M = 1
	{2, 4, 1, 1, 2},
	{1, 3, 5, 3, 3},
	{2, 6, 3, 2, 3},
	{1, 2, 4, 4, 1},
	{1, 8, 5, 9, 2},
}

func TestGroupAgainstJudge(t *testing.T) {
	hashed.OnEach(t, *norm.Elements, func(o *hashed.Outputs) {
		r := rand.New(rand.NewPCG(1, 1))
		check := func(what string, dst, src *tensor.Tensor, groups int, gamma, beta []float64, eps float64) {
			t.Helper()
			if o.Add(what, dst.Data...); o.Judge {
				checkGroup(t, dst, src, groups, gamma, beta, eps, 1)
			}
		}
		for seen, trial := 0, 0; seen < *norm.Elements; trial++ {
			s, f := sources[trial%len(sources)], formats[trial/len(sources)%len(formats)]
			for i, sh := range shapes {
				src := filled(s, []fp16.Format{f, fp16.Float32}[i&1], r, sh.n, sh.c, sh.h, sh.w)
				dst := tensor.New(f, sh.n, sh.c, sh.h, sh.w)
				gamma, beta := float32s(r, sh.c, r.NormFloat64), float32s(r, sh.c, r.NormFloat64)
				norm.Group(dst, src, sh.groups, gamma, beta, 1e-5)
				check("group_norm", dst, src, sh.groups, gamma, beta, 1e-5)
				norm.Group(dst, src, sh.groups, nil, nil, 0x1p-300)
				check("group_norm", dst, src, sh.groups, nil, nil, 0x1p-300)
				norm.Instance(dst, src, gamma, nil, 1e-5)
				check("instance_norm", dst, src, src.C(), gamma, nil, 1e-5)
				seen += len(dst.Data)
			}
		}
	})
}

// TestExactTies builds groups of mean 0 whose V is the square of 1, 2 or 4, so
// that results are ties of the narrow formats, zeros by cancelling, and other
// numbers of few bits.
func TestExactTies(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, f := range formats {
		ties, zeros := 0, 0
		for range 30 {
			sigma := float64(int(1) << r.IntN(3))
			eps := sigma * sigma / 4
			// Three quarters of the numbers are +-sigma, the others 0.
			src := tensor.New(f, 1, 2, 4, 4)
			for i := range src.Data {
				src.Data[i] = []float64{sigma, -sigma, sigma, -sigma, sigma, -sigma, 0, 0}[i&7]
			}
			half := f.Ulp(1) / 2
			gamma := []float64{1 + half*float64(r.IntN(8)), float64(r.IntN(5))}
			beta := []float64{float64(r.IntN(3) - 1), -gamma[1]}
			dst := tensor.Like(src)
			norm.Instance(dst, src, gamma, beta, eps)
			checkGroup(t, dst, src, 2, gamma, beta, eps, 1)
			for i, x := range src.Data {
				y := gamma[i/16]*x/sigma + beta[i/16]
				if y == 0 {
					zeros++
					if !same(dst.Data[i], 0) {
						t.Fatalf("%v: an exact zero is %x", f, dst.Data[i])
					}
				} else if math.Abs(y-f.Round(y))*2 == f.Ulp(y) {
					ties++
				}
			}
		}
		if ties < 20 || zeros < 20 {
			t.Errorf("%v: only %d ties and %d zeros", f, ties, zeros)
		}
	}
}

func TestBatchAgainstJudge(t *testing.T) {
	hashed.OnEach(t, *norm.Elements, func(o *hashed.Outputs) { batchAgainstJudge(t, o) })
}

func batchAgainstJudge(t *testing.T, o *hashed.Outputs) {
	r := rand.New(rand.NewPCG(3, 3))
	for seen, trial := 0, 0; seen < *norm.Elements; trial++ {
		s := sources[trial%len(sources)]
		for _, f := range formats {
			const c = 6
			src := filled(s, f, r, 2, c, 3, 3)
			dst := tensor.Like(src)
			mean := float32s(r, c, r.NormFloat64)
			variance := float32s(r, c, r.ExpFloat64)
			mean[0], variance[0] = src.Data[0], 0
			mean[1], variance[1] = 0, 0.75
			mean[2], variance[2] = 1e4, 1e-12
			gamma, beta := float32s(r, c, r.NormFloat64), float32s(r, c, r.NormFloat64)
			gamma[1], beta[1] = 1, -src.Data[9]
			gamma[3] = 0
			for _, eps := range []float64{1e-5, 0.25} {
				norm.Batch(dst, src, mean, variance, gamma, beta, eps)
				o.Add("batch_norm", dst.Data...)
				seen += len(dst.Data)
				for i := range dst.Data {
					if !o.Judge {
						break
					}
					c := i / 9 % c
					checkElement(t, dst, src, bigref.RunningNorm(mean[c], variance[c], eps), i, gamma[c], beta[c])
				}
			}
		}
	}
}

// TestLargeGroup has more elements than one piece of work, in one group and
// in one plane.
func TestLargeGroup(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, sh := range [][4]int{{1, 2, 90, 95}, {1, 1, 1, 8192}, {1, 1, 8193, 1}, {2, 3, 60, 70}} {
		src := filled(sources[0], fp16.Float32, r, sh[0], sh[1], sh[2], sh[3])
		src.Data[len(src.Data)-1] = 1e6 // seen only if the last piece counts
		dst := tensor.Like(src)
		norm.Group(dst, src, 1, nil, nil, 1e-5)
		checkGroup(t, dst, src, 1, nil, nil, 1e-5, 97)
	}
}

func ExampleGroup() {
	src := tensor.Of(fp16.Float32, []float64{1, 2, 3, 6}, 1, 2, 1, 2)
	dst := tensor.Like(src)
	norm.Group(dst, src, 1, []float64{1, 10}, []float64{0, 100}, 0.5)
	fmt.Println(dst.Data) // mean 3, variance 3.5
	// Output: [-1 -0.5 100 115]
}
