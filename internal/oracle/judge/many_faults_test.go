package judge

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestFittedFigure: a factor that is fitted to the output is the cause in place of a variance that is divided by n-1
// only if it explains more than fitting does by chance, whichever of both is considered first.
func TestFittedFigure(t *testing.T) {
	const n = 10000
	n1, times := Fault{ID: "kernel.variance-n-minus-1"}, Fault{ID: timesConstant}
	level := func(v float64) []float64 {
		all := make([]float64, n)
		for i := range all {
			all[i] = v
		}
		return all
	}
	for _, c := range []struct {
		fitted float64 // what the output is, and the factor makes; n-1 makes 1
		first  Fault
		want   string
	}{
		{1.01, n1, n1.ID}, {1.01, times, n1.ID},
		{1.2, n1, times.ID}, {1.2, times, times.ID},
	} {
		// Errors are expected to be 1, and right kernels have some of them along the fault.
		q := &Question{Output: tensor.Of(fp16.Float32, level(c.fitted), n)}
		p := probe{q: q, t: &trial{y: level(0), right: [][]float64{level(.01), level(-.01)}}, w: level(1)}
		s := &search{Many: &Many{}, j: &Joint{}, all: true, at: []probe{p}, squares: n * c.fitted * c.fitted}
		second := n1
		if c.first.ID == n1.ID {
			second = times
		}
		for _, f := range []Fault{c.first, second} {
			effect := 1.
			if f.ID == times.ID {
				effect = c.fitted
			}
			if err := s.consider(f, false, func(*probe) ([]float64, error) { return level(effect), nil }); err != nil {
				t.Fatal(err)
			}
		}
		if s.j.Cause == nil || s.j.Cause.ID != c.want {
			t.Errorf("%g, %s first: %+v: want %s", c.fitted, c.first.ID, s.j.Cause, c.want)
		}
	}
}

// TestAnyAmount: a fault of any amount, which is fitted, is the cause only if it leaves what right kernels have.
// Of one that is known, roundings that go the other way may be left.
func TestAnyAmount(t *testing.T) {
	const n = 10000
	for _, c := range []struct {
		left  float64 // the mean square that the fault leaves
		any   bool
		named bool
	}{{1, true, true}, {3, true, false}, {1, false, true}, {3, false, true}} {
		out, effect, right := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range out {
			sign := float64(1 - 2*(i%2))
			out[i], effect[i], right[i] = 2+float64(sign*math.Sqrt(c.left)), 2, float64(sign)/100
		}
		q := &Question{Output: tensor.Of(fp16.Float32, out, n)}
		w := make([]float64, n)
		for i := range w {
			w[i] = 1
		}
		p := probe{q: q, t: &trial{y: make([]float64, n), right: [][]float64{right, right}}, w: w}
		s := &search{Many: &Many{}, j: &Joint{}, all: true, at: []probe{p}, squares: n * (4 + c.left), n: n}
		err := s.consider(Fault{ID: "rollout.dt-wrong"}, c.any, func(*probe) ([]float64, error) { return effect, nil })
		if err != nil {
			t.Fatal(err)
		}
		if named := s.j.Cause != nil; named != c.named {
			t.Errorf("%+v: named %v", c, named)
		}
	}
}
