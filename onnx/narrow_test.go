package onnx

import (
	"flag"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// nearestOf returns the number of a type next to v, found by looking at all of them: of two as
// near the one with an even last bit. It knows nothing of infinities and NaN.
func nearestOf(d DType, v float64) float64 {
	m := minis[d]
	best, at, even := math.Inf(1), 0.0, false
	for bits := range 1 << m.Bits() {
		x := m.Decode(uint8(bits))
		if x-x != 0 {
			continue
		}
		if far := math.Abs(x - v); far < best || far == best && !even && bits&1 == 0 {
			best, at, even = far, x, bits&1 == 0
		}
	}
	return at
}

// TestNarrow: all float16 numbers in all types of 8 bits and fewer, against a search.
func TestNarrow(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	x := tensor.FromBits(fp16.Float16, all, len(all))
	for d, m := range minis {
		if d == Float8E8M0 {
			continue
		}
		near := make([]float64, len(all))
		for i, v := range x.Data {
			near[i] = nearestOf(d, v)
		}
		for _, saturate := range []bool{true, false} {
			g := graph.New(new(graph.Kept))
			g.Outputs = []int{g.Add(narrow{to: d, saturate: saturate}, "y", g.Input("x"))}
			p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: x.Shape, Format: x.Format})
			if err != nil {
				t.Fatal(err)
			}
			y, err := p.Run(new(graph.Run), x)
			if err != nil {
				t.Fatal(err)
			}
			largest := m.Largest()
			// Beyond the middle of the greatest number and what would follow, in a format
			// without an end, it is too great.
			top := largest + math.Ldexp(1, int(math.Floor(math.Log2(largest)))-m.Mantissa()-1)
			for i, v := range x.Data {
				got, want := y[0].Data[i], 0.0
				over := math.Abs(v) > top || math.Abs(v) == top && d != Float8E4M3 // whose last bit is even there
				switch {
				case v != v && d == Float4E2M1:
				case v != v:
					want = math.NaN()
				case !over:
					want = near[i]
				case saturate || d == Float4E2M1:
					want = math.Copysign(largest, v)
				case d == Float8E5M2:
					want = math.Inf(int(math.Copysign(1, v)))
				default:
					want = math.NaN()
				}
				if got != want && (got == got || want == want) {
					t.Fatalf("%v saturated %v: %v becomes %v, want %v", d, saturate, v, got, want)
				}
			}
		}
	}
}

// TestPowers: powers of 2 alone.
func TestPowers(t *testing.T) {
	for _, c := range []struct {
		v        float64
		saturate bool
		rounding string
		want     float64
	}{
		{1, true, "up", 1}, {1.01, true, "up", 2}, {1.99, true, "down", 1}, {1.49, true, "nearest", 1},
		{1.5, true, "nearest", 2},
		{0, true, "up", 0x1p-127}, {0, false, "up", math.NaN()}, {-1, true, "up", math.NaN()},
		{math.Inf(1), true, "up", 0x1p127},
		{math.Inf(1), false, "up", math.NaN()}, {0x1p-140, true, "down", 0x1p-127},
	} {
		if got := (narrow{Float8E8M0, c.saturate, c.rounding}).power(c.v); got != c.want && (got == got || c.want == c.want) {
			t.Errorf("%v %v %s: %v, want %v", c.v, c.saturate, c.rounding, got, c.want)
		}
	}
}

// middles returns numbers x and scales whose quotients, or those plus a zero point, are at the
// middle of two neighbours of a type, or beside it.
func middles(r *rand.Rand, d DType) (x, scale, zero float64) {
	m := minis[d]
	var all []float64
	for bits := range 1 << (m.Bits() - 1) {
		if v := m.Decode(uint8(bits)); v-v == 0 {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	k := r.IntN(len(all) - 1)
	middle := (all[k] + all[k+1]) / 2
	if r.IntN(2) == 0 {
		middle = -middle
	}
	if r.IntN(3) == 0 {
		zero = all[r.IntN(len(all))]
	}
	scale = float64(float32(math.Ldexp(1+r.Float64(), r.IntN(60)-30)))
	if r.IntN(8) == 0 {
		scale = math.Ldexp(1, r.IntN(20)-10)
	}
	v := float32((middle - zero) * scale)
	for range r.IntN(3) {
		v = math.Nextafter32(v, float32(math.Inf(r.IntN(2)*2-1)))
	}
	return float64(v), scale, zero
}

var quotients = flag.Int("onnx.quotients", 4000, "quotients of each type that the judge sees")

// TestNarrowQuotients: quotients near the middle of two numbers of a type are rounded once, by
// fractions.
func TestNarrowQuotients(t *testing.T) {
	twice, o := 0, hashed.New(t, *quotients)
	for _, d := range slices.Sorted(maps.Keys(minis)) {
		m := minis[d]
		if d == Float8E8M0 {
			continue
		}
		r, n := rand.New(rand.NewPCG(41, uint64(d))), *quotients
		in := [3]*tensor.Tensor{}
		for k := range in {
			in[k] = tensor.New(fp16.Float32, n)
		}
		for i := range n {
			in[0].Data[i], in[1].Data[i], in[2].Data[i] = middles(r, d)
		}
		g := graph.New(new(graph.Kept))
		g.Outputs = []int{g.Add(narrow{to: d, saturate: true}, "y", g.Input("x"), g.Input("scale"), g.Input("zero"))}
		of := graph.Type{Shape: []int{n}, Format: fp16.Float32}
		p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, of, of, of)
		if err != nil {
			t.Fatal(err)
		}
		y, err := p.Run(new(graph.Run), in[:]...)
		if err != nil {
			t.Fatal(err)
		}
		o.Add(d.String(), y[0].Data...)
		if !o.Judge {
			continue
		}
		for i, got := range y[0].Data {
			if !o.Sees(i, int(d)) {
				continue
			}
			want := ratNearest(m, in[0].Data[i], in[1].Data[i], in[2].Data[i])
			if got != want {
				t.Fatalf("%v: %v/%v + %v is %v, want %v", d, in[0].Data[i], in[1].Data[i], in[2].Data[i], got, want)
			}
			before := float64(float32(in[0].Data[i] / in[1].Data[i]))
			if (narrow{to: d, saturate: true}).round(m, before+in[2].Data[i]) != want {
				twice++
			}
		}
	}
	if twice < 12 && o.Judge {
		t.Errorf("only %d results differ from those of a quotient that is rounded first", twice)
	}
}

// ratNearest is the number of a type next to x/scale + zero, of two the even one, the greatest
// beyond it.
func ratNearest(m fp16.Narrow, x, scale, zero float64) float64 {
	of := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	v := of(x)
	v.Quo(v, of(scale)).Add(v, of(zero))
	var best *big.Rat
	at, even := 0.0, false
	for bits := range 1 << m.Bits() {
		c := m.Decode(uint8(bits))
		if c-c != 0 {
			continue
		}
		far := new(big.Rat).Sub(of(c), v)
		far.Abs(far)
		if s := -1; best != nil {
			if s = far.Cmp(best); s > 0 || s == 0 && (even || bits&1 != 0) {
				continue
			}
		}
		best, at, even = far, c, bits&1 == 0
	}
	return at
}
