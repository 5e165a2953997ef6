package operator

import (
	"sync"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/par/partest"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// TestChangingThreads: plans, operators, norms, activations and noise that run while
// GOMAXPROCS changes all the time return the bits that they return in quiet.
func TestChangingThreads(t *testing.T) {
	x := input(2, 20, 9, 11)
	counter := func() noise.Draws {
		d, err := noise.Counter{Seed: 5}.At(3, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	same := func(apply func(dst, src *tensor.Tensor)) func() *tensor.Tensor {
		return func() *tensor.Tensor {
			dst := tensor.New(x.Format, x.N(), x.C(), x.H(), x.W())
			apply(dst, x)
			return dst
		}
	}
	works := map[string]func() *tensor.Tensor{
		"instance norm": same(func(dst, src *tensor.Tensor) { norm.Instance(dst, src, nil, nil, 1e-5) }),
		"group norm":    same(func(dst, src *tensor.Tensor) { norm.Group(dst, src, 4, nil, nil, 1e-5) }),
		"gelu":          same(func(dst, src *tensor.Tensor) { act.Forward(dst, src, act.GELU) }),
		"noise": same(func(dst, src *tensor.Tensor) {
			b := noise.Block{Type: noise.Gaussian, Scale: 0.5}
			if err := b.Apply(dst, src, noise.Time{}, counter()); err != nil {
				t.Error(err)
			}
		}),
	}
	for i, c := range planCases[:5] {
		mode, err := graph.ParseMode(planModes[2*i][0], planModes[2*i][1])
		if err != nil {
			t.Fatal(err)
		}
		op := c.operator(t)
		x, draws := input(c.n, c.in, c.h, c.w), noise.Counter{Seed: 5}
		var plan *Compiled // made by the first call and used by all
		works[c.act+" "+c.norm+" plan"] = func() *tensor.Tensor {
			if plan == nil {
				plan = op.Compile(mode, c.n, c.h, c.w)
			}
			d, err := draws.At(3, 0, c.n)
			if err == nil {
				err = plan.Forward(plan.Result(), x, d, noise.Time{})
			}
			if err != nil {
				t.Error(err)
			}
			return plan.Result().Clone()
		}
		works[c.act+" "+c.norm+" operator"] = func() *tensor.Tensor {
			d, err := draws.At(3, 0, c.n)
			if err != nil {
				t.Error(err)
			}
			y, err := op.Forward(&Pass{Mode: mode, Draws: d}, x)
			if err != nil {
				t.Error(err)
				return x
			}
			return y
		}
	}
	quiet := map[string]*tensor.Tensor{}
	for name, work := range works {
		quiet[name] = work()
	}
	defer partest.Changing()()
	var all sync.WaitGroup
	for name, work := range works {
		all.Go(func() {
			for range 60 {
				got := work()
				for i, v := range quiet[name].Data {
					if got.Data[i] != v {
						t.Errorf("%s: element %d is %x, want %x", name, i, got.Data[i], v)
						return
					}
				}
			}
		})
	}
	all.Wait()
}
