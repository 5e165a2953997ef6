package main

import (
	"os"
	"testing"

	"github.com/refrun/refrun/internal/ground/scratch"
)

// TestMain makes this binary the command itself for tests that start it as a process of
// its own: with REFRUN_TEST_COMMAND, or, to measure it, with REFRUN_TEST_PEAK, the name of
// a file into which what Linux says of its memory goes.
func TestMain(m *testing.M) {
	peak := os.Getenv("REFRUN_TEST_PEAK")
	if peak == "" && os.Getenv("REFRUN_TEST_COMMAND") == "" {
		scratch.InMemory()
		os.Exit(m.Run())
	}
	code := realMain(os.Args[1:], os.Stdout, os.Stderr)
	if peak == "" {
		os.Exit(code)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		err = os.WriteFile(peak, status, 0o666)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}
