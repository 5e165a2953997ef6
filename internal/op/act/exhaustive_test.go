package act_test

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/exhaust"
	"github.com/refrun/refrun/internal/op/act"
)

// every is the list of all functions.
var every = act.All()

// Every result is proven right or wrong by internal/judges/exhaust, which runs all 2^32
// float32 numbers, too, where there is time: here some 2000 mantissas of each
// sign and exponent, subnormal numbers, infinities and NaNs included.
func TestStratified(t *testing.T) {
	for _, f := range every {
		job := exhaust.All(f, fp16.Float32)
		job.Step = 4093
		proven(t, job, 1<<32/4093+1)
	}
}

// All numbers of the 16-bit formats.
func TestHalves(t *testing.T) {
	for _, f := range every {
		proven(t, exhaust.All(f, fp16.Float16), 1<<16)
		proven(t, exhaust.All(f, fp16.BFloat16), 1<<16)
	}
}

func proven(t *testing.T, job exhaust.Job, n uint64) {
	t.Helper()
	r, err := exhaust.Run(job, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v in %v: %v", job.Func, job.Format, r)
	for _, m := range r.First {
		t.Error(m)
	}
	if !r.OK() || r.Inputs != n {
		t.Errorf("%v in %v: want %d inputs, every one right", job.Func, job.Format, n)
	}
}
