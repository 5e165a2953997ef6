package study

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, slices.Concat(studyPairs(t), picturePairs(t)), labels, ".")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"note: %s\n",
	"float32:fast",
	"float32:fast-7",
	"%s: distance of the outputs to float64, for these inputs\n\n  %-14s %-10s RMS/std\n",
	"\n%s s on %s (%s)\n",
	"%s: %s, policy %s\n",
	"Distance from the float32 rollout: %s, %s, noise %s",
	"RMS distance / standard deviation of the state",
	"%s, %s, %s on a %dx%d grid\n",
	"reference %s, contract %s; its states' std is %s to %s\n",
	"float16 as %s, bfloat16 likewise\n",
	"\n%.3g s on %s (%s)\n",
	"\nMean absolute difference from the float32 rollout",
	":\n\n%-20s %-10s  whole rollout, after step\n%-20s %-10s",
	"one step,",
	"Arithmetic: in one step from the same state, bfloat16 is %s times as far from float32 as float16. " +
		"At the end of the rollout it is %s times as far.",
	"Growth: ",
	"Horizon: ",
	"step ",
	"step %d",
	" to %d",
}
