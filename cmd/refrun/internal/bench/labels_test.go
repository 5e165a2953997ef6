package bench

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, slices.Concat(planPairs(), peakPairs()), labels, ".")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"--batch or --grid",
	"multiply-adds  %.4g GFLOP/s on one thread, %.4g on all: %s\n",
	"\n  convolution, float32 exact  first call     later    GFLOP/s  of the rate above\n",
	"\n  operator: %s\n",
	"  precision                   first call     later    GFLOP/s  of it  sample-steps/s\n",
	"{\"weights_seed\": 0, \"operator\": {\"num_layers\": 4, \"base_channels\": 32},\n" +
		"\t\t\t\"rollout\": {\"num_timesteps\": 2, \"num_realizations\": 1}}",
	"%s; grid %d, batch %d",
	"float32:fast",
	"%s, %s, %s\n%s\nmode %s\n",
	"\n  pass  %-48s %9s  %10s\n        kernel\n",
	"\n%s, %s read and written; images and draws take %s\n",
	"%d passes",
	"weights take %s, in the order of the kernels too\n",
	"a step takes %s (the first one %s), %.3g GFLOP/s",
	"torch-cpu:2.x",
	"%dx%d, %d to %d at %dx%d",
}
