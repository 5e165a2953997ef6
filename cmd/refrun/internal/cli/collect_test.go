package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestCollectSoon: the collector runs sooner while the heap is large, as usual
// where it is small, and afterwards.
func TestCollectSoon(t *testing.T) {
	const usual = 80
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	percent := func() int {
		p := debug.SetGCPercent(usual)
		debug.SetGCPercent(p)
		return p
	}
	reaches := func(want int, what string) {
		t.Helper()
		for range 500 {
			runtime.GC()
			if percent() == want {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("%s: %d %%, want %d", what, percent(), want)
	}
	stop := CollectSoon()
	x := make([]float64, largeHeap/8)
	reaches(largePercent, "a large heap")
	runtime.KeepAlive(x)
	reaches(usual, "a small heap")
	x = make([]float64, largeHeap/8)
	reaches(largePercent, "a large heap again")
	runtime.KeepAlive(x)
	stop()
	for _, numbers := range []int{1, largeHeap / 8} {
		x = make([]float64, numbers)
		for range 20 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		runtime.KeepAlive(x)
		if p := percent(); p != usual {
			t.Errorf("afterwards: %d %%, want %d", p, usual)
		}
	}
}

// TestCollectWithin: the limit is 64 MB at least, and never more than there is one already.
func TestCollectWithin(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 40))
	for _, c := range [][2]int64{{1, 64 << 20}, {1 << 30, 1 << 30}, {1 << 41, 1 << 40}} {
		stop := CollectWithin(c[0])
		if got := debug.SetMemoryLimit(-1); got != c[1] {
			t.Errorf("within %d: %d, want %d", c[0], got, c[1])
		}
		if stop(); debug.SetMemoryLimit(-1) != 1<<40 {
			t.Errorf("within %d, afterwards: %d", c[0], debug.SetMemoryLimit(-1))
		}
	}
}
