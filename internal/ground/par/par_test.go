package par_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/refrun/refrun/internal/ground/par"
)

// threads runs the test under several settings of GOMAXPROCS.
func threads(t *testing.T, test func(t *testing.T, procs int)) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 3, 7} {
		runtime.GOMAXPROCS(procs)
		test(t, procs)
	}
}

func TestEveryIndexOnce(t *testing.T) {
	threads(t, func(t *testing.T, procs int) {
		for _, n := range []int{0, 1, 2, 3, 6, 7, 8, 100, 10007} {
			calls := make([]atomic.Int32, n)
			par.For(n, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if c := calls[i].Load(); c != 1 {
					t.Fatalf("GOMAXPROCS %d, n %d: body(%d) called %d times", procs, n, i, c)
				}
			}
		}
	})
}

// TestAtOnce needs as many goroutines as there are processors: no call
// returns before all of them have begun.
func TestAtOnce(t *testing.T) {
	threads(t, func(t *testing.T, procs int) {
		begun, all := new(atomic.Int32), make(chan struct{})
		par.For(procs, func(int) {
			if begun.Add(1) == int32(procs) {
				close(all)
			}
			<-all
		})
	})
}

// TestShares: each worker begins with its own share, and all pieces are done although
// one worker does no more than its first.
func TestShares(t *testing.T) {
	threads(t, func(t *testing.T, procs int) {
		n := 5*procs + 3
		begun, all, done := new(atomic.Int32), make(chan struct{}), new(atomic.Int32)
		first, ended := make([]int, procs), make(chan struct{})
		for w := range first {
			first[w] = -1
		}
		par.Each(procs, n, func(worker, i int) {
			if first[worker] < 0 {
				first[worker] = i
				if begun.Add(1) == int32(procs) {
					close(all)
				}
				<-all
				if worker == 0 && procs > 1 {
					<-ended // the others do the rest of its share
				}
			}
			if done.Add(1) == int32(n-1) && procs > 1 {
				close(ended)
			}
		})
		for w, i := range first {
			if want := w * n / procs; i != want {
				t.Errorf("worker %d of %d begins with piece %d, want %d", w, procs, i, want)
			}
		}
		if done.Load() != int32(n) {
			t.Errorf("%d of %d pieces done", done.Load(), n)
		}
	})
}

func TestSerialInOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	next := 0
	par.For(50, func(i int) {
		if i != next {
			t.Fatalf("body(%d), want body(%d)", i, next)
		}
		next++
	})
	if next != 50 {
		t.Errorf("%d calls", next)
	}
}

func TestPanicReachesCaller(t *testing.T) {
	threads(t, func(t *testing.T, procs int) {
		var running atomic.Int32
		got := func() (r any) {
			defer func() { r = recover() }()
			par.For(20, func(i int) {
				running.Add(1)
				defer running.Add(-1)
				if i == 13 {
					panic("unlucky")
				}
			})
			return nil
		}()
		if got != "unlucky" {
			t.Errorf("GOMAXPROCS %d: recovered %v", procs, got)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("GOMAXPROCS %d: For left %d calls running", procs, n)
		}
	})
}

// TestNoAllocation: a call allocates nothing on any number of threads. (AllocsPerRun
// would set GOMAXPROCS to 1.)
func TestNoAllocation(t *testing.T) {
	threads(t, func(t *testing.T, procs int) {
		var sum atomic.Int64
		body := func(i int) { sum.Add(int64(i)) }
		par.For(100, body) // starts the goroutines
		const calls = 1000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			par.For(100, body)
		}
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > calls/10 { // the system's own
			t.Errorf("GOMAXPROCS %d: %d allocations in %d calls", procs, n, calls)
		}
	})
}
