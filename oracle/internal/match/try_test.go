package match

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/internal/trial"
	"github.com/refrun/refrun/tensor"
)

// TestHeldAlike: an amplitude of pixels that round alike is as uncertain as that of the
// clusters that are left.
func TestHeldAlike(t *testing.T) {
	f := &filter{s: &Step{}}
	f.divide(1, 3, 16, 16)
	x := tensor.New(fp16.Float64, 1, 3, 16, 16)
	q := make([]float64, len(x.Data))
	f.got, f.size = make([]float64, len(q)), make([]float64, len(q))
	for i := range q {
		q[i], f.size[i] = 1, 1
		f.got[i] = 1 + .5*float64(i%7-3)
	}
	v := &trial.View{X: x}
	one := f.held(v, x, q)
	f.alike = 4
	four := f.held(v, x, q)
	if one.C != four.C || math.Abs(four.Sigma/one.Sigma-2) > 1e-12 || math.Abs(four.T/one.T-.5) > 1e-12 {
		t.Errorf("amplitude %v, sigma %v, t %v; with four alike %v, %v, %v: want sigma twice as large", one.C,
			one.Sigma, one.T, four.C, four.Sigma, four.T)
	}
}

// TestHeldFew: the same few roundings explain each other without a rest, and that is
// worth no more than their number.
func TestHeldFew(t *testing.T) {
	x := tensor.New(fp16.Float64, 1, 1, 40, 40)
	q := make([]float64, len(x.Data))
	f := &filter{s: &Step{Alike: 1}}
	f.divide(1, 1, 40, 40)
	f.got, f.size = make([]float64, len(q)), make([]float64, len(q))
	for i := range q {
		f.size[i] = 1
		if i%32 == 0 {
			q[i], f.got[i] = 1, 1+.01*float64(i%3-1)
		}
	}
	v := &trial.View{X: x}
	if m := f.held(v, x, q); !(m.T > 100) {
		t.Errorf("50 pixels of which no two are alike: t %v", m.T)
	}
	f.s.Alike = 40
	if m := f.held(v, x, q); math.Abs(m.T-math.Sqrt(50./40)) > .01 || math.Abs(m.C/m.Sigma-m.T) > 1e-12 {
		t.Errorf("50 pixels, 40 alike: t %v, c %v, sigma %v", m.T, m.C, m.Sigma)
	}
}
