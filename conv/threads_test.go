package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/par/partest"
	"github.com/refrun/refrun/tensor"
)

// TestChangingThreads: convolutions of tensors and of images that run while GOMAXPROCS
// changes all the time return the bits that they return in quiet.
func TestChangingThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	works := map[string]func() *tensor.Tensor{}
	add := func(name string, f fp16.Format, n, c, h, w int, run func(dst *tensor.Tensor)) {
		works[name] = func() *tensor.Tensor {
			dst := tensor.New(f, n, c, h, w)
			run(dst)
			return dst
		}
	}
	for _, taps := range []int{1, 3, 5} {
		src, weight := makers[0].make(r, fp16.Float32, 2, 17, 12, 23), makers[0].make(r, fp16.Float32, 19, 17, taps, taps)
		k, p := NewKernel(weight, weight.Data[:19]), Square(1, taps/2, Circular)
		add(fmt.Sprint(taps, " taps, tensors"), fp16.Float16, 2, 19, 12, 23, func(dst *tensor.Tensor) { Forward(dst, src, k, p) })
		plan := k.Plan(fp16.Float16, 12, 23, p)
		x := newTestImage(src.Format, 2, 17, 12, 23, plan.Frame())
		x.From(src)
		if plan.Frame() > 0 {
			x.FillFrame(p.Padding)
		}
		space := new(Space)
		add(fmt.Sprint(taps, " taps, images"), fp16.Float16, 2, 19, 12, 23, func(dst *tensor.Tensor) {
			y := newTestImage(dst.Format, 2, 19, 12, 23, 0)
			plan.Run(y, x, space)
			y.To(dst)
		})
	}
	src, k := wideCase(r, 2, 19, 21, 13, 26, r.NormFloat64)
	add("wide", fp16.Float64, 2, 21, 13, 26, func(dst *tensor.Tensor) { Wide(dst, src, k, Square(1, 1, Circular)) })
	back := makers[0].make(r, fp16.Float32, 17, 9, 3, 3)
	kt, half := NewTransposedKernel(back, nil), makers[0].make(r, fp16.Float32, 2, 17, 7, 9)
	add("transposed", fp16.Float32, 2, 9, 13, 17, func(dst *tensor.Tensor) { Transposed(dst, half, kt, Square(2, 1, Zeros)) })

	quiet := map[string]*tensor.Tensor{}
	for name, work := range works {
		quiet[name] = work()
	}
	defer partest.Changing()()
	var all sync.WaitGroup
	for name, work := range works {
		all.Go(func() {
			for range 30 {
				got := work()
				for i, v := range quiet[name].Data {
					if math.Float64bits(got.Data[i]) != math.Float64bits(v) {
						t.Errorf("%s: element %d is %x, want %x", name, i, got.Data[i], v)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// TestWorkersHaveMemory: what runs in a space that has served nothing yet finds the memory
// of its worker, whatever GOMAXPROCS becomes in between.
func TestWorkersHaveMemory(t *testing.T) {
	defer partest.Changing()()
	for range 1000 {
		s := new(Space)
		s.each(32, func(worker, i int) {
			if s.workers[worker] == nil {
				t.Error("no memory")
			}
			runtime.Gosched() // others get to work
		})
	}
}
