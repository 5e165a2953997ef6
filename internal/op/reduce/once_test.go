package reduce

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// onceOf are the functions of a line that frameworks round more than once, by name, and what
// the judge says of them: a ball, and fractions where it does not tell.
type onceOf struct {
	*moments
	line          []float64
	sum           bigref.Ball
	n             bigref.Ball
	old, momentum float64
	eps           float64
}

func (o *onceOf) ratN() *big.Rat { return big.NewRat(int64(len(o.line)), 1) }

// logSum is ln of the sum, by bigref's own logarithm.
func (o *onceOf) logSum(f fp16.Format) float64 {
	sum := exactSum(o.line)
	switch {
	case sum.Sign() < 0:
		return fp16.NaN
	case sum.Sign() == 0:
		return math.Inf(-1)
	case sum.Cmp(big.NewRat(1, 1)) == 0:
		return 0
	}
	if v, _ := sum.Float64(); v > 0.9 && v < 1.1 { // between d - d^2/2 and d
		d := new(big.Rat).Sub(sum, big.NewRat(1, 1))
		if size, _ := d.Float64(); math.Abs(size) < 0x1p-100 {
			return bigref.Round(new(big.Rat).Sub(d, new(big.Rat).Mul(big.NewRat(1, 2), new(big.Rat).Mul(d, d))), f)
		}
	}
	return o.sum.Log().Or(f, func() float64 {
		return bigref.Nearest(f, func(prec uint) *big.Float {
			return bigref.Log(new(big.Float).SetPrec(prec+1000).SetRat(sum), prec+300)
		})
	})
}

func (o *onceOf) inverseStd(f fp16.Format) float64 {
	v := o.about.Quo(o.n).Add(bigref.Exactly(o.eps)).Sqrt()
	return bigref.Exactly(1).Quo(v).Or(f, func() float64 {
		r := new(big.Rat).Quo(o.exactly().about, o.ratN())
		r.Add(r, bigref.Rat(o.eps))
		if r.Sign() == 0 {
			return math.Inf(1)
		}
		return rootOf(r.Inv(r), f)
	})
}

func (o *onceOf) running(now bigref.Ball, slowly func() *big.Rat, f fp16.Format) float64 {
	m, old := bigref.Exactly(o.momentum), bigref.Exactly(o.old)
	return m.Mul(old).Add(bigref.Exactly(1).Sub(m).Mul(now)).Or(f, func() float64 {
		share := bigref.Rat(o.momentum)
		y := new(big.Rat).Mul(share, bigref.Rat(o.old))
		share.Sub(big.NewRat(1, 1), share)
		return bigref.Round(y.Add(y, share.Mul(share, slowly())), f)
	})
}

func (o *onceOf) normalized(x float64, order int, f fp16.Format) float64 {
	norm := o.sizes
	if order == 2 {
		norm = o.squares.Sqrt()
	}
	if x == 0 && o.exactly().sizes.Sign() != 0 {
		return x
	}
	return bigref.Exactly(x).Quo(norm).Or(f, func() float64 {
		e := o.exactly()
		if e.sizes.Sign() == 0 {
			return 0
		}
		q := bigref.Rat(x)
		if order == 1 {
			return math.Copysign(bigref.Round(q.Quo(q, e.sizes), f), x)
		}
		q.Mul(q, q)
		return math.Copysign(rootOf(q.Quo(q, e.squares), f), x)
	})
}

// TestOnce: sums of squares, logarithms of sums, the inverse of a deviation, running
// statistics and numbers over their norm are the judge's: each is rounded once.
func TestOnce(t *testing.T) {
	o := hashed.New(t, *elements)
	trials(t, 31, func(what string, r *rand.Rand, x *tensor.Tensor, axes []int, along []bool) int {
		lines := linesOf(x, along)
		f := formats[r.IntN(len(formats))]
		y := map[string]*tensor.Tensor{}
		for _, name := range []string{
			"sum of squares", "log of sum", "inverse deviation", "running mean", "running variance",
		} {
			y[name] = tensor.New(f, len(lines))
		}
		y["over norm 1"], y["over norm 2"] = tensor.New(f, x.Shape...), tensor.New(f, x.Shape...)
		eps := []float64{0, 1e-5, float64(float32(1e-5)), 1, 0x1p-100}[r.IntN(5)]
		momentum := []float64{0, 1, 0.5, float64(float32(0.9)), float64(float32(1e-3))}[r.IntN(5)]
		old := tensor.New(f, len(lines))
		fill(old, r, makers[r.IntN(len(makers))].make)
		SumSquares(y["sum of squares"], x, axes...)
		LogSum(y["log of sum"], x, axes...)
		InverseStd(y["inverse deviation"], x, eps, axes...)
		RunningMean(y["running mean"], old, x, momentum, axes...)
		RunningVar(y["running variance"], old, x, momentum, axes...)
		over := r.IntN(8) == 0 // there are many of these
		if over {
			Normalize(y["over norm 1"], x, 1, axes...)
			Normalize(y["over norm 2"], x, 2, axes...)
		} else {
			delete(y, "over norm 1")
			delete(y, "over norm 2")
		}
		for name, v := range y {
			o.Add(name, v.Data...)
		}
		for i, l := range lines {
			if !o.Judge {
				break
			}
			n := bigref.Exactly(float64(len(l.of)))
			j := &onceOf{momentsOf(l.of), l.of, ballOf(l.of), n, old.Data[i], momentum, eps}
			mean := func() *big.Rat { return new(big.Rat).Quo(exactSum(l.of), j.ratN()) }
			variance := func() *big.Rat { return new(big.Rat).Quo(j.exactly().about, j.ratN()) }
			want := map[string]float64{
				"sum of squares":    j.squares.Or(f, func() float64 { return bigref.Round(j.exactly().squares, f) }),
				"log of sum":        j.logSum(f),
				"inverse deviation": j.inverseStd(f),
				"running mean":      j.running(j.sum.Quo(n), mean, f),
				"running variance":  j.running(j.about.Quo(n), variance, f),
			}
			for name, w := range want {
				if got := y[name].Data[i]; !same(got, w) {
					t.Fatalf("%s: %s %d in %v, old %v, momentum %v, eps %v, is %v, want %v",
						what, name, i, f, old.Data[i], momentum, eps, got, w)
				}
			}
			for k, place := range l.places {
				if !over {
					break
				}
				for order, name := range map[int]string{1: "over norm 1", 2: "over norm 2"} {
					if got, w := y[name].Data[place], j.normalized(l.of[k], order, f); !same(got, w) {
						t.Fatalf("%s: %s at %d in %v is %v, want %v", what, name, place, f, got, w)
					}
				}
			}
		}
		return len(lines)
	})
}

// TestOnceSpecials: what is not finite, or has no value.
func TestOnceSpecials(t *testing.T) {
	inf, nan := math.Inf(1), fp16.NaN
	minus := math.Copysign(0, -1)
	for _, f := range append(formats, fp16.Float64) {
		of := func(run func(y, x *tensor.Tensor), n int, x ...float64) []float64 {
			y := tensor.New(f, n)
			run(y, tensor.Of(fp16.Float32, x, len(x)))
			return y.Data
		}
		logSum := func(y, x *tensor.Tensor) { LogSum(y, x, 0) }
		squares := func(y, x *tensor.Tensor) { SumSquares(y, x, 0) }
		inverse := func(y, x *tensor.Tensor) { InverseStd(y, x, 0, 0) }
		normal := func(y, x *tensor.Tensor) { Normalize(y, x, 2, 0) }
		running := func(y, x *tensor.Tensor) { RunningVar(y, tensor.Of(f, []float64{inf}, 1), x, 0.5, 0) }
		for _, k := range []struct {
			what      string
			got, want []float64
		}{
			{"log", of(logSum, 1, 1, inf), []float64{inf}},
			{"log", of(logSum, 1, inf, -inf), []float64{nan}},
			{"log", of(logSum, 1, 1, -2), []float64{nan}},
			{"log", of(logSum, 1, 1, -1), []float64{-inf}},
			{"log", of(logSum, 1, minus), []float64{-inf}},
			{"log", of(logSum, 1, 0.5, 0.5), []float64{0}},
			{"squares", of(squares, 1, -inf, 1), []float64{inf}},
			{"squares", of(squares, 1, nan, inf), []float64{nan}},
			{"squares", of(squares, 1, minus), []float64{0}},
			{"inverse", of(inverse, 1, 3, 3), []float64{inf}},
			{"inverse", of(inverse, 1, 1, 3), []float64{1}},
			{"inverse", of(inverse, 1, 1, inf), []float64{nan}},
			{"over norm", of(normal, 3, 1, -1, inf), []float64{0, minus, nan}},
			{"over norm", of(normal, 2, 1, nan), []float64{nan, nan}},
			{"over norm", of(normal, 2, minus, 0), []float64{0, 0}},
			{"over norm", of(normal, 3, minus, 0, 4), []float64{minus, 0, 1}},
			{"running", of(running, 1, 1, 2), []float64{inf}},
			{"running", of(running, 1, 1, inf), []float64{nan}},
		} {
			for i, v := range k.got {
				if !same(v, k.want[i]) {
					t.Errorf("%s in %v: %v, want %v", k.what, f, k.got, k.want)
					break
				}
			}
		}
	}
}
