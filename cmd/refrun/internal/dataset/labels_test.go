package dataset

import (
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, datasetPairs(t), labels, ".")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"note: %s\n",
	"float32:fast-7",
	"operators and space, or parameter_space",
	"%s: %s of a space of %s, sampled by %s\n",
	"of %s: centred discrepancy %.3g, largest correlation %.3g (%s and %s)\n",
	"\na unit takes %s to %s, in the middle %s, and %s of memory at most\n",
	"all of them %s on this machine",
	" (%s, predicted at %.3g GFLOP/s)",
	"\nfiles take %s, the largest %s\n",
	"%s, the largest takes %s\nidentity %s\n",
	"\noperator %d, %s\n  operator %s\n  rollout  %s\n  initial  %s\n",
	"`time` between checkpoints of a unit",
	"%s made in %s, %d had been made\n",
	"%s: %d of %s made, %.1f %% of the work, %s\n",
	"%s: SHA-256 %s\n%s: SHA-256 %s\nidentity %s\n",
	"%s: %s in %s, made by %s, contract %s\nidentity %s\n",
	"unit %d, identity %s\n  operator %s\n  rollout  %s\n  initial  %s\n  weights_seed %d, base_seed " +
		"%d, initial_seed %d\n",
	"  predicted %s, %s, memory %s\n",
	"%s: %d of %d, %.3g %% of the work, %.3g GFLOP/s",
	", unit %d %.0f %%",
	"%s: %s, layout %s\n",
	"%s: realization %d, channel %d",
	"Initial conditions, channel 0",
	"`seed` of the first",
	"{\"type\":%q}",
	": its line is not the one that was written", // TestVerify of package dataset
	" or ",
	" and %d more",
}
