// Package par spreads independent pieces of work over the processors. Which
// goroutine does which piece is left to chance, so pieces must not depend on
// each other; the numerical contract then makes the result independent of the
// number of threads.
//
// The goroutines stay from one call to the next. One without work spins for some
// 50 microseconds, as an operator's next operation mostly begins within that
// time, and then sleeps. A call by a body, or while another goroutine's call
// is under way, starts goroutines of its own.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// For calls body(i) once for every i in [0,n), on up to GOMAXPROCS
// goroutines, and returns when all calls have returned. A panic in body
// reaches the caller. For itself allocates nothing.
func For(n int, body func(i int)) { spread(n, body, nil) }

// Each is For for bodies that need memory of their own: no two calls of the
// same worker, a number less than [Workers], run at once.
func Each(n int, body func(worker, i int)) { spread(n, nil, body) }

// Workers returns how many workers a call has at most: GOMAXPROCS.
func Workers() int { return runtime.GOMAXPROCS(0) }

func spread(n int, body func(i int), each func(worker, i int)) {
	workers := min(Workers(), n)
	switch {
	case workers <= 1:
		for i := range n {
			if body != nil {
				body(i)
			} else {
				each(0, i)
			}
		}
	case pool.busy.CompareAndSwap(false, true):
		run(workers, n, body, each)
	default:
		fork(workers, n, body, each)
	}
}

// job is one call.
type job struct {
	n     int
	body  func(i int)
	each  func(worker, i int)
	next  atomic.Int64
	first atomic.Pointer[any] // panic
}

// work does pieces until none is left.
func (j *job) work(worker int) {
	defer func() {
		if r := recover(); r != nil {
			kept := r // on the heap, of which r itself has no need
			j.first.CompareAndSwap(nil, &kept)
		}
	}()
	for i := int(j.next.Add(1)) - 1; i < j.n; i = int(j.next.Add(1)) - 1 {
		if j.body != nil {
			j.body(i)
		} else {
			j.each(worker, i)
		}
	}
}

// fork is a call with goroutines of its own.
func fork(workers, n int, body func(i int), each func(worker, i int)) {
	j := &job{n: n, body: body, each: each}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { j.work(w) })
	}
	wg.Wait()
	if r := j.first.Load(); r != nil {
		panic(*r)
	}
}
