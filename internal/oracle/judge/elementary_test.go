package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestElementaryOperations: a softmax, its logarithm and a deviation whose elementary operations are all stored in the
// half type, as JAX 0.10 has them on a CPU, pass; where one of them is wrong, or exp alone is stored, they fail.
func TestElementaryOperations(t *testing.T) {
	t.Parallel()
	type row = []float64
	all := func(x row, f func(v float64) float64) (y row) {
		for _, v := range x {
			y = append(y, f(v))
		}
		return y
	}
	sum := func(x row) (s float64) {
		for _, v := range x {
			s += v
		}
		return s
	}
	shifted := func(f fp16.Format, x row) row {
		m := slices.Max(x)
		return all(x, func(v float64) float64 { return f.Round(v - m) })
	}
	exp := func(f fp16.Format, x row) row { return all(x, func(v float64) float64 { return f.Round(math.Exp(v)) }) }
	over := func(f fp16.Format, e, of row) row {
		t := f.Round(sum(of))
		return all(e, func(v float64) float64 { return v / t })
	}
	deviation := func(f fp16.Format, x row, n float64) row {
		m := sum(x) / float64(len(x))
		return row{math.Sqrt(f.Round(sum(all(x, func(v float64) float64 { return (v - m) * (v - m) })) / n))}
	}
	for _, c := range []struct {
		name, op, attributes string
		of                   func(f fp16.Format, x row) row
		want                 string
	}{
		{"each", "softmax", `{"dim": -1}`, func(f fp16.Format, x row) row {
			e := exp(f, shifted(f, x))
			return over(f, e, e)
		}, Pass},
		{"exp made again for the sum", "softmax", `{"dim": -1}`, func(f fp16.Format, x row) row {
			s := shifted(f, x)
			return over(f, exp(f, s), all(s, math.Exp))
		}, Pass},
		{"a term dropped", "softmax", `{"dim": -1}`, func(f fp16.Format, x row) row {
			e := exp(f, shifted(f, x))
			return over(f, e, e[:len(e)-1])
		}, Fail},
		{"exp alone", "softmax", `{"dim": -1}`, func(f fp16.Format, x row) row {
			m := slices.Max(x)
			e := all(x, func(v float64) float64 { return f.Round(math.Exp(v - m)) })
			return over(fp16.Float32, e, e)
		}, Fail},
		{"each", "log_softmax", `{"dim": -1}`, func(f fp16.Format, x row) row {
			s := shifted(f, x)
			l := f.Round(math.Log(f.Round(sum(exp(f, s)))))
			return all(s, func(v float64) float64 { return v - l })
		}, Pass},
		{"times 1.02", "log_softmax", `{"dim": -1}`, func(f fp16.Format, x row) row {
			s := shifted(f, x)
			l := f.Round(math.Log(f.Round(sum(exp(f, s)))))
			return all(s, func(v float64) float64 { return 1.02 * (v - l) })
		}, Fail},
		{"each", "std", `{"dim": -1}`, func(f fp16.Format, x row) row { return deviation(f, x, float64(len(x)-1)) }, Pass},
		{"of n", "std", `{"dim": -1}`, func(f fp16.Format, x row) row { return deviation(f, x, float64(len(x))) }, Fail},
	} {
		for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
			r := rand.New(rand.NewPCG(95, 96))
			const rows, columns = 60, 30
			x := drawn(r, f, rows, columns)
			var y row
			for i := range rows {
				y = append(y, c.of(f, x.Data[i*columns:(i+1)*columns])...)
			}
			f.RoundSlice(y, y)
			shape := []int{rows, columns}
			if len(y) == rows {
				shape = shape[:1]
			}
			if a := ask(t, c.op, c.attributes, x, tensor.Of(f, y, shape...)); a.Verdict != c.want {
				t.Errorf("%s of %s in %v: %s, %s, %v", c.name, c.op, f, a.Verdict, a.Reason, a.Contract)
			}
		}
	}
}

// TestExpanded: in float16 XLA makes expm1 of exp and tanh, each stored, and the quotient of a softmax by the
// reciprocal of its sum.
func TestExpanded(t *testing.T) {
	t.Parallel()
	f := fp16.Float16
	expm1 := func(x float64) float64 {
		e := f.Round(math.Exp(x))
		if math.Abs(x) > .5 {
			return f.Round(e - 1)
		}
		return f.Round(f.Round(math.Tanh(x/2)) * f.Round(e+1))
	}
	for _, c := range []struct {
		op, attributes string
		of             func(x float64) float64
	}{
		{"expm1", "{}", expm1},
		{"elu", "{}", func(x float64) float64 { return max(x, 0) + expm1(min(x, 0)) }},
		{"celu", `{"alpha": 0.7}`, func(x float64) float64 {
			return max(x, 0) + f.Round(f.Round(.7)*expm1(f.Round(min(x, 0)*f.Round(1/f.Round(.7)))))
		}},
		{"selu", "{}", func(x float64) float64 {
			below := f.Round(expm1(min(x, 0)) * f.Round(1.6732632423543772848170429916717))
			return (max(x, 0) + below) * f.Round(1.0507009873554804934193349852946)
		}},
	} {
		for _, by := range []float64{1, 1.02} {
			x := drawn(rand.New(rand.NewPCG(97, 98)), f, 40, 30)
			y := tensor.New(f, 40, 30)
			for i, v := range x.Data {
				y.Data[i] = f.Round(by * c.of(v))
			}
			if a := ask(t, c.op, c.attributes, x, y); (a.Verdict == Pass) != (by == 1) {
				t.Errorf("%s times %v: %s, %s, %v", c.op, by, a.Verdict, a.Reason, a.Contract)
			}
		}
	}
	x := drawn(rand.New(rand.NewPCG(97, 98)), f, 40, 30)
	y := tensor.New(f, 40, 30)
	for i := range 40 {
		row, to := x.Data[i*30:(i+1)*30], y.Data[i*30:(i+1)*30]
		m, s := slices.Max(row), 0.0
		for k, v := range row {
			to[k] = f.Round(math.Exp(f.Round(v - m)))
			s += to[k]
		}
		r := f.Round(1 / f.Round(s))
		for k := range to {
			to[k] = f.Round(to[k] * r)
		}
	}
	if a := ask(t, "softmax", `{"dim": -1}`, x, y); a.Verdict != Pass || !a.Contract.Reciprocal {
		t.Errorf("softmax by a reciprocal: %s, %s, %v", a.Verdict, a.Reason, a.Contract)
	}
}
