// Package par spreads independent pieces of work over the processors. Which
// goroutine does which piece is left to chance, so pieces must not depend on
// each other; the numerical contract then makes the result independent of the
// number of threads.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// For calls body(i) once for every i in [0,n), on up to GOMAXPROCS
// goroutines, and returns when all calls have returned. A panic in body
// reaches the caller.
func For(n int, body func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			body(i)
		}
		return
	}
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		first atomic.Pointer[any]
	)
	for range workers {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					first.CompareAndSwap(nil, &r)
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				body(i)
			}
		})
	}
	wg.Wait()
	if r := first.Load(); r != nil {
		panic(*r)
	}
}
