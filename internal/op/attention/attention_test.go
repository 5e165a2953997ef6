package attention

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par/partest"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("elements", 2000, "results to judge")

// TestMain runs all tests once for every instruction set of this CPU.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" {
		os.Exit(m.Run())
	}
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			panic(err)
		}
		if code := m.Run(); code != 0 {
			fmt.Println("with --isa", isa)
			os.Exit(code)
		}
	}
}

// weigh returns the weights of keys, up to a factor, and their sum, as two float64 know them.
func weigh(scale float64, q []float64, keys [][]float64, added []float64) (weights []bigref.Ball, sum bigref.Ball) {
	greatest := math.Inf(-1)
	for j, k := range keys {
		z := bigref.Ball{}
		for e := range q {
			z = z.Add(bigref.Exactly(q[e]).Mul(bigref.Exactly(k[e])))
		}
		weights = append(weights, z.Mul(bigref.Exactly(scale)).Add(bigref.Exactly(added[j])))
		greatest = max(greatest, weights[j].Hi)
	}
	for j := range weights {
		weights[j] = weights[j].Sub(bigref.Exactly(greatest)).Exp()
		sum = sum.Add(weights[j])
	}
	return weights, sum
}

// judge returns a result by rationals and as many bits as it takes: of one query, the keys
// that take part, what is added to each, and their values.
func judge(f fp16.Format, scale float64, q []float64, keys [][]float64, added, values []float64) float64 {
	if len(keys) == 0 {
		return 0
	}
	z := make([]*big.Rat, len(keys))
	greatest := (*big.Rat)(nil)
	sums, counts := map[string]*big.Rat{}, map[string]int64{}
	for j, k := range keys {
		z[j] = new(big.Rat)
		for e := range q {
			z[j].Add(z[j], new(big.Rat).Mul(bigref.Rat(q[e]), bigref.Rat(k[e])))
		}
		z[j].Add(z[j].Mul(z[j], bigref.Rat(scale)), bigref.Rat(added[j]))
		if greatest == nil || z[j].Cmp(greatest) > 0 {
			greatest = z[j]
		}
		name := z[j].String()
		if sums[name] == nil {
			sums[name] = new(big.Rat)
		}
		sums[name].Add(sums[name], bigref.Rat(values[j]))
		counts[name]++
	}
	var mean *big.Rat
	same := true
	for name, sum := range sums {
		m := new(big.Rat).Quo(sum, big.NewRat(counts[name], 1))
		same = same && (mean == nil || m.Cmp(mean) == 0)
		mean = m
	}
	if same {
		return bigref.Round(mean, f)
	}
	return bigref.Nearest(f, func(prec uint) *big.Float {
		w := prec + 256 // some of it may cancel
		most := math.MinInt
		above, below := new(big.Float).SetPrec(w), new(big.Float).SetPrec(w)
		for j := range z {
			e := bigref.Exp(new(big.Float).SetPrec(w+64).SetRat(new(big.Rat).Sub(z[j], greatest)), w)
			below.Add(below, e)
			term := new(big.Float).SetPrec(w).Mul(e, new(big.Float).SetFloat64(values[j]))
			if above.Add(above, term); term.Sign() != 0 {
				most = max(most, term.MantExp(nil))
			}
		}
		if above.Sign() == 0 || above.MantExp(nil) < most-190 {
			panic("the judge works with too few bits")
		}
		return above.Quo(above, below)
	})
}

// kinds of numbers: of query and key, and of values.
var kinds = []struct {
	name    string
	of, val func(r *rand.Rand) float64
}{
	{"random", normal(1), normal(1)},
	{"cancelling", normal(0.001),
		func(r *rand.Rand) float64 { return float64(1-2*r.IntN(2)) * (1 + 0x1p-20*r.Float64()) }},
	{"ties", func(r *rand.Rand) float64 { return float64(r.IntN(2)) },
		func(r *rand.Rand) float64 { return 1 + float64(r.IntN(2))*0x1p-7 }},
	{"equal", func(*rand.Rand) float64 { return 0 }, func(r *rand.Rand) float64 { return 1 + float64(r.IntN(4))*0x1p-10 }},
	{"sharp", normal(12), normal(1)},
	{"wide", normal(2), func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(36)-24) }},
	{"subnormal", normal(1), func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), -128-r.IntN(20)) }},
	{"smallest", normal(0x1p-70), normal(1)},
	{"pairs", normal(1), nil}, // of equal keys, the mean of whose values is a tie
}

func normal(scale float64) func(r *rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return scale * r.NormFloat64() }
}

func fill(f fp16.Format, of func() float64, shape ...int) *tensor.Tensor {
	t := tensor.New(f, shape...)
	for i := range t.Data {
		t.Data[i] = f.Round(of())
	}
	return t
}

func TestJudge(t *testing.T) {
	r, o := rand.New(rand.NewPCG(7, 8)), hashed.New(t, *elements)
	checked := 0
	for round := 0; checked < *elements; round++ {
		kind := kinds[round%len(kinds)]
		f := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16}[round/len(kinds)%3]
		n, l, s, e, v := 1+r.IntN(2), 1+r.IntN(5), 1+r.IntN(9), 1+r.IntN(6), 1+r.IntN(6)
		if round%7 == 0 {
			s += 130 // more than a block of products
		}
		q := fill(f, func() float64 { return kind.of(r) }, n, l, e)
		k := fill(f, func() float64 { return kind.of(r) }, n, s, e)
		pairs, val := kind.val == nil, (*tensor.Tensor)(nil)
		if pairs {
			s = (s + 1) / 2 * 2
			k, val = tensor.New(f, n, s, e), tensor.New(f, n, s, v)
			for i := range n * s {
				for c := range e {
					if k.Data[i*e+c] = f.Round(kind.of(r)); i%2 == 1 {
						k.Data[i*e+c] = k.Data[(i-1)*e+c]
					}
				}
				for c := range v {
					val.Data[i*v+c] = 1 + float64(i%2)*map[fp16.Format]float64{
						fp16.Float32: 0x1p-23, fp16.Float16: 0x1p-10, fp16.BFloat16: 0x1p-7,
					}[f]
				}
			}
		} else {
			val = fill(f, func() float64 { return kind.val(r) }, n, s, v)
		}
		p := Params{Causal: !pairs && r.IntN(4) == 0}
		scale := 1 / math.Sqrt(float64(e))
		if r.IntN(3) == 0 {
			scale = 4 * r.NormFloat64()
			p.Scale = &scale
		}
		which := r.IntN(4)
		if pairs {
			which = -1
		}
		switch which {
		case 0:
			p.Mask = fill(fp16.Int64, func() float64 { return float64(r.IntN(2)) }, l, s)
		case 1:
			p.Mask = fill(f, func() float64 {
				return []float64{0, math.Inf(-1), -1e4, r.NormFloat64()}[r.IntN(4)]
			}, 1, 1, s)
		}
		dst := tensor.New(f, n, l, v)
		Forward(dst, q, k, val, p)
		o.Add("attention", dst.Data...)
		if checked += len(dst.Data); !o.Judge {
			continue
		}
		var keys [][]float64 // of the query
		var added []float64
		var columns []int // in val, from the key's first
		var weights []bigref.Ball
		var below bigref.Ball
		for i := range dst.Data {
			b, at, c := i/(l*v), i/v%l, i%v
			if c == 0 {
				keys, added, columns = nil, nil, nil
			}
			for j := range s {
				if c > 0 {
					break
				}
				add := 0.0
				if p.Mask != nil {
					add = p.Mask.Data[(at*s+j)%len(p.Mask.Data)]
					if p.Mask.Format == fp16.Int64 {
						add = math.Log(add) // 0 or -Inf
					}
				}
				if p.Causal && j > at || math.IsInf(add, -1) {
					continue
				}
				keys, added, columns = append(keys, k.Data[(b*s+j)*e:][:e]), append(added, add), append(columns, (b*s+j)*v)
			}
			query := q.Data[(b*l+at)*e:][:e]
			if c == 0 {
				weights, below = weigh(scale, query, keys, added)
			}
			var values []float64
			above := bigref.Ball{}
			for j, first := range columns {
				values = append(values, val.Data[first+c])
				above = above.Add(weights[j].Mul(bigref.Exactly(values[j])))
			}
			want := above.Quo(below).Or(f, func() float64 { return judge(f, scale, query, keys, added, values) })
			if got := dst.Data[i]; math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s %v round %d element %d: %v, want %v", kind.name, f, round, i, got, want)
			}
		}
	}
}

// TestFloat64: the order of the package's doc.
func TestFloat64(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const l, s, e, v = 3, 150, 5, 4
	of := func() float64 { return r.NormFloat64() }
	q, k, val, mask := fill(fp16.Float64, of, l, e), fill(fp16.Float64, of, s, e), fill(fp16.Float64, of, s, v),
		fill(fp16.Float64, of, l, s)
	val.Data[3] = math.Inf(1) // of a key that takes no part
	mask.Data[0] = math.Inf(-1)
	dst := tensor.New(fp16.Float64, l, v)
	Forward(dst, q, k, val, Params{Mask: mask})
	for i := range l {
		z, greatest := make([]float64, s), math.Inf(-1)
		for j := range z {
			sum := 0.0
			for c := range e {
				sum += float64(q.Data[i*e+c] * k.Data[j*e+c])
			}
			z[j] = float64(sum*(1/math.Sqrt(e))) + mask.Data[i*s+j]
			greatest = max(greatest, z[j])
		}
		for c := range v {
			above, below := 0.0, 0.0
			for j := range z {
				w := weight(z[j], greatest)
				if below += w; z[j] > math.Inf(-1) {
					above += float64(w * val.Data[j*v+c])
				}
			}
			if got, want := dst.Data[i*v+c], above/below; math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("%d, %d: %v, want %v", i, c, got, want)
			}
		}
	}
}

func TestSpecials(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float64} {
		of := func(v ...float64) *tensor.Tensor {
			return &tensor.Tensor{Shape: []int{len(v), 1}, Format: f, Data: v}
		}
		line := func(g fp16.Format, v ...float64) *tensor.Tensor {
			return &tensor.Tensor{Shape: []int{1, len(v)}, Format: g, Data: v}
		}
		for i, c := range []struct {
			q, k, v *tensor.Tensor
			mask    *tensor.Tensor
			want    float64
		}{
			{of(1), of(1, 2), of(3, 4), line(f, -inf, -inf), 0},
			{of(1), of(1, 2), of(nan, 4), line(f, -inf, 0), 4},
			{of(1), of(nan, 2), of(3, inf), line(fp16.Int64, 0, 1), inf},
			{of(1), of(nan, 2), of(3, 4), nil, nan},
			{of(1), of(inf, 2), of(3, 4), nil, nan},
			{of(1), of(-inf, 2), of(nan, 4), nil, 4},
			{of(-inf), of(1, 2), of(3, 4), nil, 0},
			{of(inf), of(0, 1), of(3, 4), nil, nan},
			{of(1), of(1, 2), of(inf, 4), nil, inf},
			{of(1), of(1, 2), of(inf, -inf), nil, nan},
			{of(1), of(1, 2), of(3, 4), line(f, inf, 0), nan},
			{of(1), of(1, 2), of(3, 4), line(f, nan, 0), nan},
			{of(0), of(1, 2), of(math.Copysign(0, -1), math.Copysign(0, -1)), nil, 0},
			{of(1), of(1, -1e9), of(3, 4), nil, 3},
		} {
			dst := tensor.New(f, 1, 1)
			Forward(dst, c.q, c.k, c.v, Params{Mask: c.mask})
			if got := dst.Data[0]; math.Float64bits(got) != math.Float64bits(f.Round(c.want)) {
				t.Errorf("%v, case %d: %v, want %v", f, i, got, c.want)
			}
		}
		dst := fill(f, func() float64 { return 5 }, 2, 1)
		Forward(dst, of(1, 2), tensor.New(f, 0, 1), tensor.New(f, 0, 1), Params{})
		if dst.Data[0] != 0 || dst.Data[1] != 0 {
			t.Errorf("no keys: %v", dst.Data)
		}
	}
}

// TestUnderflow: what is too small for every format keeps its sign, also where all weights that it could be read off
// are 0 in float64.
func TestUnderflow(t *testing.T) {
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		q, k, v, dst := tensor.New(f, 1, 1), tensor.New(f, 2, 1), tensor.New(f, 2, 1), tensor.New(f, 1, 1)
		q.Data[0], k.Data[1], v.Data[1] = 1, -1000, -1 // the output is about -e^-1000
		Forward(dst, q, k, v, Params{})
		if got := dst.Data[0]; got != 0 || !math.Signbit(got) {
			t.Errorf("%v: %v, want -0", f, got)
		}
	}
}

// TestLargeMask: the least number of float32 as a mask leaves scores that count where every
// key has it.
func TestLargeMask(t *testing.T) {
	q, k, v := tensor.New(fp16.Float32, 1, 1), tensor.New(fp16.Float32, 2, 1), tensor.New(fp16.Float32, 2, 1)
	q.Data[0], k.Data[1], v.Data[1] = 1, 1, 1
	mask := tensor.New(fp16.Float32, 1, 1)
	mask.Data[0] = -math.MaxFloat32
	dst := tensor.New(fp16.Float32, 1, 1)
	Forward(dst, q, k, v, Params{Mask: mask})
	if want := float64(float32(1 / (1 + math.Exp(-1)))); dst.Data[0] != want {
		t.Errorf("%v, want %v", dst.Data[0], want)
	}
}

// TestThreads: neither threads nor the division into matrices change a bit.
func TestThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	of := func() float64 { return r.NormFloat64() }
	q, k, v := fill(fp16.Float32, of, 3, 2, 70, 16), fill(fp16.Float32, of, 1, 2, 90, 16),
		fill(fp16.Float32, of, 1, 2, 90, 24)
	var want *tensor.Tensor
	defer partest.Changing()()
	for range 6 {
		dst := tensor.New(fp16.Float32, 3, 2, 70, 24)
		Forward(dst, q, k, v, Params{})
		if want == nil {
			want = dst
		}
		for i, x := range want.Data {
			if dst.Data[i] != x {
				t.Fatalf("element %d: %v, not %v", i, dst.Data[i], x)
			}
		}
	}
	for m := range 6 {
		dst := tensor.New(fp16.Float32, 70, 24)
		slice := func(t *tensor.Tensor, i, rows, cols int) *tensor.Tensor {
			return &tensor.Tensor{Shape: []int{rows, cols}, Format: t.Format, Data: t.Data[i*rows*cols:][:rows*cols]}
		}
		Forward(dst, slice(q, m, 70, 16), slice(k, m%2, 90, 16), slice(v, m%2, 90, 24), Params{})
		for i, x := range dst.Data {
			if want.Data[m*70*24+i] != x {
				t.Fatalf("matrix %d alone: element %d: %v, not %v", m, i, x, want.Data[m*70*24+i])
			}
		}
	}
}

func BenchmarkForward(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	of := func() float64 { return r.NormFloat64() }
	q, k, v := fill(fp16.Float32, of, 12, 197, 64), fill(fp16.Float32, of, 12, 197, 64),
		fill(fp16.Float32, of, 12, 197, 64)
	dst := tensor.New(fp16.Float32, 12, 197, 64)
	for b.Loop() {
		Forward(dst, q, k, v, Params{})
	}
}
