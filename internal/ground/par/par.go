// Package par spreads independent pieces of work over the processors. Which
// goroutine does which piece is not certain, so pieces must not depend on
// each other; the numerical contract then makes the result independent of the
// number of threads.
//
// The goroutines stay from one call to the next. One without work spins for some
// 500 microseconds, as an operator's next operation mostly begins within that
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
func For(n int, body func(i int)) { spread(Workers(), n, body, nil) }

// Each is For for bodies that need memory of their own: no two calls of the same
// worker, a number less than workers, run at once. Workers is the number that there
// is memory for, as GOMAXPROCS may change at any moment: the runtime itself does it
// when a container's limits change.
func Each(workers, n int, body func(worker, i int)) { spread(min(workers, Workers()), n, nil, body) }

// Workers returns GOMAXPROCS, for how many workers to make memory, or to divide work.
func Workers() int { return runtime.GOMAXPROCS(0) }

func spread(workers, n int, body func(i int), each func(worker, i int)) {
	workers = min(workers, n)
	switch {
	case workers <= 1 || uint64(n) > most:
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

// job is one call. Each worker begins with a share of the pieces of its own, the same
// in every call of so many, and takes them in order: what it reads is then mostly
// what it wrote in the call before, and still in its processor's caches. Who is done
// takes the last pieces of others.
type job struct {
	n, workers int
	body       func(i int)
	each       func(worker, i int)
	shares     []share             // of workers, and more
	first      atomic.Pointer[any] // panic
}

// share is the pieces that are left of a worker's own: the first one and the end, in
// the upper and the lower half.
type share struct {
	atomic.Uint64
	_ [120]byte // two cache lines of its own
}

// most is how many pieces a share can name.
const most = 1<<32 - 1

// divide gives each worker its share.
func (j *job) divide() {
	if len(j.shares) < j.workers {
		j.shares = make([]share, j.workers)
	}
	for w := range j.workers {
		first := func(w int) uint64 { return uint64(w) * uint64(j.n) / uint64(j.workers) }
		j.shares[w].Store(first(w)<<32 | first(w+1))
	}
}

// take takes the first piece, or the last one.
func (s *share) take(last bool) (i int, ok bool) {
	for {
		v := s.Load()
		next, end := v>>32, v&most
		switch {
		case next == end:
			return 0, false
		case last && s.CompareAndSwap(v, v-1):
			return int(end - 1), true
		case !last && s.CompareAndSwap(v, v+1<<32):
			return int(next), true
		}
	}
}

// work does pieces until none is left.
func (j *job) work(worker int) {
	defer func() {
		if r := recover(); r != nil {
			kept := r // on the heap, of which r itself has no need
			j.first.CompareAndSwap(nil, &kept)
		}
	}()
	for k := range j.workers {
		of := (worker + k) % j.workers
		for i, ok := j.shares[of].take(k > 0); ok; i, ok = j.shares[of].take(k > 0) {
			if j.body != nil {
				j.body(i)
			} else {
				j.each(worker, i)
			}
		}
	}
}

// fork is a call with goroutines of its own.
func fork(workers, n int, body func(i int), each func(worker, i int)) {
	j := &job{n: n, workers: workers, body: body, each: each}
	j.divide()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { j.work(w) })
	}
	wg.Wait()
	if r := j.first.Load(); r != nil {
		panic(*r)
	}
}
