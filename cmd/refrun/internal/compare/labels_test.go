package compare

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, slices.Concat(comparePairs(t), filePairs()), labels, ".")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"%s against %s, %v\n",
	"  largest difference  %-9s %-9s of B's std, %s%s\n",
	"  RMS difference      %-9s %-9s\n",
	"  mean difference     %-9s\n",
	"  mean relative       %-9s of |B|, at least %s; RMS %s of B's RMS\n",
	"  largest in ulps     %-9s of %s\n",
	"note: %s\n",
	"\n  state  largest    RMS        RMS/std    rel. L2    VRMSE\n",
}
