package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// TestPowerRange: powers of all bases and exponents of two intervals are in their range, whose ends are among them.
func TestPowerRange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 4000 {
		x, rx := 3*r.NormFloat64(), math.Exp(4*r.NormFloat64()-4)
		z, rz := []float64{2, 3, -1, -2, 0, 5, 0.5, -0.3, 1}[n%9], 0.0
		if n%2 == 1 {
			rz = math.Exp(2*r.NormFloat64() - 6)
		}
		lo, hi := powers(x-rx, x+rx, z-rz, z+rz)
		least, most := math.Inf(1), math.Inf(-1)
		for i := range 41 {
			for j := range 11 {
				b, w := x+rx*float64(i-20)/20, z+rz*float64(j-5)/5
				for _, w := range []float64{w, max(z-rz, min(z+rz, math.Round(w)))} {
					if y := math.Pow(b, w); y == y {
						least, most = min(least, y), max(most, y)
						if slack := 1e-12 * math.Abs(y); !(y >= lo-slack && y <= hi+slack) {
							t.Fatalf("%v^%v is %v: want it from %v to %v, of %v within %v to %v within %v", b, w, y, lo, hi, x, rx, z, rz)
						}
					}
				}
			}
		}
		if rz == 0 && rx < math.Abs(x) &&
			(hi-most > .1*(hi-lo)+1e-12*math.Abs(hi) || least-lo > .1*(hi-lo)+1e-12*math.Abs(lo)) {
			t.Errorf("%v within %v to %v: from %v to %v: want %v to %v", x, rx, z, lo, hi, least, most)
		}
	}
}

// TestPowersOfNegativeBases: a whole power of what a kernel computed has a finite range, however its exponent is
// written, and a number outside of it is a violation.
func TestPowersOfNegativeBases(t *testing.T) {
	const rows, cols = 20, 30
	for _, n := range []float64{2, 3, -1, -2, 5} {
		for _, how := range []string{"number", "constant", "input", "computed"} {
			r := rand.New(rand.NewPCG(uint64(100+n), uint64(len(how))))
			x, c := drawn(r, fp16.Float32, rows, cols), 1.3
			g := graph.New(nil)
			base := g.Add(graph.Binary{Of: pointwise.Mul, Other: &c}, "base", g.Input("x"))
			in := []*tensor.Tensor{x}
			whole := func(v float64) *tensor.Tensor { return tensor.Of(fp16.Float32, []float64{v}, 1) }
			pow := graph.Binary{Of: pointwise.Pow}
			switch how {
			case "number":
				pow.Other = &n
				g.Outputs = []int{g.Add(pow, "power", base)}
			case "constant":
				g.Outputs = []int{g.Add(pow, "power", base, g.Constant("n", whole(n)))}
			case "input":
				in = append(in, whole(n))
				g.Outputs = []int{g.Add(pow, "power", base, g.Input("n"))}
			case "computed":
				in = append(in, whole(n+1))
				g.Outputs = []int{g.Add(pow, "power", base, g.Add(sub, "less", g.Input("n"), g.Constant("one", whole(1))))}
			}
			for _, wrong := range []float64{0, 0x1p-17, 0x1p-12} {
				out := tensor.New(fp16.Float32, rows, cols)
				for i, v := range x.Data {
					b := float64(float32(v) * float32(c))
					if out.Data[i] = float64(float32(math.Pow(b, n))); b < 0 {
						out.Data[i] = float64(float32(out.Data[i] * (1 + wrong)))
					}
				}
				a, err := Check(Question{Graph: g, Inputs: in, Output: out})
				if err != nil || (a.Verdict == Pass) != (wrong == 0) || wrong > 0 && a.Violations < rows*cols/3 {
					t.Errorf("x^%v, %s, off by %v: %+v, %v", n, how, wrong, a, err)
				}
			}
		}
	}
}

// TestPowersNearZero: of a base that may be 0 or below it a fractional power is a number or nothing, and of one whose
// reciprocal may be anything nothing is known.
func TestPowersNearZero(t *testing.T) {
	for _, c := range []struct {
		x, rx, z, y, e float64
		open           bool
	}{
		{1e-9, 1e-8, .5, math.Sqrt(1e-9), math.Sqrt(1.1e-8) - math.Sqrt(1e-9), false},
		{1e-9, 1e-8, -.5, math.Pow(1e-9, -.5), math.Inf(1), false},
		{-1e-9, 1e-8, .5, math.NaN(), math.Inf(1), true},
		{-1, .5, .5, math.NaN(), math.Inf(1), false},
		{0, .5, -1, math.Inf(1), math.Inf(1), true},
		{-1e-9, 1e-8, 2, 1e-18, 1.21e-16 - 1e-18, false},
		{-2, 1, 0, 1, 0, false},
	} {
		e, open := powerMoves(c.x, c.rx, c.z, 0, c.y)
		if !(math.Abs(e-c.e) <= 1e-5*c.e || e == c.e) || open != c.open {
			t.Errorf("%s: %v, %v", fmt.Sprint(c), e, open)
		}
	}
}
