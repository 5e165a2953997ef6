package molecule

import (
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, moleculePairs(), labels, ".")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"%s, %s of %s\nmode %s, contract %s\n\n",
	"  molecule            atoms           energy    largest force\n",
	"0 bits",
	"                     RMS error    right devices'      RMS size    largest error\n",
	"  %-8s %-8s %11s   at most %7s   %11s      %11s, of molecule %d",
}
