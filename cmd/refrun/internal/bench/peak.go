package bench

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refrun/refrun/internal/asm"
)

// peakWindows is how many short windows a rate is the best of, and peakMost how many are tried
// until the best two agree. Other programs only lower a rate, so a machine whose best two windows
// differ by more than peakClose is one that others use.
const (
	peakWindows = 5
	peakMost    = 20
	peakClose   = 0.02
)

// peak measures the rate of float64 multiplications and additions, in GFLOP/s,
// that the innermost kernel reaches on that many threads with all it needs in
// the first cache, says how, and whether two windows agree about it.
func peak(threads int, budget time.Duration) (gflops float64, stable bool, how string) {
	_, _, how = multiply()
	gflops, stable = best(func() float64 { return window(threads, budget/peakWindows) })
	return gflops, stable, how
}

// best is the greatest of several measurements, and whether the next greatest is close to it.
func best(measure func() float64) (first float64, stable bool) {
	second := 0.0
	for n := 0; n < peakWindows || n < peakMost && !stable; n++ {
		rate := measure()
		first, second = max(first, rate), max(second, min(first, rate))
		stable = second >= (1-peakClose)*first
	}
	return first, stable
}

// window is the rate of all threads together in a time.
func window(threads int, length time.Duration) (gflops float64) {
	var wg sync.WaitGroup
	var stop atomic.Bool
	rates := make([]float64, threads)
	for t := range rates {
		wg.Go(func() {
			run, flop, _ := multiply()
			run()
			n, began := 0, time.Now()
			for ; n == 0 || !stop.Load(); n++ {
				run()
			}
			rates[t] = float64(n) * flop / max(time.Since(began), time.Nanosecond).Seconds() / 1e9
		})
	}
	time.Sleep(length)
	stop.Store(true)
	wg.Wait()
	for _, r := range rates {
		gflops += r
	}
	return gflops
}

// multiply returns a piece of work of some microseconds and its operations.
func multiply() (run func(), flop float64, how string) {
	w := asm.WinogradKernels()
	if w == nil {
		return multiplyGo, 2 * 8 * goRounds, rateOf(asm.ISA(), false)
	}
	// 64 channels: the kernel reads 64 numbers of each of its tiles and 64 of
	// each of its outputs, one point of 36.
	const blocks, points = 8, 36
	v := make([]float64, blocks*points*w.Tiles*8)
	u := make([]float64, blocks*8*w.Outputs)
	m := make([]float64, points*w.Tiles*w.Outputs)
	for i := range v {
		v[i] = 1 + float64(i%7)
	}
	for i := range u {
		u[i] = 1 - float64(i%5)
	}
	later := new(float32)
	return func() {
		for range 16 {
			w.Multiply(&v[0], &u[0], &m[0], blocks, blocks, 1, &u[0], later)
		}
	}, 16 * 2 * float64(w.Tiles*w.Outputs*blocks*8), rateOf(asm.ISA(), true)
}

// rateOf says what computes, with kernels of an instruction set or without.
func rateOf(isa string, kernels bool) string {
	if !kernels {
		return "plain Go, one number at a time"
	}
	return "float64 fused multiply-adds of the 3x3 kernel, " + isa + ", data in the first cache"
}

const goRounds = 1024

// multiplyGo is 8 independent chains of multiplications and additions.
func multiplyGo() {
	x := [8]float64{1, 2, 3, 4, 5, 6, 7, 8}
	a, b, c, d, e, f, g, h := x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
	for range goRounds {
		a, b, c, d = a*0.5+1, b*0.5+1, c*0.5+1, d*0.5+1
		e, f, g, h = e*0.5+1, f*0.5+1, g*0.5+1, h*0.5+1
	}
	sink.Store(math.Float64bits(a + b + c + d + e + f + g + h))
}

// sink keeps the compiler from dropping a result.
var sink atomic.Uint64
