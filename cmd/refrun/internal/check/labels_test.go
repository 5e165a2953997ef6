package check

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, slices.Concat(layerPairs(), probePairs()), labels, ".")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"refrun check",
	" --budget ",
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:,=+-", // TestFindings
	"%s s on %s (%s)\n",
	"whole numbers from -3 to 3: sums of them are exact", // of modelProbes: what is in each file
	"normal draws",
	"normal draws, times 1e-4: a norm's eps rules",
	"normal draws, times 100: exp overflows in half without its maximum",
	"normal draws, plus 8: a variance as a difference of squares cancels",
	"zeros, and 1 at every 101st number: each shows what it reaches",
	"ones: padding and borders stand out",
	"Let the device step each folder's case once, from initial_condition",
	", store trajectory.safetensors [M,2,C,H,W] there, and run refrun check --case FOLDER.",
	"refrun ",
}
