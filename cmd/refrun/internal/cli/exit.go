package cli

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Unfinished is what stopped the making of a dataset, with which the same command goes on.
type Unfinished struct{ Err error }

func (u Unfinished) Error() string { return u.Err.Error() + "; the same command goes on" }

func (u Unfinished) Unwrap() error { return u.Err }

// Exit codes that scripts rely on.
const (
	ExitOK     = 0
	ExitFailed = 1 // checked, and failed
	ExitUsage  = 2 // wrong usage or bad input

	ExitNoPower = 3 // checked, no fault found, and too little to tell

	ExitResumable   = 75  // stopped from outside; --resume continues
	ExitInterrupted = 130 // Ctrl-C
)

// ErrFailed makes the exit code 1: the verb did its work and the answer is no.
var ErrFailed = errors.New("failed")

// ErrNoPower makes the exit code 3.
var ErrNoPower = errors.New("no power")

// arrived returns the exit code of an answer without a verb.
func arrived(out *output, stderr io.Writer) int {
	if out.err == nil {
		return ExitOK
	}
	complain(stderr, "refrun", fmt.Errorf("stdout: %w", out.err))
	return ExitUsage
}

// Resumable is what stopped a run from outside which --resume continues.
type Resumable struct{ Err error }

func (r Resumable) Error() string { return r.Err.Error() + "; --resume continues it" }

func (r Resumable) Unwrap() error { return r.Err }

// FromOutside reports whether a disk is full or failed: no fault of the run.
func FromOutside(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) ||
		errors.Is(err, syscall.EIO)
}

const ExitCodes = "Exit codes: 0 success, 1 checked and failed, 2 wrong usage or bad input, 3 NO-POWER, " +
	"75 stopped from outside (run --resume continues, and so does dataset run), 130 interrupted."
