package rollout

import (
	"runtime"

	"github.com/refrun/refrun/tensor"
)

// emitter hands states to sinks on a goroutine of its own, so that they are stored while the
// next ones are computed. One step's states are on their way at a time.
type emitter struct {
	next chan emission // nil without sinks
	done chan error
	busy bool // states are on their way
}

// emission is the states of an engine batch at step t and before, of realizations from lo on.
type emission struct {
	t, lo   int
	x, prev *tensor.Tensor
}

func newEmitter(sinks []Sink) *emitter {
	e := new(emitter)
	if len(sinks) > 0 {
		e.next, e.done = make(chan emission), make(chan error)
		go func() {
			for one := range e.next {
				e.done <- one.to(sinks)
			}
		}()
	}
	return e
}

// emit waits for the states before, and sends these on their way.
func (e *emitter) emit(t, lo int, x, prev *tensor.Tensor) error {
	if err := e.wait(); err != nil || e.next == nil {
		return err
	}
	e.next <- emission{t, lo, x, prev}
	e.busy = true
	// Where all processors compute the goroutine would wait for a time slice of its own, some
	// 10 ms. It takes this one's instead, which goes on where a helper of package par sleeps.
	runtime.Gosched()
	return nil
}

// wait returns when the sinks have seen all states.
func (e *emitter) wait() error {
	if !e.busy {
		return nil
	}
	e.busy = false
	return <-e.done
}

// close is wait, and ends the goroutine.
func (e *emitter) close() error {
	err := e.wait()
	if e.next != nil {
		close(e.next)
	}
	return err
}

func (m emission) to(sinks []Sink) error {
	for n := range m.x.N() {
		var before []float64
		if m.prev != nil {
			before = m.prev.Samples(n, n+1).Data
		}
		if n%2 == 0 && n+1 < m.x.N() {
			m.ahead(sinks, n)
		}
		for _, s := range sinks {
			if err := s.State(m.t, m.lo+n, m.x.Samples(n, n+1).Data, before); err != nil {
				return err
			}
		}
	}
	return nil
}

// pairwise is a sink that can take the diagnostics of two realizations beside each other, before
// it is given their states.
type pairwise interface {
	ahead(t, m int, x, prev [2][]float64)
}

// ahead tells sinks of the states of realizations n and n+1.
func (m emission) ahead(sinks []Sink, n int) {
	var x, prev [2][]float64
	for i := range x {
		x[i] = m.x.Samples(n+i, n+i+1).Data
		if m.prev != nil {
			prev[i] = m.prev.Samples(n+i, n+i+1).Data
		}
	}
	for _, s := range sinks {
		if p, ok := s.(pairwise); ok {
			p.ahead(m.t, m.lo+n, x, prev)
		}
	}
}
