package par

import (
	"runtime"
	"sync/atomic"
	"time"
)

// pool is the goroutines that stay, and the call that they work for.
var pool struct {
	busy    atomic.Bool
	helpers []*helper // of workers 1, 2, ...
	job     job
}

// A helper is a goroutine that waits for calls. Only one call at a time speaks
// to it, by its state:
//
//	idle     it spins, and will see a call at once
//	asleep   it waits for a message, which it gets with a call
//	called   there is a call for it, which it may take, or the caller take back
//	working  it has taken it
//	awaited  it has taken it, and the caller waits for a message
//
// Once it is idle again it touches nothing of the call. A helper that is late, as
// it has to be woken or the system runs something else, delays nobody: its
// call is taken back when the work is done.
type helper struct {
	state      atomic.Int32
	wake, done chan struct{}
	_          [104]byte // two cache lines of its own
}

const (
	idle int32 = iota
	asleep
	called
	working
	awaited
)

// How long a helper and a caller wait before they sleep. A helper waits about as long as it
// takes to wake one, which costs at most twice what knowing the next call's time would: some
// 50 microseconds on a machine, up to 3 milliseconds on a virtual one that packs what it wakes
// onto the same processor. A caller waits for less, as the helper may need its processor.
const (
	helperSpin = 500 * time.Microsecond
	callerSpin = 50 * time.Microsecond
)

// waiter measures how long one waits.
type waiter struct{ began time.Time }

// longer waits for a moment and reports whether it has waited for longer than spin.
func (w *waiter) longer(spin time.Duration) bool {
	if w.began.IsZero() {
		w.began = time.Now()
	}
	pause()
	return time.Since(w.began) > spin
}

// loop is a helper's life, which a body may end: then it has another. A helper beyond the number of
// processors does not spin: it would take the time of those that work.
func (h *helper) loop(worker int) {
	defer func() { go h.loop(worker) }()
	spin := helperSpin
	if worker >= runtime.NumCPU() {
		spin = 0
	}
	var w waiter
	for {
		switch {
		case h.state.CompareAndSwap(called, working):
			h.work(worker)
			w = waiter{}
		case w.longer(spin) && h.state.CompareAndSwap(idle, asleep):
			<-h.wake
			w = waiter{}
		}
	}
}

// work does its share of the call.
func (h *helper) work(worker int) {
	defer func() {
		if h.state.Swap(idle) == awaited {
			h.done <- struct{}{}
		}
	}()
	pool.job.work(worker)
}

// run is a call by the goroutines that stay.
func run(workers, n int, body func(i int), each func(worker, i int)) {
	for len(pool.helpers) < workers-1 {
		h := &helper{wake: make(chan struct{}, 1), done: make(chan struct{}, 1)}
		pool.helpers = append(pool.helpers, h)
		go h.loop(len(pool.helpers))
	}
	j := &pool.job
	j.n, j.workers, j.body, j.each = n, workers, body, each
	j.divide()
	helpers := pool.helpers[:workers-1]
	for _, h := range helpers {
		if h.state.Swap(called) == asleep {
			h.wake <- struct{}{} // it has room
		}
	}
	defer end(helpers)
	j.work(0)
}

// end waits for the helpers that have taken the call, and takes it back from others.
func end(helpers []*helper) {
	var w waiter
	for _, h := range helpers {
		if h.state.CompareAndSwap(called, idle) {
			continue
		}
		for h.state.Load() == working {
			if w.longer(callerSpin) && h.state.CompareAndSwap(working, awaited) {
				<-h.done
			}
		}
	}
	j := &pool.job
	failed := j.first.Swap(nil)
	j.body, j.each = nil, nil // keep nothing alive
	pool.busy.Store(false)
	if failed != nil {
		panic(*failed)
	}
}
