package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// inOnePass is a layer norm of rows that are shifted, whose variances are mean(x^2) - mean(x)^2 in float32, and scales
// that are off by so much, up and down in turn.
func inOnePass(t *testing.T, off float64, shifts ...float64) Question {
	const n = 160
	r := rand.New(rand.NewPCG(9, 10))
	x, y := tensor.New(fp16.Float32, len(shifts), n), tensor.New(fp16.Float32, len(shifts), n)
	for row, shift := range shifts {
		var s, q float32
		for i := range n {
			v := float32(r.NormFloat64() + shift)
			x.Data[row*n+i] = float64(v)
			s += v
			q += float32(v * v)
		}
		m := s / n
		d := float32(1+off*float64(1-row%2*2)) / float32(math.Sqrt(float64(max(q/n-float32(m*m), 0)+1e-5)))
		for i := range n {
			y.Data[row*n+i] = float64(float32((float32(x.Data[row*n+i]) - m) * d))
		}
	}
	return question(t, "layer_norm", `{"normalized_shape":[160],"eps":1e-5}`, y, x)
}

// TestOnePass: a layer norm whose variance is mean(x^2) - mean(x)^2 is right up to a mean of 10 deviations, and has its
// name farther away.
func TestOnePass(t *testing.T) {
	for _, c := range []struct {
		shift float64
		want  string
		off   float64 // more than that fault can
	}{{0, Pass, 0}, {5, Pass, 0}, {20, Fail, 0}, {300, Fail, 0}, {-2000, Fail, 0}, {0, Fail, .001}} {
		a, err := Check(inOnePass(t, c.off, slices.Repeat([]float64{c.shift}, 20)...))
		named := err == nil && strings.HasPrefix(a.Fault, "the variance is mean(x^2) - mean(x)^2")
		if err != nil || a.Verdict != c.want || named != (c.shift != 0 && c.want == Fail) {
			t.Errorf("mean %v: %+v %v", c.shift, a, err)
		}
		if blind := slices.Contains(a.Blind, onePassID); c.off == 0 && blind != (c.want == Pass) {
			t.Errorf("mean %v: blind %v", c.shift, a.Blind)
		}
	}
}

// TestOnePassOfPieces: of a large output the contract is looked for in the first rows, which may not show that
// variances are in one pass. If later ones do, all are held to it, and no row to more than it may lose.
func TestOnePassOfPieces(t *testing.T) {
	zero := make([]float64, 20)
	for shift, want := range map[float64]bool{0: true, 5: true, 20: false} {
		q := inOnePass(t, 0, append(zero, slices.Repeat([]float64{shift}, 20)...)...)
		q.whole, q.Narrow, q.kept = q.Output.Shape, fp16.Float32, new(again)
		all := q.slices([]bool{true}, 20)
		first, err := all[0].search()
		if err != nil || !first.passes() || first.OnePass {
			t.Fatalf("the first rows: %+v, %v", first.Contract, err)
		}
		if now, _, err := first.with(all); err != nil || now.passes() != want {
			t.Errorf("mean %v: excess %v at %v, %v; want it to pass: %v", shift, now.excess, now.region, err, want)
		}
	}
}

// TestOnePassOfMany: of several evaluations as well.
func TestOnePassOfMany(t *testing.T) {
	for shift, want := range map[float64]bool{9: true, 20: false} {
		m := &Many{N: 2, At: func(i int) (Question, error) {
			return inOnePass(t, 0, slices.Repeat([]float64{[]float64{9, shift}[i]}, 20)...), nil
		}}
		all, err := m.Contracts(0)
		if err != nil {
			t.Fatal(err)
		}
		passed := false
		for _, c := range all {
			j, err := m.Under(c)
			if err != nil {
				t.Fatal(err)
			}
			passed = passed || j.Excess <= 1
		}
		if passed != want {
			t.Errorf("means of 9 and %v: passed %v, want %v, under %v", shift, passed, want, all)
		}
	}
}

// TestOnePassLimit: variances that are off by what sums of squares lose are those of one pass; a hundred times as
// much is no such loss, whatever it looks like.
func TestOnePassLimit(t *testing.T) {
	const rows, n, mean = 16, 64, 30.0
	x, out := tensor.New(fp16.Float32, rows, n), tensor.New(fp16.Float32, rows, n)
	for k := range x.Data {
		x.Data[k] = mean + math.Copysign(1, float64(k%2)-.5) // deviation 1
	}
	s, q := float64(n*mean), float64(n*(mean*mean+1))
	fourth := n * (math.Pow(mean, 4) + 6*mean*mean + 1)
	usual := sumSigma(n, q, fourth)/n + 2*mean*sumSigma(n, s, q)/n
	for _, c := range []struct {
		times float64
		found bool
	}{{6, true}, {200, false}} {
		for k, v := range x.Data {
			off := math.Copysign(c.times*usual, float64(k/n%2)-.5)
			out.Data[k] = fp16.Float32.Round((v - mean) / math.Sqrt(1+off))
		}
		r, err := Check(question(t, "layer_norm", `{"normalized_shape":[64],"eps":0}`, out, x))
		if err != nil || r.Verdict != Fail || (r.FaultID == onePassID) != c.found {
			t.Errorf("variances off by %v times what sums lose: %+v, %v: want one pass %v", c.times, r, err, c.found)
		}
	}
}

// TestScales: of planes whose mean is far from 0 the errors of the mean are most of what is expected, and a scale that
// is off by no more is a small part of all errors. But it is one number of each plane, and right kernels' is less.
func TestScales(t *testing.T) {
	const planes, n = 16, 36
	r := rand.New(rand.NewPCG(46, 1))
	x := tensor.New(fp16.Float32, 2, planes/2, 6, 6)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(4000 + r.NormFloat64())
	}
	for _, off := range []float64{0, 6000} {
		out := tensor.New(fp16.Float32, x.Shape...)
		for p := range planes {
			var mean, variance float64
			for _, v := range x.Data[p*n:][:n] {
				mean += v / n
			}
			for _, v := range x.Data[p*n:][:n] {
				variance += (v - mean) * (v - mean) / n
			}
			scale := (1 + off*u*r.NormFloat64()) / math.Sqrt(variance+1e-5)
			mean += 1.5 * u * mean * r.NormFloat64()
			for i, v := range x.Data[p*n:][:n] {
				out.Data[p*n+i] = fp16.Float32.Round((v - mean) * scale)
			}
		}
		report, err := Check(question(t, "instance_norm", `{}`, out, x))
		if err != nil || (report.Verdict == Pass) != (off == 0) {
			t.Errorf("scales off by %v roundings: %+v, %v", off, report, err)
		}
	}
}

// TestOnePassExcusesNothing: an element beyond what two passes may be off by is none of what one pass loses.
func TestOnePassExcusesNothing(t *testing.T) {
	q := inOnePass(t, 0, slices.Repeat([]float64{5}, 20)...)
	q.Output.Data[7] += .01
	if a, err := Check(q); err != nil || a.Verdict != Fail || a.Contract.OnePass {
		t.Errorf("%+v, %v: want FAIL, by two passes", a, err)
	}
}
