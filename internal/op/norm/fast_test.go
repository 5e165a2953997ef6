package norm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// lineSum is docs/NUMERICS.md's sum of what f gives at so many pixels of a piece.
func lineSum(pixels int, f func(x int, a float64) float64) float64 {
	var a [4]float64
	for x := range pixels {
		k := x % 4
		if x >= pixels/4*4 {
			k = x - pixels/4*4
		}
		a[k] = f(x, a[k])
	}
	return (a[0] + a[1]) + (a[2] + a[3])
}

// pairwise adds 2^k numbers two by two.
func pairwise(s []float64) float64 {
	if len(s) == 1 {
		return s[0]
	}
	return pairwise(s[:len(s)/2]) + pairwise(s[len(s)/2:])
}

// partSum adds the sums of pieces: groups of a power of two each, the largest first, two by
// two, and then from the last group to the first.
func partSum(pieces []float64) (sum float64) {
	for n := len(pieces); n > 0; n = len(pieces) {
		least := n & -n
		sum += pairwise(pieces[n-least:])
		pieces = pieces[:n-least]
	}
	return sum
}

// statistics returns the pivot, mean less pivot and variance of channels of a sample, as
// docs/NUMERICS.md, section 13, has them.
func statistics(x *tensor.Tensor, n, from, to int, eps float64) (pivot, m, v float64) {
	h, w := x.H(), x.W()
	for c := from; c < to; c++ {
		middle := x.Plane(n, c)[h/2*w:][:w]
		pivot += lineSum(w, func(i int, a float64) float64 { return a + middle[i] })
	}
	pivot = float64(float32(pivot / float64((to-from)*w)))
	var s, q float64
	for c := from; c < to; c++ {
		for part := range 8 {
			var sums, squares []float64
			for y := h * part / 8; y < h*(part+1)/8; y++ {
				for at := 0; at < w; at += 64 {
					line := x.Plane(n, c)[y*w+at:][:min(64, w-at)]
					sums = append(sums, lineSum(len(line), func(i int, a float64) float64 { return a + (line[i] - pivot) }))
					squares = append(squares, lineSum(len(line),
						func(i int, a float64) float64 { d := line[i] - pivot; return math.FMA(d, d, a) }))
				}
			}
			s += partSum(sums)
			q += partSum(squares)
		}
	}
	count := float64((to - from) * h * w)
	m = s / count
	return pivot, m, (q/count - float64(m*m)) + eps
}

// fastLine is the line of a channel.
func fastLine(x, pivot, m, v, gamma, beta float64) float64 {
	slope := gamma / math.Sqrt(v)
	return float64(single.FMA(float32(x)-float32(pivot), float32(slope), float32(beta-float64(m*slope))))
}

// cancelling fills each image with numbers of many sizes and their opposites in any order,
// but its middle line with zeros.
func cancelling(r *rand.Rand, x *tensor.Tensor) {
	w, middle := x.W(), x.H()/2*x.W()
	for i := range x.N() * x.C() {
		plane := x.Plane(i/x.C(), i%x.C())
		var all []float64
		for len(all)+2 <= len(plane)-w {
			v := fp16.Float32.Round(math.Ldexp(r.NormFloat64(), r.IntN(60)))
			all = append(all, v, -v)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		clear(plane)
		copy(plane[middle+w:], all[copy(plane[:middle], all):])
	}
}

// TestFastDefinition holds norms in fast arithmetic, on every instruction set and in plain
// Go, to docs/NUMERICS.md, section 13, and to four units of the exact norm's.
func TestFastDefinition(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(27, 3))
	for _, c := range []struct {
		n, c, h, w, groups int
		order              bool
	}{{1, 1, 1, 1, 1, false}, {2, 16, 16, 16, 16, false}, {1, 12, 5, 67, 3, false}, {2, 9, 33, 130, 9, false},
		{1, 10, 7, 9, 1, false}, {1, 24, 3, 200, 2, false}, {1, 8, 160, 160, 1, false},
		{1, 8, 40, 130, 8, true}, {1, 12, 17, 70, 3, true}} {
		x := tensor.New(fp16.Float32, c.n, c.c, c.h, c.w)
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(3 + 2*r.NormFloat64())
		}
		if c.order { // sums that cancel, around a line of zeros, which show the mean
			cancelling(r, x)
		}
		var gamma, beta, mean, variance []float64
		for range c.c {
			gamma, beta = append(gamma, fp16.Float32.Round(1+r.NormFloat64()/4)),
				append(beta, fp16.Float32.Round(r.NormFloat64()))
			if c.order {
				beta[len(beta)-1] = 0
			}
			mean, variance = append(mean, fp16.Float32.Round(3+r.NormFloat64()/4)),
				append(variance, fp16.Float32.Round(3+r.Float64()))
		}
		const eps = 1e-5
		per, area := c.c/c.groups, c.h*c.w
		group, batch := tensor.Like(x), tensor.Like(x)
		for i := 0; i < len(x.Data); i += area {
			n, k := i/area/c.c, i/area%c.c
			pivot, m, spread := statistics(x, n, k/per*per, (k/per+1)*per, eps)
			for j, v := range x.Data[i:][:area] {
				group.Data[i+j] = fastLine(v, pivot, m, spread, gamma[k], beta[k])
				batch.Data[i+j] = fastLine(v, mean[k], 0, variance[k]+eps, gamma[k], beta[k])
			}
		}
		exact := tensor.Like(x)
		norm.Group(exact, x, c.groups, gamma, beta, eps)
		for _, isa := range asm.ISAs() {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s, %+v", isa, c)
			y := tensor.Like(x)
			norm.GroupFast(y, x, c.groups, gamma, beta, eps)
			equal(t, name, y, group)
			for i, v := range y.Data {
				// Two roundings of a product beside the offset, and those of slope and offset.
				if k := i / area % c.c; c.n*area > 1 && math.Abs(v-exact.Data[i]) > 0x1p-22*(math.Abs(v)+2*math.Abs(beta[k])+1) {
					t.Fatalf("%s: %v at %d, exactly %v", name, v, i, exact.Data[i])
				}
			}
			norm.BatchFast(y, x, mean, variance, gamma, beta, eps)
			equal(t, name+", batch", y, batch)
		}
	}
}

func equal(t *testing.T, name string, y, want *tensor.Tensor) {
	t.Helper()
	for i, v := range want.Data {
		if y.Data[i] != v && (v == v || y.Data[i] == y.Data[i]) {
			t.Fatalf("%s: %v at %d, want %v", name, y.Data[i], i, v)
		}
	}
}

// TestFastUnusual: channels for which float32 is too narrow are exact, beside others that
// are not.
func TestFastUnusual(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(27, 4))
	x := tensor.New(fp16.Float32, 1, 8, 4, 9)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(r.NormFloat64())
	}
	x.Plane(0, 1)[5] = math.Inf(1)
	x.Plane(0, 2)[7] = math.NaN()
	clear(x.Plane(0, 3))                             // no variance, and no eps
	x.Plane(0, 4)[3] = fp16.Float32.Largest()        // its square is beyond what is sure
	gamma := []float64{1, 1, 1, 1, 1, 0, 0x1p110, 1} // 0 and large
	beta := []float64{0, 0, 0, 3, 0, 5, 0, 0}
	exact, unlike := tensor.Like(x), 0
	norm.Instance(exact, x, gamma, beta, 0)
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		y := tensor.Like(x)
		norm.GroupFast(y, x, 8, gamma, beta, 0)
		for c := range 8 {
			for i, v := range y.Plane(0, c) {
				if w := exact.Plane(0, c)[i]; v == w || v != v && w != w {
					continue
				}
				if unlike++; c >= 1 && c <= 6 {
					t.Errorf("%s: channel %d: %v, want the exact %v", isa, c, v, exact.Plane(0, c)[i])
				}
			}
		}
	}
	if unlike == 0 {
		t.Error("everything is exact")
	}
}
