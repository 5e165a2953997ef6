package matmul

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/tensor"
)

// ranWhole reports whether a product since asm.Forget was one of whole numbers.
func ranWhole() bool {
	return slices.ContainsFunc(asm.Kernels(),
		func(name string) bool { return strings.HasPrefix(name, "product of whole numbers") })
}

// TestWholeProducts: products of whole numbers in float64 have the bits of their definition, in every layout, with what
// is no whole number, too large, or not finite among them; the sums that fit 32 bits, and those alone, go the short
// way.
func TestWholeProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	fits, others := 0, 0
	for trial := range 600 {
		batch, m, k, n := 1+r.IntN(3)*(trial%2), 1+r.IntN(18), 1+r.IntN(40)*(1+trial%7), 1+r.IntN(40)
		most := []int{255, 127, 1, 32767, 20000}[trial%5]
		a, b := tensor.New(fp16.Float64, batch, m, k), tensor.New(fp16.Float64, batch, k, n)
		for _, x := range [][]float64{a.Data, b.Data} {
			for i := range x {
				x[i] = float64(r.IntN(2*most+1) - most)
			}
		}
		a.Data[r.IntN(len(a.Data))] = math.Copysign(0, -1)
		short := float64(most)*float64(most)*float64(k+k%2) < 1<<31
		if trial%3 == 0 {
			odd := []float64{0.5, 32768, -32768, math.Inf(1), math.NaN(), 1 << 40, math.MaxFloat64}[trial/3%7]
			x := [][]float64{a.Data, b.Data}[trial/3%2]
			x[r.IntN(len(x))], short = odd, false
		}
		want := make([]float64, 0, batch*m*n)
		for i := range batch * m * n {
			sum := 0.0
			for t := range k {
				sum += float64(a.Data[i/n*k+t] * b.Data[(i/n/m*k+t)*n+i%n])
			}
			want = append(want, fp16.Float64.Round(sum))
		}
		c, pieces := tensor.New(fp16.Float64, batch, m, n), make([]int, batch*m*n)
		then := func(at, n int) {
			for i := range n {
				pieces[at+i]++
			}
		}
		asm.Forget()
		turned := tensor.New(fp16.Float64, batch, n, k)
		for i, v := range b.Data {
			turned.Data[(i/n/k*n+i%n)*k+i/n%k] = v
		}
		switch {
		case batch == 1 && trial%4 > 1:
			right, trans := tensor.Of(fp16.Float64, b.Data, k, n), trial%4 == 3
			if trans {
				right = tensor.Of(fp16.Float64, turned.Data, n, k)
			}
			NewKernel(right, trans, nil).ForwardThen(c, a, then)
		case trial%4 == 0:
			Forward(c, a, turned, Params{TransB: true, Then: then})
		default:
			Forward(c, a, b, Params{Then: then})
		}
		for i, got := range c.Data {
			if math.Float64bits(got) != math.Float64bits(want[i]) && (got == got || want[i] == want[i]) || pieces[i] != 1 {
				t.Fatalf("trial %d, %d of %d x %d x %d: number %d is %v, want %v; it was called %d times",
					trial, batch, m, k, n, i, got, want[i], pieces[i])
			}
		}
		if asm.WholeKernels() == nil {
			continue
		}
		if got := ranWhole(); batch == 1 && got != short || got && !short {
			t.Fatalf("trial %d, %d of %d x %d x %d, numbers up to %d: the short way is %v, want %v",
				trial, batch, m, k, n, most, got, short)
		} else if got {
			fits++
		} else {
			others++
		}
	}
	if asm.WholeKernels() != nil && (fits < 100 || others < 100) {
		t.Errorf("%d products the short way, %d not: both should happen", fits, others)
	}
}

// TestWholeAllocates: a product of whole numbers takes no memory once it has it.
func TestWholeAllocates(t *testing.T) {
	a, b, c := tensor.New(fp16.Float64, 5, 30), tensor.New(fp16.Float64, 30, 20), tensor.New(fp16.Float64, 5, 20)
	s, k := NewSpace(), NewKernel(b, false, nil)
	for name, f := range map[string]func(){
		"product": func() { s.Forward(c, a, b, Params{}) }, "kernel": func() { s.Apply(c, a, k) },
	} {
		f()
		if n := testing.AllocsPerRun(20, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
