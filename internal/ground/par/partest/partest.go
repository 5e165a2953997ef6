// Package partest changes the number of threads under tests.
package partest

import "runtime"

// Changing changes GOMAXPROCS all the time until it is told to stop, as the runtime
// itself does now and then when a container's limits change.
func Changing() (stop func()) {
	was, end, ended := runtime.GOMAXPROCS(0), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 1; ; n = n * 5 % 17 { // all of 1 to 16 in turn
			select {
			case <-end:
				runtime.GOMAXPROCS(was)
				return
			default:
				runtime.GOMAXPROCS(n)
				runtime.Gosched()
			}
		}
	}()
	return func() { close(end); <-ended }
}
