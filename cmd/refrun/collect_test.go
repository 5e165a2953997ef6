package main

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
	stop := collectSoon(largeHeap)
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
