package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts. The passes say which contract was kept; a failure says what
// kind of thing is wrong; NoPower says that a gate had too little to tell.
const (
	PassConforming Verdict = "PASS-CONFORMING" // the claimed arithmetic, point of storage by point of storage
	PassAccurate   Verdict = "PASS-ACCURATE"   // as accurate as claimed or better, by another contract, which is named
	FailLogic      Verdict = "FAIL-LOGIC"      // another function than the operator's
	FailPrecision  Verdict = "FAIL-PRECISION"  // the function, with larger errors than the claim has
	FailRNG        Verdict = "FAIL-RNG"        // noise that is not what was specified
	// right steps in a wrong rollout: states shifted, aliased, stale, wrongly mixed
	FailRollout Verdict = "FAIL-ROLLOUT"
	NoPower     Verdict = "NO-POWER" // no fault found, but a gate saw too little
)

// Code returns the exit code of the command for a verdict: 0 for a pass, 1 for
// a failure, 3 where the check had no power.
func (v Verdict) Code() int {
	switch {
	case v.Passed():
		return 0
	case v == NoPower:
		return 3
	}
	return 1
}

// Failed reports whether a verdict is a failure.
func (v Verdict) Failed() bool { return strings.HasPrefix(string(v), "FAIL") }

// Passed reports whether a verdict is a pass.
func (v Verdict) Passed() bool { return strings.HasPrefix(string(v), "PASS") }

// Pass is the verdict of evidence without a fault: the pass only if nothing was left unjudged.
func (r *Report) Pass(as Verdict) Verdict {
	if len(r.Unjudged) > 0 {
		return NoPower
	}
	return as
}

// Report is what a check found. Without a budget it depends on the evidence alone,
// not on threads or chance; a processor that fuses multiplications and additions
// may show other last digits of its statistics.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Reason is one paragraph for a tired reader.
	Reason string `json:"reason"`

	// Where the first fault is; -1 and "" where there is none, or it has no
	// such place. Other realizations may have the fault as well: gates
	// mostly name the first.
	FirstStep        int    `json:"first_step"`
	FirstRealization int    `json:"first_realization"`
	FirstLayer       string `json:"first_layer"`
	Slice            string `json:"slice"`
	// Diagnosis is the name of the fault that explains the residual, "" if
	// none does (then a failure is of an unknown cause).
	Diagnosis string `json:"diagnosis"`

	Subject string `json:"subject"` // the operator and its policy, in words
	Shape   []int  `json:"shape"`   // of the trajectory: [M,T,C,H,W], or of a step graph's first state [M,T,...]

	Claim string `json:"claim"` // the mode that was claimed, such as "float16/autocast-cuda/state-float32/noise-tape"
	// Contract is the contract that the steps keep, or most of them if they keep two. It is
	// "" if a step is wrong or none fits.
	Contract string `json:"contract"`
	// OneStep are the errors of single steps against float64, over all steps
	// that were checked; Expected are those that the claim makes one expect.
	OneStep  StepError `json:"one_step"`
	Expected StepError `json:"expected"`

	// first step at which a free-running comparison says nothing; nil if there is none or it was not measured
	Horizon       *int         `json:"horizon"`
	GrowthPerStep *diff.Number `json:"growth_per_step"` // of a small difference; nil if not measured

	Noise NoiseReport `json:"noise"`
	Steps []StepRow   `json:"steps"`
	// Fields are the errors of X against truth by step and channel; none where truth is not known,
	// as of unknown noise.
	Fields []diff.Field `json:"fields,omitempty"`
	Layers []LayerRow   `json:"layers,omitempty"`
	Blind  []Blind      `json:"blind"`
	Worst  []Element    `json:"worst,omitempty"` // of a rollout at most ten, those of layers first
	// Findings are the reasons of the verdict, the first one first.
	Findings []Finding `json:"findings"`
	// Only is Proved where the verdict fails a build by what is proved alone (see [Report.Fails]); "" by all findings.
	Only string `json:"only,omitempty"`
	// Unjudged is what the device returned and nothing was held against, each with the reason. With any of it
	// no verdict is a pass (see Pass), and reports begin with it.
	Unjudged []string `json:"unjudged,omitempty"`
	Skipped  []string `json:"skipped,omitempty"` // what a budget or a limit of work left out of the search for causes
	Notes    []string `json:"notes,omitempty"`   // what is worth knowing and no fault

	Maps  []Map          `json:"-"` // pictures for the HTML report
	Ulps  diff.Histogram `json:"ulps"`
	Files []string       `json:"-"`
	Made  Made           `json:"-"` // for the page

	Stranger string `json:"-"` // why this may be another operator's trajectory, "" if it need not be
}

// Made says where a report comes from, each part in words, "" if it is not known.
type Made struct {
	Case    string // the folder or file that was checked
	Command string // that makes the report again
	By      string // the program and its version
	When    string // the date
}

// StepError are errors of single steps.
type StepError struct {
	MaxAbs  diff.Number `json:"max_abs"`
	MeanAbs diff.Number `json:"mean_abs"`
	// RMSOverExpected is the root mean square of error over expected standard
	// deviation, element by element; 1 is what the claim makes one expect.
	RMSOverExpected diff.Number `json:"rms_over_expected"`
}

// StepRow is one step, over all realizations: X the device's states, truth what float64 makes
// of the states before, emulation the claim's own arithmetic, and s the standard deviation that
// the claim makes one expect of an element's error.
type StepRow struct {
	Step      int         `json:"step"`
	MaxAbs    diff.Number `json:"max_abs"`   // of X - truth
	MeanAbs   diff.Number `json:"mean_abs"`  // of X - truth
	R64       diff.Number `json:"r64"`       // mean of ((X - truth)/s)^2
	Re        diff.Number `json:"re"`        // rms of (X - emulation)/s
	Peak      diff.Number `json:"peak"`      // largest |X - truth|/s
	Violation bool        `json:"violation"` // some statistic is beyond its limit
}

// AddFields adds the errors of a step against truth, which are the only step of the fields.
func (r *Report) AddFields(step int, fields *diff.Fields) {
	for _, f := range fields.All() {
		f.Step = step
		r.Fields = append(r.Fields, f)
	}
}

// LayerRow is one layer of one step, with inputs as the device had them.
type LayerRow struct {
	Step       int         `json:"step"`
	Name       string      `json:"name"`
	Op         string      `json:"op"` // conv, norm, act, add, noise
	Elements   int         `json:"elements"`
	Violations int         `json:"violations"` // elements outside of their admissible interval
	Flips      int         `json:"flips"`      // elements that are not the rounded exact value
	FlipLimit  diff.Number `json:"flip_limit"` // how many of these a right device has at most
	BiasZ      diff.Number `json:"bias_z"`     // mean of the errors away from zero, in its standard deviations
	Variance   diff.Number `json:"variance"`   // mean of the squared error over the expected one
	MaxE       diff.Number `json:"max_e"`      // largest error over the rigorous bound: at most 1
	WorstSlice string      `json:"worst_slice"`
}

// Blind is a fault that this run could not have shown.
type Blind struct {
	Name string `json:"name"`
	// Least is the smallest amplitude that would have been seen (1 is the
	// fault as it is known); infinite if none would.
	Least diff.Number `json:"c_min"`
	Probe string      `json:"probe"` // the probe that shows it, "" if none does
	// Needs is the evidence that would show it, "" if that is not known.
	Needs string `json:"needs,omitempty"`
}

// NoiseReport is what was found about the noise.
type NoiseReport struct {
	Stream string      `json:"stream"` // the stream that the check used: "tape", "none", "unknown", ...
	Tests  []NoiseTest `json:"tests,omitempty"`
}

// NoiseTest is one statistic of the noise, or of its slope on the specified one.
type NoiseTest struct {
	Name  string      `json:"name"`
	Value diff.Number `json:"value"` // of the device
	Want  diff.Number `json:"want"`  // of the specified noise
	Z     diff.Number `json:"z"`     // how far one is from the other, in standard deviations
	OK    bool        `json:"ok"`    // within the limit
}

// Element is one number of the evidence with what it should have been. Those of a state are
// sorted by their distance from Rounded, and Error is that from Exact.
type Element struct {
	Step        int         `json:"step"`
	Realization int         `json:"realization"`
	Layer       string      `json:"layer"` // "" for the state
	C           int         `json:"c"`
	H           int         `json:"h"`
	W           int         `json:"w"`
	Exact       diff.Number `json:"exact"` // in float64
	// hexadecimal bits: of a state, where a half type or TF32 is claimed, what the emulation gives; else Exact rounded
	Rounded  string      `json:"rounded"`
	Low      string      `json:"low"`  // admissible from
	High     string      `json:"high"` // to, or "" where no interval is known
	Got      string      `json:"got"`  // as the device has it, bits too
	GotValue diff.Number `json:"got_value"`
	Error    diff.Number `json:"error_over_expected"` // over s of a state, over the bound of a layer
}

// Finding is one thing that a gate found wrong.
type Finding struct {
	Verdict Verdict `json:"verdict"` // what it speaks for
	// structure, bound, statistics, accuracy, noise, rollout, probe
	Gate        string `json:"gate"`
	Step        int    `json:"step"` // the first, -1 if it has none
	Realization int    `json:"realization"`
	Layer       string `json:"layer"`
	Slice       string `json:"slice"`
	// ID names the fault's row in the library's table, whatever words Diagnosis and Text
	// have: unnamed.GATE where no fault of it explains what was found. What the row's
	// name leaves open stands behind a colon: nothing, where it means results of all kinds.
	ID        string `json:"id"`
	Diagnosis string `json:"diagnosis,omitempty"`
	Advice    string `json:"advice,omitempty"` // where to look, "" if the diagnosis says it
	// Command is a line for a shell that repeats the check and shows this finding, "" if
	// the evidence is no file.
	Command string `json:"command,omitempty"`
	// Weak says that the diagnosis only tells what would fit, such as other noise or
	// other weights of the policy, which the effect of many faults may look like.
	Weak bool `json:"-"`
	// Known is how it is known that something is wrong, [Proved] or [ByOdds]; "" of what had no power.
	Known string `json:"known,omitempty"`
	// Chance is that of a right device with errors as unlikely, of what is known by odds; 0 where only the limit is
	// known that it is beyond.
	Chance float64 `json:"chance,omitempty"`
	// Excess is the figure over its limit: for accuracy a ratio of mean squares.
	Excess diff.Number `json:"excess"`
	Text   string      `json:"text"` // one sentence with the figures
}

// How it is known that something is wrong.
const (
	Proved = "proved" // no right device returns this: it is outside of an interval, or in states that no run has
	ByOdds = "odds"   // a right device returns this too, with a chance that is too small to believe
)

// Fails reports whether what was found fails a build: a verdict that failed, unless nothing of it is proved and Only
// asks for that.
func (r *Report) Fails() bool {
	return r.Verdict.Failed() &&
		(r.Only != Proved || slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Known == Proved }))
}

// Map is a picture: numbers over an image, such as the error of a channel.
type Map struct {
	Title  string
	H, W   int
	Values []float64 // [H,W]
}

// OfLayers reports whether a finding is about a layer that was seen, held
// against its own inputs.
func (f Finding) OfLayers() bool {
	return f.Layer != "" && (f.Gate == "bound" || f.Gate == "statistics")
}

// Said is the text of a finding without the place, which is said beside it.
func (f Finding) Said() string {
	text := strings.TrimPrefix(f.Text, f.Layer+": ")
	if f.Slice != "" {
		text = strings.Replace(text, " in "+f.Slice, "", 1)
	}
	return strings.TrimPrefix(text, fmt.Sprintf("step %d: ", f.Step))
}
