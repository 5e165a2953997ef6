package render

import (
	"bytes"
	"encoding/xml"
	"html"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/report"
)

// The reports of a pair are this one and a neighbour of it, made by an edit.
func edited(r *report.Report, edit ...func(*report.Report)) *report.Report {
	for _, f := range edit {
		f(r)
	}
	return r
}

// passing is a report in which nothing is wrong, and faulty one with a wrong step.
func passing(edit ...func(*report.Report)) *report.Report {
	return edited(&report.Report{Verdict: report.PassConforming,
		FirstStep: -1, FirstRealization: -1, Claim: "float32/x", Contract: "float32/x", Shape: []int{2, 4, 1, 4, 4},
		Steps: []report.StepRow{{Step: 1, R64: 1, MaxAbs: 0.5}, {Step: 2, R64: 1, MaxAbs: 0.5}}}, edit...)
}

func faulty(edit ...func(*report.Report)) *report.Report {
	return passing(append([]func(*report.Report){func(r *report.Report) {
		r.Verdict, r.Contract, r.FirstStep = report.FailLogic, "", 2
		r.Steps[1].Violation = true
		r.Findings = []report.Finding{
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 2, Realization: -1, Text: "something is off"},
		}
	}}, edit...)...)
}

func powerless(edit ...func(*report.Report)) *report.Report {
	return passing(append([]func(*report.Report){
		func(r *report.Report) { r.Verdict, r.Contract, r.Steps = report.NoPower, "", nil },
	}, edit...)...)
}

// pair is a sentence with a report of which it is true, and a near one of which it is false.
type pair struct {
	says      string
	is, isNot *report.Report
}

func (p pair) check(t *testing.T, write func(r *report.Report) string) {
	t.Helper()
	if got := write(p.is); !strings.Contains(got, p.says) {
		t.Errorf("does not say %q where it is true:\n%s", p.says, got)
	}
	if got := write(p.isNot); strings.Contains(got, p.says) {
		t.Errorf("says %q where it is false:\n%s", p.says, got)
	}
}

// TestTableSentences: titles, marks and notes of the tables.
func TestTableSentences(t *testing.T) {
	layer := func(violations int, step int) func(*report.Report) {
		return func(r *report.Report) {
			r.Layers = append(r.Layers, report.LayerRow{Step: step, Name: "a", Op: "conv", Elements: 9, Violations: violations})
		}
	}
	noise := func(ok bool) func(*report.Report) {
		return func(r *report.Report) {
			r.Noise = report.NoiseReport{Stream: "tape", Tests: []report.NoiseTest{{Name: "slope", OK: ok}}}
		}
	}
	many := func(n int) func(*report.Report) {
		return func(r *report.Report) { r.Steps = make([]report.StepRow, n) }
	}
	element := func(layer, high string) func(*report.Report) {
		return func(r *report.Report) {
			r.Worst = []report.Element{
				{Step: 2, Realization: 1, C: 3, H: 4, W: 5, Layer: layer, Low: "0x1", High: high, Got: "0x7"},
			}
			if high == "" {
				r.Worst[0].Low = ""
			}
		}
	}
	text := func(r *report.Report) string {
		var s []string
		for _, t := range (drawing{r}).tables() {
			s = append(s, "<"+t.title+">", t.note)
			for i, row := range t.rows {
				s = append(s, strings.Join(row, "|"))
				if t.bad[i] {
					s = append(s, "bad:"+row[0])
				}
			}
			if t.left > 0 {
				s = append(s, "left "+t.title)
			}
		}
		return strings.Join(s, "\n")
	}
	for _, p := range []pair{
		{"<Steps>", passing(), powerless()},
		{"E is the device's next state minus exact arithmetic", passing(), powerless()},
		{"E is the device's next state minus exact arithmetic", passing(),
			passing(func(r *report.Report) { r.Noise.Stream = words.UnknownNoise })},
		{"E is the device's next state minus the exact step without noise",
			passing(func(r *report.Report) { r.Noise.Stream = words.UnknownNoise }), passing()},
		// masks were read off the states
		{"minus the exact step without noise", passing(func(r *report.Report) { r.Noise.Stream = words.UnknownNoise }),
			passing(func(r *report.Report) { r.Noise.Stream, r.Steps[0].Re = words.UnknownNoise, 0.1 })},
		{"rel. L2 is the norm of E over that of the exact state",
			passing(func(r *report.Report) { r.Fields = []diff.Field{{Step: r.Steps[0].Step}} }), passing()},
		{"|wrong\nbad:2", faulty(), passing()},
		{"left Steps", passing(many(mostRows + 1)), passing(many(mostRows))},
		{"<Layers>", passing(layer(0, 1)), passing()},
		{"Each layer with the inputs that the device gave it", passing(layer(0, 1)), passing()},
		{"bad:a", passing(layer(2, 1)), passing(layer(0, 1))},
		{"bad:a", faulty(layer(0, 2), func(r *report.Report) { r.Findings[0].Gate, r.Findings[0].Layer = "statistics", "a" }),
			faulty(layer(0, 1), func(r *report.Report) { r.Findings[0].Gate, r.Findings[0].Layer = "statistics", "a" })},
		{"a, step 2", passing(layer(0, 1), layer(0, 2)), passing(layer(0, 2))},
		{"<Noise: tape>", passing(noise(true)), passing()},
		{"What the recorded states say about the noise", passing(noise(true)), passing()},
		{"|wrong\nbad:slope", passing(noise(false)), passing(noise(true))},
		{"<Worst elements>", faulty(element("", "")), faulty()},
		{"Places are step, realization and [channel,row,column]", faulty(element("", "")), faulty()},
		{"step 2, r1 [3,4,5] a", faulty(element("a", "")), faulty(element("", ""))},
		{"0x1 to 0x2", faulty(element("", "0x2")), faulty(element("", ""))},
		{"(0x7)", faulty(element("", "")), faulty(element("", ""), func(r *report.Report) { r.Worst[0].Got = "" })},
	} {
		p.check(t, text)
	}
}

// TestHTMLSentences: headings, labels, colours and notes of the page.
func TestHTMLSentences(t *testing.T) {
	growth, horizon := diff.Number(1.5), 2
	page := func(r *report.Report) string {
		var b bytes.Buffer
		if err := WriteHTML(&b, r); err != nil {
			t.Fatal(err)
		}
		return html.UnescapeString(b.String())
	}
	fact := func(name string) string { return "<th>" + name + "</th>" }
	says := func(f func(r *report.Report)) *report.Report { return passing(f) }
	drawn := func(v float64) *report.Report {
		return says(func(r *report.Report) { r.Maps = []report.Map{{Title: "step 2", H: 1, W: 2, Values: []float64{v, -v}}} })
	}
	for _, p := range []pair{
		{`<h1 class="pass">`, passing(), faulty()},
		{`<h1 class="fail">`, faulty(), powerless()},
		{`<h1 class="blind">`, powerless(), passing()},
		{"first at step 2", faulty(), passing()},
		{fact("Operator"), says(func(r *report.Report) { r.Subject = "2 convolutions" }), passing()},
		{fact("States"), passing(), passing(func(r *report.Report) { r.Shape = nil })},
		{fact("Claim"), passing(), passing(func(r *report.Report) { r.Claim = "" })},
		{fact("Keeps"), passing(), faulty()},
		{fact("First faulty step"), faulty(), passing()},
		{fact("Realization"), faulty(func(r *report.Report) { r.FirstRealization = 1 }), faulty()},
		{fact("Layer"), faulty(func(r *report.Report) { r.FirstLayer = "a" }), faulty()},
		{fact("Place"), faulty(func(r *report.Report) { r.Slice = "row 1" }), faulty()},
		{fact("Diagnosis"), faulty(func(r *report.Report) { r.Diagnosis = "eps missing" }), faulty()},
		{"; RMS 0.9 of what is expected", says(func(r *report.Report) {
			r.OneStep = report.StepError{MaxAbs: 0.5, MeanAbs: 0.1, RMSOverExpected: 0.9}
		}), says(func(r *report.Report) {
			r.OneStep = report.StepError{MaxAbs: 0.5, MeanAbs: 0.1, RMSOverExpected: diff.Number(math.NaN())}
		})},
		{fact("Error of one step"), says(func(r *report.Report) {
			r.OneStep = report.StepError{MaxAbs: 0.5, MeanAbs: 0.1, RMSOverExpected: 0.9}
		}), passing()},
		{fact("Expected"), says(func(r *report.Report) {
			r.Expected = report.StepError{MaxAbs: 0.5, MeanAbs: 0.1, RMSOverExpected: 1}
		}), passing()},
		{"<h2>Findings</h2>", faulty(), passing()},
		{"<p class=\"note\">1 more; --json has all.</p>", faulty(func(r *report.Report) {
			for range mostHTMLFindings {
				r.Findings = append(r.Findings, r.Findings[0])
			}
		}), faulty(func(r *report.Report) {
			for range mostHTMLFindings - 1 {
				r.Findings = append(r.Findings, r.Findings[0])
			}
		})},
		{"<h2>Every step</h2>", passing(), powerless()},
		{"Each step is taken from the device's own state", passing(), powerless()},
		{">first faulty step<", faulty(), passing()},
		{">horizon<", says(func(r *report.Report) { r.Horizon = &horizon }), passing()},
		{"Free rollouts: a small difference becomes 1.5 times as large in a step.",
			says(func(r *report.Report) { r.GrowthPerStep = &growth }), passing()},
		{"Free rollouts: from step 2 on a comparison of free rollouts says nothing.",
			says(func(r *report.Report) { r.Horizon = &horizon }), passing()},
		{"<h2>Where in the image</h2>", drawn(1), drawn(0)},
		{"blue below zero, red above", drawn(1), drawn(math.NaN())},
		{" Numbers beyond 12 have the colours of the scale's ends.", drawn(12.5), drawn(12)},
		{"<h2>Distance in units of the last place</h2>", says(func(r *report.Report) { r.Ulps[0] = 3 }), passing()},
		{"<h2>Steps</h2>", passing(), powerless()},
		{`<tr class="bad">`, faulty(), passing()},
		{" more; --json has all", says(func(r *report.Report) { r.Steps = make([]report.StepRow, mostRows+1) }),
			says(func(r *report.Report) { r.Steps = make([]report.StepRow, mostRows) })},
		{"What this run could not have shown",
			says(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout"}} }), passing()},
		{"dropout: not visible at any size", says(func(r *report.Report) {
			r.Blind = []report.Blind{{Name: "dropout"}}
		}), says(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout", Least: 2}} })},
		{"the probe impulse shows it", says(func(r *report.Report) {
			r.Blind = []report.Blind{{Name: "dropout", Probe: "impulse"}}
		}), says(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout"}} })},
		{"it needs more steps", says(func(r *report.Report) {
			r.Blind = []report.Blind{{Name: "dropout", Needs: "more steps"}}
		}), says(func(r *report.Report) { r.Blind = []report.Blind{{Name: "dropout"}} })},
		{"<h2>Not judged</h2>", says(func(r *report.Report) { r.Unjudged = []string{"y"} }), passing()},
		{"<h2>Left out</h2>", says(func(r *report.Report) { r.Skipped = []string{"filters"} }), passing()},
		{"<h2>Notes</h2>", says(func(r *report.Report) { r.Notes = []string{"a note"} }), passing()},
		{"The same evidence gives the same verdict on every machine.", passing(),
			says(func(r *report.Report) { r.Skipped = []string{"filters"} })},
	} {
		p.check(t, page)
	}
}

// TestHTMLSaid: each heading and note that the page's code has is in a pair above.
func TestHTMLSaid(t *testing.T) {
	code, err := os.ReadFile("html.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("sentences_test.go")
	if err != nil {
		t.Fatal(err)
	}
	covered, said := string(source),
		regexp.MustCompile(`p\.(?:h2|note|section)\("([^"]*)"`).FindAllStringSubmatch(string(code), -1)
	if len(said) < 9 {
		t.Errorf("%d headings and notes found", len(said))
	}
	for _, m := range said {
		for s := range strings.SplitSeq(m[1], ". ") {
			s = strings.Trim(s, " .,:\n")
			first := strings.Join(strings.Fields(s)[:min(4, len(strings.Fields(s)))], " ")
			if first != "" && !definition[first] && !strings.Contains(covered, first) {
				t.Errorf("%q of the page is in no pair", s)
			}
		}
	}
}

// definition has the beginnings of sentences of the page that explain a figure and
// conclude nothing.
var definition = map[string]bool{"refrun check": true, "s is the standard": true, "Error over what is": true}

// TestJUnitSentences: what CI shows of each case.
func TestJUnitSentences(t *testing.T) {
	text := func(r *report.Report) string {
		var b bytes.Buffer
		r.Reason = "why"
		if err := WriteJUnit(&b, r); err != nil {
			t.Fatal(err)
		}
		var s junitSuites
		if err := xml.Unmarshal(b.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, c := range s.Suite.Cases {
			line := c.Class + " " + c.Name + " passed"
			if c.Failure != nil {
				line = c.Class + " " + c.Name + " failed: " + c.Failure.Message + ": " + c.Failure.Text
			} else if c.Skipped != nil {
				line = c.Class + " " + c.Name + " skipped: " + c.Skipped.Message
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n") + "\n"
	}
	known := func(known, only string, chance float64) func(*report.Report) {
		return func(r *report.Report) { r.Only, r.Findings[0].Known, r.Findings[0].Chance = only, known, chance }
	}
	layer := func(violations int) func(*report.Report) {
		return func(r *report.Report) {
			r.Layers = []report.LayerRow{{Step: 1, Name: "a", Elements: 9, Violations: violations}}
		}
	}
	policy := func(r *report.Report) { r.Layers = []report.LayerRow{{Step: 1, Name: "policy", Elements: 9}} }
	of := func(gate, layer string) func(*report.Report) {
		return func(r *report.Report) { r.Findings[0].Gate, r.Findings[0].Layer, r.Findings[0].Step = gate, layer, 1 }
	}
	blind := func(r *report.Report) {
		for i := range r.Steps {
			r.Steps[i].R64 = diff.Number(math.NaN())
		}
	}
	for _, p := range []pair{
		{"verdict float32/x passed", passing(), powerless()},
		{"verdict float32/x failed: FAIL-LOGIC  first at step 2: why", faulty(), passing()},
		{"verdict float32/x skipped: NO-POWER", powerless(), passing()},
		{"gate accuracy passed", passing(), powerless()},
		{"gate accuracy passed", passing(), faulty()},
		{"gate accuracy skipped: NO-POWER", powerless(), passing()},
		{"gate accuracy failed: FAIL-LOGIC at step 2 (accuracy): something is off", faulty(),
			faulty(func(r *report.Report) { r.Findings[0].Gate = "noise" })},
		{"gate accuracy failed: FAIL-LOGIC at step 2 (accuracy, odds 1.00e-09): something is off",
			faulty(known(report.ByOdds, "", 1e-9)), faulty(known(report.ByOdds, report.Proved, 1e-9))},
		{"gate accuracy skipped: FAIL-LOGIC at step 2 (accuracy, odds): something is off",
			faulty(known(report.ByOdds, report.Proved, 0)), faulty(known(report.ByOdds, "", 0))},
		{"verdict float32/x skipped: FAIL-LOGIC  first at step 2, by odds",
			faulty(known(report.ByOdds, report.Proved, 0)), faulty(known(report.Proved, report.Proved, 0))},
		{"steps 1 to 2 skipped: 1 of 2 steps are wrong",
			faulty(known(report.ByOdds, report.Proved, 0)), faulty(known(report.Proved, report.Proved, 0))},
		{"layer a, step 1 passed", passing(layer(0)), passing(layer(2))},
		{"layer a, step 1 failed: 2 of 9 elements outside of what correct kernels may have", passing(layer(2)),
			passing(layer(0))},
		{"layer a, step 1 failed: FAIL-LOGIC at step 1, a (bound): something", faulty(layer(0),
			func(r *report.Report) { r.Findings[0].Gate, r.Findings[0].Layer, r.Findings[0].Step = "bound", "a", 1 }),
			faulty(layer(0), func(r *report.Report) {
				r.Findings[0].Gate, r.Findings[0].Layer, r.Findings[0].Step = "bound", "b", 1
			})},
		{"layer not in the table failed: FAIL-LOGIC at step 1 (bound): something", faulty(layer(0), of("bound", "")),
			faulty(layer(0), of("bound", "a"))},
		{"layer policy, step 1 failed: FAIL-LOGIC at step 1 (statistics): something",
			faulty(policy, of("statistics", "")), faulty(policy, of("statistics", "a"))},
		{"layer policy, step 1 passed", faulty(policy, of("accuracy", "")), faulty(policy, of("bound", ""))},
		{"steps 1 to 2 passed", passing(), faulty()},
		{"steps 1 to 2 passed", passing(), passing(blind)},
		{"steps 1 to 2 skipped: nothing of these steps could be compared", passing(blind), passing()},
		{"1 of 2 steps are wrong, first step 2: step 2: largest error 0.5", faulty(), passing()},
		{"not judged y skipped: nothing was held against it",
			passing(func(r *report.Report) { r.Unjudged = []string{"y"} }), passing()},
		{"left out filters skipped: it was not reached",
			passing(func(r *report.Report) { r.Skipped = []string{"filters"} }), passing()},
	} {
		p.check(t, text)
	}
}

// TestOnlyProved: a report of what is known by odds says that it fails no build where only proofs are asked for.
func TestOnlyProved(t *testing.T) {
	of := func(known, only string) *report.Report {
		return faulty(func(r *report.Report) { r.Only, r.Findings[0].Known = only, known })
	}
	says := "nothing of it is proved, and only what is proved was asked for: the exit code is 0"
	for _, other := range []*report.Report{of(report.Proved, report.Proved), of(report.ByOdds, ""),
		passing(func(r *report.Report) { r.Only = report.Proved })} {
		pair{
			says, of(report.ByOdds, report.Proved), other,
		}.check(t, func(r *report.Report) string { return strings.Join(strings.Fields(Text(r)), " ") })
	}
}
