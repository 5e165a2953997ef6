package kernel

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	pairs := slices.Concat(kernelPairs(), judgedPairs(), backwardPairs(), quantizerPairs(), factorPairs())
	clitest.Sentences(t, pairs, labels, ".")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"tensor-core:",
	"%s  backward of %s: %s\n",
	"other order",
	"%s  %s to %s: %s\n",
	" from ",
}
