package oracle

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// explain returns the reason: one paragraph, sentence by sentence chosen by
// what was found. The first finding is the one that the verdict speaks for.
func (r ruling) explain() string {
	var s []string
	switch {
	case r.Verdict.Failed():
		s = r.whyFailed()
	case r.Verdict == report.NoPower:
		s = r.whyNothing()
	default:
		s = r.whyPassed()
	}
	return strings.Join(slices.DeleteFunc(s, func(t string) bool { return t == "" }), " ")
}

// whyFailed: what is wrong, where, how large, what that usually is, and what to
// do next.
func (r ruling) whyFailed() []string {
	f := r.Findings[0]
	what := map[report.Verdict]string{
		report.FailLogic:     "The device computes another function than this operator",
		report.FailPrecision: "The device computes this operator, but with errors that the claimed arithmetic does not have",
		report.FailRNG:       "The noise is not the one that was specified",
		report.FailRollout:   "The states are not those of a rollout of this operator",
	}[r.Verdict]
	if f.Diagnosis == "" && f.Verdict == report.FailPrecision && f.Gate == "accuracy" {
		what = "The device has errors that the claimed arithmetic does not have; a coarser one could have them"
	}
	if r.FirstStep >= 0 {
		what += fmt.Sprintf(", first at step %d", r.FirstStep)
		if r.FirstRealization >= 0 {
			what += fmt.Sprintf(" of realization %d", r.FirstRealization)
		}
	}
	if r.FirstLayer != "" {
		what += ", in " + r.FirstLayer
	}
	what += words.Within(r.Slice, r.FirstRealization)
	return []string{what + ".", sentence(f.Said()), r.size(), r.extent(), r.usually(f), r.next()}
}

// sentence makes a text begin and end like one; names keep their letters.
func sentence(text string) string {
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	if text == "" {
		return ""
	}
	if first, _, _ := strings.Cut(text, " "); !strings.ContainsAny(first, "._0123456789") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + "."
}

// size says how large the error of the first faulty step is, in units of what
// the claim makes one expect.
func (r ruling) size() string {
	i := slices.IndexFunc(r.Steps, func(s report.StepRow) bool { return s.Step == r.FirstStep })
	if i < 0 {
		return ""
	}
	row := r.Steps[i]
	if !(row.R64 > 0) || !measure.Finite(float64(row.R64)) {
		return ""
	}
	if f := r.Findings[0]; f.Gate == "structure" && !measure.Finite(float64(f.Excess)) {
		return "" // numbers that are none: the error of the others says nothing about them
	}
	return fmt.Sprintf("The error of that step is %s times what the claim makes one expect (RMS; its largest is %s).",
		words.Three(math.Sqrt(float64(row.R64))), words.Three(float64(row.MaxAbs)))
}

// extent says how many steps are faulty.
func (r ruling) extent() string {
	bad, n := 0, 0 // of the steps that could be looked at: with nothing finite none is right
	for _, s := range r.Steps {
		if s.Violation {
			bad++
		}
		if s.Violation || measure.Finite(float64(s.R64)) {
			n++
		}
	}
	switch {
	case n < 2 || bad == 0 || r.Findings[0].Gate == "structure": // after NaN, say, no step can be looked at
		return ""
	case bad == n:
		return fmt.Sprintf("All %d steps that were looked at show it.", n)
	case bad == 1 && r.Diagnosis != "":
		return fmt.Sprintf("The other %d steps are right.", n-1)
	case bad == 1:
		return fmt.Sprintf("The other %d steps are right: a fault that comes and goes is typically a race, "+
			"a buffer that is reused too early, or memory that is not written.", n-1)
	}
	return fmt.Sprintf("%d of %d steps show it.", bad, n)
}

// usually names the cause, or what such findings typically come from.
func (r ruling) usually(f report.Finding) string {
	if r.Diagnosis != "" {
		return strings.TrimSpace(fmt.Sprintf("The cause is known: %s. %s", r.Diagnosis, f.Advice))
	}
	typical := typically(r.Verdict, f.Gate, strings.ToLower(r.Slice+" "+f.Said()))
	switch {
	case r.Stranger != "":
		return "No fault of the library explains it: " + r.Stranger + "."
	case typical == "":
		return "No fault of the library explains it."
	}
	return "No fault of the library explains it by itself; such a picture is typical of " + typical + "."
}

// next says what to do.
func (r ruling) next() string {
	if r.Verdict == report.FailRollout || r.Verdict == report.FailRNG {
		return ""
	}
	if len(r.Layers) == 0 && r.FirstLayer == "" {
		return "Next: record the layers of one step (layers.safetensors), and the check says which of them is the first."
	}
	return ""
}

// whyPassed: what was checked, on how much, and what could not be seen.
func (r ruling) whyPassed() []string {
	what := fmt.Sprintf("Every step that was checked is what %s gives.", r.Claim)
	switch {
	case r.Noise.Stream == words.UnknownNoise:
		what = "Every step that was checked is what this operator gives with noise of the specified kind, " +
			"as exactly as that noise lets it be seen."
	case r.Verdict == report.PassAccurate:
		what = "Every step that was checked is as accurate as " + r.Claim + " or better, but"
		switch {
		case r.Contract != "":
			what += " by another contract: " + r.Contract + "."
		default:
			what += " which contract it keeps was not identified."
		}
	}
	checked := fmt.Sprintf("Checked: %s of %s",
		measure.Count(len(r.Steps), "step"), measure.Count(r.Shape[0], "realization"))
	if n := len(r.Layers); n > 0 {
		checked += ", and " + measure.Count(n, "recorded layer")
	}
	if v := float64(r.OneStep.RMSOverExpected); v > 0 && measure.Finite(v) {
		checked += "; "
		if v > 1 && r.Verdict == report.PassAccurate { // what does not round operands as claimed is away from those that do
			checked += "from exact arithmetic with the claim's operands, "
		}
		checked += fmt.Sprintf("the RMS error of a step is %s times what the claim makes one expect, the largest %s",
			words.Three(v), words.Three(float64(r.OneStep.MaxAbs)))
	}
	return []string{what, checked + ".", r.noiseNote(), r.blindNote(), r.skippedNote()}
}

func (r ruling) noiseNote() string {
	if r.Noise.Stream == words.UnknownNoise {
		return "The draws are unknown, so that only statistics could be checked, " +
			"and no error much below the noise could be seen."
	}
	return ""
}

func (r ruling) blindNote() string {
	if len(r.Blind) == 0 {
		return ""
	}
	var names, probes []string
	for _, b := range r.Blind {
		names = append(names, b.Name)
		if b.Probe != "" && !slices.Contains(probes, b.Probe) {
			probes = append(probes, b.Probe)
		}
	}
	s := fmt.Sprintf("This run could not have shown %s", list(names, 4))
	if len(probes) > 0 {
		s += "; the probe " + list(probes, 3) + " would (refrun probe)"
	}
	return s + "."
}

func (r ruling) skippedNote() string {
	if len(r.Skipped) == 0 {
		return ""
	}
	return "Left out: " + list(r.Skipped, 4) + "."
}

func (r ruling) unjudgedNote() string {
	if len(r.Unjudged) == 0 {
		return ""
	}
	return "Not judged: " + list(r.Unjudged, 4) + "."
}

// whyNothing: why the evidence has no power.
func (r ruling) whyNothing() []string {
	if len(r.Unjudged) > 0 && len(r.Findings) == 0 && len(r.Steps) > 0 { // all that was judged is right
		return []string{r.unjudgedNote(), "No fault was found in what was judged: this is no pass.", r.skippedNote()}
	}
	s := []string{
		r.unjudgedNote(), "No fault was found, and a small one would not have shown in the states: this is no pass.",
	}
	if n := len(r.Layers); n > 0 {
		s = append(s, "Nor did what was recorded of layers show one: "+measure.Count(n, "output")+".")
	}
	for _, f := range r.Findings {
		s = append(s, sentence(f.Text))
	}
	if len(r.Findings) == 0 {
		s = append(s, "No step of the trajectory could be looked at.")
	}
	next := "Next: check a run whose states vary (another start, more steps or pixels), record the layers of a step, " +
		"or let the device run the probes of refrun probe."
	if len(r.Layers) > 0 {
		next = "Next: check a run whose states vary (another start, more steps or pixels), " +
			"or let the device run the probes of refrun probe."
	}
	return append(s, next, r.skippedNote())
}

// list joins the first names of a list.
func list(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
