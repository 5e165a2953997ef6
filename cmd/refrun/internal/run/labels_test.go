package run

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestSentences: each sentence that this program concludes with is there when it is true,
// and is not when it is false; and no sentence is without such a pair.
func TestSentences(t *testing.T) {
	clitest.Sentences(t, slices.Concat(onePairs(t), demoPairs(t), wholePairs(t), evaluationPairs()), labels, ".",
		"../files", "../model", "../setup")
}

// labels are headings, names, figures and requests: what they show is measured or given,
// and they conclude nothing.
var labels = []string{
	" noise",
	"digest %s\n",
	" and %d more",
	": rollout.precision",
	"  RMS difference      %-9s %-9s\n",
	"  mean difference     %-9s\n",
	"note: %s\n",
	"%TAG",
	"yaml: ",
	"found incompatible YAML document",
	"largest one-step difference",
	"RMS one-step difference",
	"%.2g s on %s\n",
	"%s, recorded by %s: %d realizations of %d steps on a %dx%d grid.",
	"refrun computes every operation exactly and rounds it once, ",
	", and steps each recorded state once.",
	"RMS differences, as a fraction of the trajectory's standard deviation (%s):\n\n",
	"         one step from each    whole rollout\n",
	"  step   recorded state        from the recorded start\n",
	" Farther on, a float32 rollout against the same one with its start moved by 1e-6, mean difference:",
	"%-6s %s %s of the std, limit %s\n",
	"%s (%d layers, %s norm, %s%s)",
	"A published report on such an operator (%s) gives a mean difference of %.3f between FP16 and FP32 after " +
		"499 steps, and %.3f for BF16, which rounds eight times more coarsely.",
	"the recording by PyTorch",
	"a correct float16 device",
	"the same, one 8x8 tile left as it was at step 2",
	"TF32 sold as float32",
	"check of ",
	"float32:fast",
	"initial condition",
	"an ONNX file",
	"a network of docs/FORMATS.md",
	"%s: %s, %s multiplications\n",
	"%.3g s on %s (%s)\ndigest %s\n",
	"one step from each recorded state",
	"mode %s, contract %s\n",
	"\nOne step from each of %s recorded states, against the recorded next state:\n",
	"  largest difference  %-9s %-9s of the trajectory's std, %s\n",
	"\n  step   largest/std   RMS/std    rel. L2    VRMSE\n",
	"\n%s compared; ",
	"\n%.3g sample-steps/s, %.3g GFLOP/s on %s (%s)\n",
	"%s of %dx%d convolutions, %d channels at most, %s norm, %s",
	"U-AFNO of %s, %s of %s, %d channels at most, %s norm, %s",
	"AFNO block",
	"FNO of %s of %d x %d modes, %s, %s",
	"%s, of which %s, %s at most",
	"Spinlock, docs/optimization/OPTIMIZATION_SUMMARY.md",
	"%v states %s, mode %s, contract %s\n",
	"%s, policy %s",
	"step graph of ",
	"other state",
	"%.3g sample-steps/s, %.3g GFLOP/s on %s (%s)\n",
	"memory: %v",
	"engine_batch or --realizations",
	"white:",
	"operator and rollout",
	"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%gpt\" height=\"%gpt\" viewBox=\"0 0 %[1]g %[2]g\" " +
		"font-family=\"Helvetica, Arial, sans-serif\">\n",
	"<rect width=\"%g\" height=\"%g\" fill=\"#ffffff\"/>\n",
	"<image x=\"%.5g\" y=\"%.5g\" width=\"%.5g\" height=\"%.5g\" preserveAspectRatio=\"none\" " +
		"image-rendering=\"pixelated\" href=\"data:image/png;base64,%s\"/>\n",
	" transform=\"rotate(-90 %.4g %.4g)\"",
	"<text x=\"%.4g\" y=\"%.4g\" font-size=\"%g\" text-anchor=\"%s\" fill=\"%s\"%s>%s</text>\n",
	"<circle cx=\"%.4g\" cy=\"%.4g\" r=\"%g\" fill=\"none\" stroke=\"%s\" stroke-width=\"%g\"/>\n",
	" stroke-dasharray=\"%g,%g\"",
	"<polyline points=\"",
	"\" fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" stroke-linejoin=\"round\"%s/>\n",
	"</svg>\n",
	"weights: ",
	" before all names is left out: the module was wrapped", // TestWrapped
	"states of an engine batch: %d of %dx%dx%d numbers",     // what a refusal begins with
}
