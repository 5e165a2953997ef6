package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par/partest"
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
		add(fmt.Sprint(taps, " taps, tensors"), fp16.Float16, 2, 19, 12, 23,
			func(dst *tensor.Tensor) { Forward(dst, src, k, p) })
		plan := k.Prepare(fp16.Float16, 1, 12, 23, p)
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
	add("transposed", fp16.Float32, 2, 9, 13, 17,
		func(dst *tensor.Tensor) { Transposed(dst, half, kt, Square(2, 1, Zeros)) })

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

// TestPartsOfPanels: where there are fewer units of tiles than processors, or one more,
// several divide the outputs of a unit, and return the bits of one alone.
func TestPartsOfPanels(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(37, 38))
	for _, of := range []struct{ ic, oc, h, w int }{
		{200, 70, 5, 6},   // weights from afar, one unit
		{160, 100, 17, 5}, // and few
		{24, 40, 9, 9},    // at hand
		{16, 50, 24, 25},  // units of unequal size
	} {
		src, weight := makers[0].make(r, fp16.Float32, 1, of.ic, of.h, of.w),
			makers[0].make(r, fp16.Float32, of.oc, of.ic, 3, 3)
		k := NewKernel(weight, weight.Data[:of.oc])
		plan := k.Prepare(fp16.Float32, 1, of.h, of.w, Square(1, 1, Zeros))
		x := newTestImage(src.Format, 1, of.ic, of.h, of.w, plan.Frame())
		x.From(src)
		x.FillFrame(Zeros)
		var want *tensor.Tensor
		for _, workers := range []int{1, 2, 3, 5, 16} {
			runtime.GOMAXPROCS(workers)
			y, got := newTestImage(fp16.Float32, 1, of.oc, of.h, of.w, 0), tensor.New(fp16.Float32, 1, of.oc, of.h, of.w)
			plan.Run(y, x, new(Space))
			y.To(got)
			if want == nil {
				want = got
			}
			for i, v := range want.Data {
				if math.Float64bits(got.Data[i]) != math.Float64bits(v) {
					t.Fatalf("%v, %d workers: element %d is %x, want %x", of, workers, i, got.Data[i], v)
				}
			}
		}
	}
	for _, c := range [][4]int{
		{1, 1, 32, 1}, {2, 1, 32, 2}, {2, 4, 32, 1}, {2, 5, 32, 2}, {2, 5, 1, 1}, {8, 3, 32, 8}, {64, 65, 8, 2},
	} {
		if parts := partsFor(c[0], c[1], c[2]); parts != c[3] {
			t.Errorf("%d workers, %d units, %d panels: %d parts, want %d", c[0], c[1], c[2], parts, c[3])
		}
	}
}
