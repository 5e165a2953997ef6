package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible returns a context that ends on Ctrl-C or SIGTERM, and a
// function that lets go of the signals and returns the error of the one that
// came, if any.
func Interruptible() (context.Context, func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	came := make(chan error, 1)
	go func() {
		s, ok := <-signals
		if !ok {
			came <- nil
			return
		}
		err := ErrInterrupted
		if s == syscall.SIGTERM {
			err = ErrTerminated
		}
		came <- err
		cancel()
		// A second signal means now.
		if _, ok := <-signals; ok {
			os.Exit(ExitInterrupted)
		}
	}()
	return ctx, func() error {
		signal.Stop(signals)
		close(signals)
		cancel()
		return <-came
	}
}

var (
	ErrInterrupted = errors.New("interrupted")
	ErrTerminated  = errors.New("terminated")
)
