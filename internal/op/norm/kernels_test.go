package norm_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// plainly returns what run writes to a copy of x without kernels.
func plainly(t *testing.T, x *tensor.Tensor, run func(x *tensor.Tensor)) *tensor.Tensor {
	t.Helper()
	isa := asm.ISA()
	defer asm.Use(isa)
	if err := asm.Use("purego"); err != nil {
		t.Fatal(err)
	}
	dst := tensor.Like(x)
	copy(dst.Data, x.Data)
	run(dst)
	return dst
}

func sameTensor(t *testing.T, what string, got, want *tensor.Tensor) {
	t.Helper()
	for i, w := range want.Data {
		if g := got.Data[i]; !same(g, w) {
			t.Fatalf("%s: %v %v, element %d: %x, want %x", what, got.Dims(), got.Format, i, g, w)
		}
	}
}

// TestKernels: with kernels and without, the same bits, at every length, in place
// and not.
func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	lengths := []int{511, 2047, 2048, 4105, 8199}
	for n := range 70 {
		lengths = append(lengths, n+1)
	}
	more := append(slices.Clone(sources),
		source{"zero", func(*rand.Rand, int) float64 { return 0 }},
		source{"relu", func(r *rand.Rand, _ int) float64 { return max(0, r.NormFloat64()) }},
		source{"huge mean", func(r *rand.Rand, _ int) float64 { return 1e7 + float64(r.IntN(3)) }})
	for _, s := range more {
		for _, f := range formats {
			for i, n := range lengths {
				if n > 100 && (i+int(f))%3 != 0 {
					continue
				}
				x := filled(s, f, r, 1, 2, 1, n)
				gamma, beta := float32s(r, 2, r.NormFloat64), float32s(r, 2, r.NormFloat64)
				beta[r.IntN(2)] = 0
				for what, run := range map[string]func(dst, src *tensor.Tensor){
					"instance": func(dst, src *tensor.Tensor) { norm.Instance(dst, src, gamma, beta, 1e-5) },
					"group":    func(dst, src *tensor.Tensor) { norm.Group(dst, src, 1, nil, beta, 1e-5) },
					"batch": func(dst, src *tensor.Tensor) {
						norm.Batch(dst, src, []float64{x.Data[0], 0}, []float64{0.5, 0.75}, gamma, nil, 0.25)
					},
				} {
					want := plainly(t, x, func(x *tensor.Tensor) { run(x, x) })
					dst := tensor.Like(x)
					run(dst, x)
					sameTensor(t, s.name+", "+what, dst, want)
					copy(dst.Data, x.Data)
					run(dst, dst)
					sameTensor(t, s.name+", "+what+" in place", dst, want)
				}
			}
		}
	}
}

// TestKernelSpecials: numbers and parameters that kernels must leave alone.
func TestKernelSpecials(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	odd := []float64{
		0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), math.Float64frombits(0xfff8000000000001),
		0x1p-149, -0x1p-149, 0x1p-126, 0x1p127, -0x1p127, 1, -1, 65504, 65519.99, 65520, 0x1p-24, 0x1p-25, 0x1p-14,
	}
	params := append([]float64{0x1p-450, 0x1p-1074, 0x1p-210, 0x1p210, 0x1p1000, 0x1p-1000, -0x1p-1022}, odd...)
	pick := func(from []float64) float64 { return from[r.IntN(len(from))] }
	for trial := range 4000 {
		f := formats[trial%4]
		x := tensor.New(f, 1, 2, 1, 9+r.IntN(20))
		if trial%5 == 0 {
			x = tensor.New(fp16.Float64, 1, 2, 1, 16) // only batch takes that
		}
		for i := range x.Data {
			x.Data[i] = pick(odd)
			if x.Format == fp16.Float64 {
				x.Data[i] = pick(params)
			} else if trial%3 == 0 {
				x.Data[i] = r.NormFloat64()
			}
			x.Data[i] = x.Format.Round(x.Data[i])
		}
		p := func() []float64 {
			v := []float64{pick(params), r.NormFloat64()}
			if trial%2 == 0 {
				v = []float64{0, 1}
			}
			return v
		}
		mean, variance, gamma, beta := p(), p(), p(), p()
		eps := []float64{0, 1e-5, 1, 0x1p-1074}[r.IntN(4)]
		run := func(x *tensor.Tensor) *tensor.Tensor {
			dst := tensor.New(f, 1, 2, 1, x.W())
			if x.Format == fp16.Float64 || trial%2 == 0 {
				norm.Batch(dst, x, mean, variance, gamma, beta, eps)
			} else {
				norm.Instance(dst, x, gamma, beta, eps)
			}
			return dst
		}
		var want *tensor.Tensor
		plainly(t, x, func(x *tensor.Tensor) { want = run(x) })
		sameTensor(t, "specials", run(x), want)
	}
}

// TestKernelUnderflow: a product below float64 keeps its sign.
func TestKernelUnderflow(t *testing.T) {
	for _, f := range []fp16.Format{fp16.Float32, fp16.Float64} {
		for _, sign := range []float64{1, -1} {
			src := tensor.New(f, 1, 1, 4, 4)
			mean := 0.0
			if f == fp16.Float64 {
				for i := range src.Data {
					src.Data[i] = sign * 0x1p-1074
				}
			} else {
				mean = -sign * 0x1p-1074
			}
			dst := tensor.New(fp16.Float32, 1, 1, 4, 4)
			norm.Batch(dst, src, []float64{mean}, []float64{1}, []float64{0.25}, nil, 0)
			for _, y := range dst.Data {
				if !same(y, math.Copysign(0, sign)) {
					t.Fatalf("%v: %x, want a zero of sign %v", f, y, sign)
				}
			}
		}
	}
}

// TestRan: the kernels note that they ran.
func TestRan(t *testing.T) {
	asm.Forget()
	x := tensor.New(fp16.Float32, 1, 1, 4, 4)
	norm.Instance(x, x, nil, nil, 1e-5)
	if got, want := slices.Contains(asm.Kernels(), "norm "+asm.ISA()), asm.ISA() != "purego"; got != want {
		t.Errorf("%v with %s: ran %v, want %v", asm.Kernels(), asm.ISA(), got, want)
	}
}
