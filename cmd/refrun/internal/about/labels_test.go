package about

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, slices.Concat(modelPairs(), machinePairs(), endPairs()), labels, ".", "../cli")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	"\nVmHWM:", // Linux's
	"flag provided but not defined: -",
	": did you mean %s%s?", // TestMistyped
	"         graphs of %d operations: digest %s\n",
	"%.3g ms",
	"/gc/heap/live:bytes",
	"all float16",
	"all bfloat16",
	"a million random float32",
	"all float32",
	", in units of 1024",
	"%-9s  %-24s  %10d inputs: %d by rule, %d by inequality, %d double-double, %d fixed point; " +
		"%d wrong or undecided; %.0f s\n",
	"refrun %s, numerical contract %s\n",
	"opset %d, ",
	"made by %s\n",
	"inputs       %s\n",
	"outputs      %s\n",
	"cpu       %s (%s), %s\n",
	"features  %s\n",
	"kernels   %s\n",
	"built by  %s\n",
	"refrun %s: is the output of a GPU right? exact arithmetic on the CPU says it\n\n",
	"%-8s %d known answers, %d computations with %s threads: ",
	"         ran %s\n",
	", tags ",
	".TH REFRUN 1 \"\" \"refrun %s\"\n.nh\n.ad l\n.SH NAME\n" +
		"refrun \\- is the output of a GPU right? exact arithmetic on the CPU says it\n",
	".SH SYNOPSIS\n.B refrun\nVERB [flags]\n.SH DESCRIPTION\n%s\n.SH VERBS\n",
	".SS \"%s\"\n%s\n%s",
	"\n.nf\n.in -7n\n",
	"\n.in\n.fi\n",
	".TP\n.B \"%s\"\n%s\n",
	", here %s",
	", here --onnx ",
	"; a configuration is given with --config %s",
	"VERB ...",
	"refrun VERB --help shows its flags and an example. ",
	"Exit codes: 0 success, 1 checked and failed, 2 wrong usage or bad input, 3 NO-POWER, " +
		"75 stopped from outside (run --resume continues, and so does dataset run), 130 interrupted.",
	"%s\n%s\n\nflags:\n",
	"usage: refrun ",
	" [flags]",
	" (default ",
	"a whole number, such as 500 or 1e6",
	"a number, such as 0.5 or 1e-6",
	"a time, such as 30s, 5m or 1h30m",
	"example: ",
	"refrun ",
	"contract %s, %s\n",
	"         digest %s\n",
	"  refrun ",
	", about %v left", // TestProgress
	"%s and %d more",
}
