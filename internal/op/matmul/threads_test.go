package matmul

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/par/partest"
	"github.com/refrun/refrun/tensor"
)

// TestChangingThreads: products that run in several goroutines while GOMAXPROCS changes
// all the time return the bits that they return in quiet.
func TestChangingThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	const m, n, k = 70, 90, 110
	a, b := random(r, fp16.Float32, m, k), random(r, fp16.Float32, k, n)
	kernel, want := NewKernel(b, false, nil), tensor.New(fp16.Float16, m, n)
	Forward(want, a, b, Params{})
	defer partest.Changing()()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got := tensor.New(fp16.Float16, m, n)
			for i := range 60 {
				if i%2 == 0 {
					Forward(got, a, b, Params{})
				} else {
					kernel.Forward(got, a)
				}
				if !slices.Equal(got.Data, want.Data) {
					t.Errorf("call %d: differs", i)
					return
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
		s := NewSpace()
		s.job.m, s.job.n, s.job.terms, s.job.batches = 1, 1, serial, 1
		s.each(32, func(worker, i int) {
			if s.workers[worker] == nil {
				t.Error("no memory")
			}
			runtime.Gosched() // others get to work
		})
	}
}
