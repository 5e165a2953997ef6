package operator

import (
	"slices"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// TestBorrow: a plan that was given back serves the same mode, shape and instruction
// set again, and no other.
func TestBorrow(t *testing.T) {
	defer asm.Use(asm.ISA())
	op := planCases[0].operator(t)
	f32, bf16 := graph.Mode{Precision: fp16.Float32}, graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CUDA2}
	p := op.Borrow(f32, 1, 4, 6)
	if q := op.Borrow(f32, 1, 4, 6); q == p {
		t.Error("one plan for two")
	}
	op.Return(p)
	if got, want := op.PlanBytes(), p.Arena(); got != want || got == 0 {
		t.Errorf("%d bytes of plans, want %d", got, want)
	}
	for _, other := range []func() *Compiled{
		func() *Compiled { return op.Borrow(bf16, 1, 4, 6) }, func() *Compiled { return op.Borrow(f32, 2, 4, 6) },
		func() *Compiled { return op.Borrow(f32, 1, 6, 4) }, func() *Compiled { return op.Borrow(f32, 1, 4, 4) },
	} {
		if other() == p {
			t.Error("a plan for another mode or shape")
		}
	}
	isa := asm.ISA()
	if err := asm.Use("purego"); err != nil {
		t.Fatal(err)
	}
	if q := op.Borrow(f32, 1, 4, 6); (q == p) != (isa == "purego") {
		t.Error("a plan of another instruction set")
	}
	asm.Use(isa)
	if isa != "purego" && op.Borrow(f32, 1, 4, 6) != p {
		t.Error("the plan was not kept")
	}
	for n := range 2 * mostPlans {
		op.Return(op.Borrow(f32, 1+n, 3, 3))
	}
	if n := len(op.plans.idle); n != mostPlans {
		t.Errorf("%d plans kept, want %d", n, mostPlans)
	}
}

// TestForget: nothing is left of plans and kernels, and they are made again.
func TestForget(t *testing.T) {
	c := planCases[0]
	op, x := c.operator(t), input(c.n, c.in, c.h, c.w)
	m, bare := graph.Mode{Precision: fp16.Float32}, op.Bytes()
	var want []float64
	for range 2 {
		p := op.Borrow(m, x.N(), x.H(), x.W())
		y := tensor.New(fp16.Float32, x.N(), op.Config.OutputChannels, x.H(), x.W())
		if err := p.Forward(y, x, nil, noise.Time{}); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = y.Data
		} else if !slices.Equal(y.Data, want) {
			t.Error("other numbers")
		}
		op.Return(p)
		if op.PlanBytes() == 0 || op.Bytes() == bare {
			t.Error("nothing to forget")
		}
		op.Forget()
		if n, k := op.PlanBytes(), op.Bytes()-bare; n != 0 || k != 0 {
			t.Errorf("%d bytes of plans and %d of kernels are left", n, k)
		}
	}
}

// TestPlansAtOnce: plans of one operator may be used at the same time.
func TestPlansAtOnce(t *testing.T) {
	c := planCases[0]
	op, x := c.operator(t), input(c.n, c.in, c.h, c.w)
	m := graph.Mode{Precision: fp16.Float32}
	want, err := op.Forward(&Pass{Mode: m}, x)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				p := op.Borrow(m, c.n, c.h, c.w)
				got := tensor.Like(want)
				if err := p.Forward(got, x, nil, noise.Time{}); err != nil {
					t.Error(err)
				}
				op.Return(p)
				for i, v := range got.Data {
					if v != want.Data[i] {
						t.Errorf("element %d is %v, want %v", i, v, want.Data[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
