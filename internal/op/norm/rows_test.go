package norm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// image is a tensor in blocks of 8 channels.
type image struct {
	*tensor.Tensor
	blocks int
	data   []float32
}

func newImage(t *tensor.Tensor) *image {
	m := &image{t, (t.C() + 7) / 8, make([]float32, t.N()*(t.C()+7)/8*8*t.H()*t.W())}
	m.data = make([]float32, t.N()*m.blocks*8*t.H()*t.W())
	for i, v := range t.Data {
		*m.at(i) = float32(v)
	}
	return m
}

func (m *image) Row(n, b, y int) []float32 {
	return m.data[((n*m.blocks+b)*m.H()+y)*m.W()*8:][:m.W()*8]
}

// at returns the place of the ith number of the tensor.
func (m *image) at(i int) *float32 {
	x, y, c, n := i%m.W(), i/m.W()%m.H(), i/m.W()/m.H()%m.C(), i/m.W()/m.H()/m.C()
	return &m.Row(n, c/8, y)[8*x+c%8]
}

// byRows normalises as a plan does.
func byRows(r *norm.Rows, x *tensor.Tensor, f fp16.Format, parts int) *tensor.Tensor {
	src, y := newImage(x), tensor.New(f, x.N(), x.C(), x.H(), x.W())
	dst := newImage(y)
	w := norm.NewSpace(x.W())
	for n := range x.N() {
		if !r.Batch() {
			for b := range src.blocks {
				r.Pivot(src, n, b, w)
			}
			r.SetPivots(n, 0, src.blocks)
			for b := range src.blocks {
				for p := range parts {
					r.Sum(src, n, b, p, w)
				}
			}
			r.SetLines(n, 0, src.blocks)
		}
		for b := range src.blocks {
			for h := range x.H() {
				r.Apply(dst.Row(n, b, h), src.Row(n, b, h), src, n, b, w)
			}
		}
	}
	for i := range y.Data {
		y.Data[i] = float64(*dst.at(i))
		if v := y.Data[i]; v != v {
			if math.Float32bits(*dst.at(i)) != 0x7fc00000 {
				panic("not the one NaN")
			}
			y.Data[i] = fp16.NaN
		}
	}
	for n := range x.N() { // channels that are not there
		for h := range x.H() {
			for i, v := range dst.Row(n, src.blocks-1, h) {
				if 8*(src.blocks-1)+i%8 >= x.C() && math.Float32bits(v) != 0 {
					panic("a missing channel is not 0")
				}
			}
		}
	}
	return y
}

// TestRows: rows have the bits of tensors, on every instruction set.
func TestRows(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(31, 1))
	rows := append(sources[:len(sources):len(sources)],
		source{"with NaN", func(r *rand.Rand, i int) float64 {
			if i == 40 {
				return math.NaN()
			}
			return r.NormFloat64()
		}},
		source{"with Inf", func(r *rand.Rand, i int) float64 {
			if i == 3 {
				return math.Inf(-1)
			}
			return r.NormFloat64()
		}},
		source{"large mean", func(r *rand.Rand, _ int) float64 { return 300 + r.NormFloat64() }})
	shapes := []struct{ n, c, h, w, groups, parts int }{
		{1, 2, 1, 1, 2, 1}, {2, 11, 3, 2, 11, 1}, {1, 8, 5, 9, 8, 2}, {1, 16, 70, 67, 16, 1}, {2, 12, 4, 33, 6, 3},
		{1, 24, 6, 5, 2, 2}, {2, 9, 7, 3, 1, 2}, {1, 9, 130, 129, 1, 3},
	}
	var e norm.Exact
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, s := range rows {
			for k, z := range shapes {
				if k == 7 && (isa == "purego" || s.name != "normal") {
					continue
				}
				for _, f := range formats {
					if f == fp16.TF32 {
						continue
					}
					x := filled(s, fp16.Float32, r, z.n, z.c, z.h, z.w)
					gamma, beta := float32s(r, z.c, r.NormFloat64), float32s(r, z.c, r.NormFloat64)
					switch k % 3 {
					case 0:
						gamma, beta = nil, nil
					case 1:
						gamma[0], beta[0], beta[1] = 0, math.Copysign(0, -1), 1+0x1p-8
					}
					want := tensor.New(f, z.n, z.c, z.h, z.w)
					norm.Group(want, x, z.groups, gamma, beta, 1e-5)
					got := byRows(norm.NewRows(f, z.n, z.c, z.h, z.w, z.groups, gamma, beta, 1e-5, z.parts, &e), x, f, z.parts)
					sameTensor(t, fmt.Sprintf("%s, %s, %v", isa, s.name, z), got, want)
				}
			}
		}
	}
}

// TestRowSpecials: parameters and numbers that the kernels must leave alone.
func TestRowSpecials(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(32, 1))
	odd := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-149, -0x1p-149, 0x1p-126,
		0x1p127, -0x1p127, 1, -1, 65504, 65520, 0x1p-24, 0x1p-25}
	params := append([]float64{0x1p-450, 0x1p-1074, 0x1p-210, 0x1p210, 0x1p1000, 0x1p-1000, -0x1p-1022}, odd...)
	pick := func(from []float64) float64 { return fp16.Float64.Round(from[r.IntN(len(from))]) }
	var e norm.Exact
	for trial := range 6000 {
		if err := asm.Use(asm.ISAs()[trial%len(asm.ISAs())]); err != nil {
			t.Fatal(err)
		}
		f := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16}[r.IntN(3)]
		x := tensor.New(fp16.Float32, 1, 3, 2, 1+r.IntN(9))
		for i := range x.Data {
			x.Data[i] = r.NormFloat64()
			if trial%3 != 0 {
				x.Data[i] = pick(odd)
			}
			x.Data[i] = fp16.Float32.Round(x.Data[i])
		}
		p := func() []float64 {
			v := []float64{pick(params), r.NormFloat64(), 1}
			if r.IntN(2) == 0 {
				v = []float64{0, 1, r.NormFloat64()}
			}
			return v
		}
		mean, variance, gamma, beta := p(), p(), p(), p()
		eps := []float64{0, 1e-5, 1, 0x1p-1074}[r.IntN(4)]
		want := tensor.New(f, 1, 3, 2, x.W())
		var rows *norm.Rows
		switch trial % 3 {
		case 0:
			norm.Batch(want, x, mean, variance, gamma, beta, eps)
			rows = norm.NewBatchRows(f, 1, 3, 2, x.W(), mean, variance, gamma, beta, eps)
		case 1:
			norm.Instance(want, x, gamma, beta, eps)
			rows = norm.NewRows(f, 1, 3, 2, x.W(), 3, gamma, beta, eps, 2, &e)
		case 2:
			norm.Batch(want, x, mean, variance, gamma, beta, eps)
			rows = norm.NewBatchRows(f, 1, 3, 2, x.W(), mean, variance, gamma, beta, eps)
		}
		sameTensor(t, fmt.Sprintf("trial %d, mean %x, variance %x, gamma %x, beta %x, eps %x, x %x",
			trial, mean, variance, gamma, beta, eps, x.Data), byRows(rows, x, f, 2), want)
	}
}

// BenchmarkRows is an instance norm of rows.
func BenchmarkRows(b *testing.B) {
	r := rand.New(rand.NewPCG(33, 1))
	x := filled(sources[0], fp16.Float32, r, 1, 64, 128, 128)
	src, dst := newImage(x), newImage(tensor.Like(x))
	var e norm.Exact
	rows := norm.NewRows(fp16.Float32, 1, 64, 128, 128, 64, nil, nil, 1e-5, 1, &e)
	w := norm.NewSpace(128)
	b.ReportAllocs()
	for b.Loop() {
		for k := range 8 {
			rows.Pivot(src, 0, k, w)
			rows.SetPivots(0, k, k+1)
			rows.Sum(src, 0, k, 0, w)
			rows.SetLines(0, k, k+1)
			for y := range 128 {
				rows.Apply(dst.Row(0, k, y), src.Row(0, k, y), src, 0, k, w)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x.Data)), "ns/elem")
}
