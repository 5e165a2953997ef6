package oracle

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// explain returns the reason: one paragraph, sentence by sentence chosen by
// what was found. The first finding is the one that the verdict speaks for.
func (r *Report) explain() string {
	var s []string
	switch {
	case r.Verdict.failed():
		s = r.whyFailed()
	case r.Verdict == NoPower:
		s = r.whyNothing()
	default:
		s = r.whyPassed()
	}
	return strings.Join(slices.DeleteFunc(s, func(t string) bool { return t == "" }), " ")
}

// whyFailed: what is wrong, where, how large, what that usually is, and what to
// do next.
func (r *Report) whyFailed() []string {
	f := r.Findings[0]
	what := map[Verdict]string{
		FailLogic:     "The device computes another function than this operator",
		FailPrecision: "The device computes this operator, but with errors that the claimed arithmetic does not have",
		FailRNG:       "The noise is not the one that was specified",
		FailRollout:   "The states are not those of a rollout of this operator",
	}[r.Verdict]
	if f.Diagnosis == "" && f.Verdict == FailPrecision && (f.Gate == "conformity" || f.Gate == "accuracy") {
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
	if r.Slice != "" {
		what += ", " + r.Slice
	}
	return []string{what + ".", sentence(f.said()), r.size(), r.extent(), r.usually(f), r.next()}
}

// said is the text of a finding without the place, which is said beside it.
func (f Finding) said() string {
	text := strings.TrimPrefix(f.Text, f.Layer+": ")
	if f.Slice != "" {
		text = strings.Replace(text, " in "+f.Slice, "", 1)
	}
	return strings.TrimPrefix(text, fmt.Sprintf("step %d: ", f.Step))
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
func (r *Report) size() string {
	i := slices.IndexFunc(r.Steps, func(s StepRow) bool { return s.Step == r.FirstStep })
	if i < 0 {
		return ""
	}
	row := r.Steps[i]
	if !(row.R64 > 0) || !finite(float64(row.R64)) {
		return ""
	}
	if f := r.Findings[0]; f.Gate == "structure" && !finite(float64(f.Excess)) {
		return "" // numbers that are none: the error of the others says nothing about them
	}
	return fmt.Sprintf("The error of that step is %s times what the claim makes one expect (RMS; its largest is %s).",
		three(math.Sqrt(float64(row.R64))), three(float64(row.MaxAbs)))
}

// extent says how many steps are faulty.
func (r *Report) extent() string {
	bad, n := 0, 0 // of the steps that could be looked at: with nothing finite none is right
	for _, s := range r.Steps {
		if s.Violation {
			bad++
		}
		if s.Violation || finite(float64(s.R64)) {
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
		return fmt.Sprintf("The other %d steps are right: a fault that comes and goes is typically a race, a buffer that is reused too early, or memory that is not written.", n-1)
	}
	return fmt.Sprintf("%d of %d steps show it.", bad, n)
}

// usually names the cause, or what such findings typically come from.
func (r *Report) usually(f Finding) string {
	if r.Diagnosis != "" {
		return strings.TrimSpace(fmt.Sprintf("The cause is known: %s. %s", r.Diagnosis, advice(r.Diagnosis)))
	}
	typical := typically(r.Verdict, f.Gate, strings.ToLower(r.Slice+" "+f.said()))
	switch {
	case r.stranger != "":
		return "No fault of the library explains it: " + r.stranger + "."
	case typical == "":
		return "No fault of the library explains it."
	}
	return "No fault of the library explains it by itself; such a picture is typical of " + typical + "."
}

// next says what to do.
func (r *Report) next() string {
	if r.Verdict == FailRollout || r.Verdict == FailRNG {
		return ""
	}
	if len(r.Layers) == 0 && r.FirstLayer == "" {
		return "Next: record the layers of one step (layers.safetensors), and the check says which of them is the first."
	}
	return ""
}

// whyPassed: what was checked, on how much, and what could not be seen.
func (r *Report) whyPassed() []string {
	what := fmt.Sprintf("Every step that was checked is what %s gives.", r.Claim)
	switch {
	case r.Noise.Stream == unknownNoise:
		what = "Every step that was checked is what this operator gives with noise of the specified kind, as exactly as that noise lets it be seen."
	case r.Verdict == PassAccurate:
		what = "Every step that was checked is as accurate as " + r.Claim + " or better, but"
		switch {
		case r.Contract != "":
			what += " by another contract: " + r.Contract + "."
		case r.Pattern != "":
			what += " by another contract."
		default:
			what += " which contract it keeps was not identified."
		}
	}
	if r.Pattern != "" {
		what += fmt.Sprintf(" The device %s.", r.Pattern)
	}
	checked := fmt.Sprintf("Checked: %s of %s", count(len(r.Steps), "step"), count(r.Shape[0], "realization"))
	if n := len(r.Layers); n > 0 {
		checked += ", and " + count(n, "recorded layer")
	}
	if v := float64(r.OneStep.RMSOverExpected); v > 0 && finite(v) {
		checked += fmt.Sprintf("; the RMS error of a step is %s times what the claim makes one expect, the largest %s", three(v), three(float64(r.OneStep.MaxAbs)))
	}
	return []string{what, checked + ".", r.noiseNote(), r.blindNote(), r.skippedNote()}
}

func (r *Report) noiseNote() string {
	if r.Noise.Stream == unknownNoise {
		return "The draws are unknown, so that only statistics could be checked, and no error much below the noise could be seen."
	}
	return ""
}

func (r *Report) blindNote() string {
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

func (r *Report) skippedNote() string {
	if len(r.Skipped) == 0 {
		return ""
	}
	return "Left out: " + list(r.Skipped, 4) + "."
}

// whyNothing: why the evidence has no power.
func (r *Report) whyNothing() []string {
	s := []string{"No fault was found, and none could have been: this is no pass."}
	for _, f := range r.Findings {
		s = append(s, sentence(f.Text))
	}
	if len(r.Findings) == 0 {
		s = append(s, "No step of the trajectory could be looked at.")
	}
	return append(s, "Next: check a run whose states vary (another start, more steps or pixels), record the layers of a step, or let the device run the probes of refrun probe.", r.skippedNote())
}

// list joins the first names of a list.
func list(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// count returns "1 step" or "3 steps".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// three formats a number with three significant digits.
func three(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 0.01 && a < 1000:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2e", v)
}
