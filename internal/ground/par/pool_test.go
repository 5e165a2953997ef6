package par_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/ground/par/partest"
)

// TestWorkers: no two calls of one worker run at once, and workers are counted
// from 0.
func TestWorkers(t *testing.T) {
	threads(t, func(t *testing.T, procs int) {
		if got := par.Workers(); got != procs {
			t.Fatalf("%d workers, want %d", got, procs)
		}
		for range 50 {
			busy := make([]atomic.Bool, procs)
			calls := make([]atomic.Int32, 100)
			par.Each(procs, len(calls), func(w, i int) {
				if busy[w].Swap(true) {
					t.Errorf("worker %d is called twice at once", w)
				}
				calls[i].Add(1)
				busy[w].Store(false)
			})
			for i := range calls {
				if c := calls[i].Load(); c != 1 {
					t.Fatalf("GOMAXPROCS %d: piece %d done %d times", procs, i, c)
				}
			}
		}
	})
}

// TestBound: a call has no more workers than it says, whatever GOMAXPROCS becomes.
func TestBound(t *testing.T) {
	defer partest.Changing()()
	for k := range 200 {
		workers := 1 + k%5
		memory := make([]atomic.Int32, workers)
		par.Each(workers, 50, func(w, i int) {
			memory[w].Add(1)             // panics for one more
			time.Sleep(time.Microsecond) // others get to work
		})
		var sum int32
		for w := range memory {
			sum += memory[w].Load()
		}
		if sum != 50 {
			t.Fatalf("%d workers did %d pieces, want 50", workers, sum)
		}
	}
}

// TestNested: bodies may call For, and goroutines may at the same time.
func TestNested(t *testing.T) {
	threads(t, func(t *testing.T, procs int) {
		var sum atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 20 {
					par.For(5, func(i int) {
						par.For(7, func(j int) { par.For(2, func(k int) { sum.Add(int64(i + 10*j + k)) }) })
					})
				}
			})
		}
		wg.Wait()
		if got, want := sum.Load(), int64(60*(10*14+10*21*10+35)); got != want {
			t.Errorf("GOMAXPROCS %d: %d, want %d", procs, got, want)
		}
	})
}

// TestAsleep: calls work when all helpers spin, when all sleep and between.
func TestAsleep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var done atomic.Int32
	body := func(int) { done.Add(1) }
	for i := range 300 {
		par.For(16, body)
		if got, want := int(done.Load()), 16*(i+1); got != want {
			t.Fatalf("%d pieces done, want %d", got, want)
		}
		time.Sleep(time.Duration(i) * time.Microsecond)
	}
}

// TestWaits: For does not return before a slow piece has, whoever does it.
func TestWaits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for range 20 {
		var done, begun atomic.Int32
		par.For(2, func(i int) {
			for begun.Add(1); begun.Load() < 2; { // both at work
				runtime.Gosched()
			}
			if i == 1 {
				time.Sleep(time.Millisecond)
			}
			done.Add(1)
		})
		if done.Load() != 2 {
			t.Fatal("For returned early")
		}
	}
}

// TestGoexit: bodies that end their goroutine stop no later call, and all helpers are there again.
func TestGoexit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	together := func() (then int32) { // calls that saw all three at work
		var begun, seen atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			par.For(3, func(int) {
				begun.Add(1)
				for began := time.Now(); begun.Load() < 3 && time.Since(began) < 10*time.Second; {
					runtime.Gosched()
				}
				if begun.Load() == 3 {
					seen.Add(1)
				}
				runtime.Goexit()
			})
		}()
		<-ended
		return seen.Load()
	}
	for range 5 {
		if n := together(); n != 3 {
			t.Fatalf("%d pieces were begun at once, want 3: a helper that a body ended has not come back", n)
		}
		var n atomic.Int32
		par.For(9, func(int) { n.Add(1) })
		if n.Load() != 9 {
			t.Fatalf("%d pieces done, want 9", n.Load())
		}
	}
}

// TestAllocations: a call allocates nothing.
func TestAllocations(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var n atomic.Int32
	body, each := func(int) { n.Add(1) }, func(int, int) { n.Add(1) }
	if a := testing.AllocsPerRun(100, func() { par.For(8, body); par.Each(2, 8, each) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

// BenchmarkFor is a call without work.
func BenchmarkFor(b *testing.B) {
	body := func(int) {}
	for b.Loop() {
		par.For(2, body)
	}
}
