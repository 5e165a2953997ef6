package render

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/report"
)

// sampleReport is a report of a made-up check, with something of everything.
// junitSuites is the whole of a JUnit file.
type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

func sampleReport() *report.Report {
	r := &report.Report{
		FirstStep: -1, FirstRealization: -1, Subject: "2 convolutions 3x3, gelu", Shape: []int{2, 101, 3, 8, 8},
		Claim:    "float16/autocast-cuda/state-float32/noise-tape",
		OneStep:  report.StepError{MaxAbs: 0.25, MeanAbs: 0.01, RMSOverExpected: 3},
		Expected: report.StepError{MaxAbs: 0.01, MeanAbs: 0.003, RMSOverExpected: 1},
		Noise: report.NoiseReport{Stream: "tape", Tests: []report.NoiseTest{
			{Name: "slope", Value: 1, Want: 1, Z: 0.3, OK: true}, {Name: "kurtosis", Value: 5.9, Want: 3, Z: 152},
		}},
		Layers: []report.LayerRow{
			{Step: 1, Name: "conv_blocks.0.block.0", Op: "conv", Elements: 384, Flips: 3, FlipLimit: 12, BiasZ: 0.2,
				Variance: 1.01, MaxE: 0.7},
			{Step: 1, Name: "conv_blocks.0.block.1", Op: "norm", Elements: 384, Violations: 17, Flips: 99,
				FlipLimit: 12, BiasZ: 8, Variance: 40, MaxE: 12.4, WorstSlice: "channel 2"},
		},
		Made: report.Made{Case: "my <case>", Command: "refrun check --case 'my <case>'", By: "refrun 1.2.3",
			When: "2026-01-02 03:04 UTC"},
		Blind: []report.Blind{
			{Name: "eps outside sqrt", Least: 1.6, Probe: "variance-ladder"},
			{Name: "NaN swallowed", Least: diff.Number(math.Inf(1)), Probe: ""},
		},
		Worst: []report.Element{
			{Step: 7, Realization: 1, C: 2, H: 3, W: 4, Exact: 0.5, Rounded: "0x3800", Low: "0x3800", High: "0x3801",
				Got: "0x4000", GotValue: 2, Error: 200},
		},
		Skipped: []string{"emulation of steps 50 to 99"}, Notes: []string{"a note <b>"},
		Findings: []report.Finding{
			{Verdict: report.FailPrecision, Gate: "accuracy", Step: 9, Realization: 0, Excess: 2, Text: "later."},
			{Verdict: report.FailLogic, Gate: "accuracy", Step: 7, Realization: 1, Excess: 50, Diagnosis: "stale tile",
				Slice: "rows 0-7, columns 8-15", Text: "an 8x8 tile is that of the step before & no other"},
			{Verdict: report.FailLogic, Gate: "bound", Step: 1, Realization: 0, Layer: "conv_blocks.0.block.1",
				Excess: 12.4, Text: "17 elements outside"},
		},
		Maps: []report.Map{{Title: "step 7, channel 0", H: 2, W: 3, Values: []float64{-1, 0, 1, math.NaN(), 40, 2}}},
	}
	r.Ulps[0], r.Ulps[3] = 1000, 20
	for t := 1; t <= 100; t++ {
		s := report.StepRow{Step: t, MaxAbs: 0.01, MeanAbs: 0.003, R64: 1.1, Re: 0.1, Peak: 4}
		if t == 7 {
			s.R64, s.Peak, s.Violation = 900, 300, true
		}
		r.Steps = append(r.Steps, s)
	}
	growth, horizon := diff.Number(1.07), 38
	r.GrowthPerStep, r.Horizon = &growth, &horizon
	r.Findings = r.Findings[:2]                                 // without the layer, whose step would be the first
	r.Findings[0], r.Findings[1] = r.Findings[1], r.Findings[0] // as the verdict orders them
	r.Verdict, r.FirstStep, r.FirstRealization, r.Slice, r.Diagnosis = report.FailLogic, 7, 1, r.Findings[0].Slice,
		r.Findings[0].Diagnosis
	r.Reason = "The device computes another function than this operator, first at step 7."
	return r
}

// TestText: the text has the verdict, its place and reason, every table with
// what is wrong in it, and what could not be seen.
func TestText(t *testing.T) {
	text := Text(sampleReport())
	for _, want := range []string{
		"VERDICT  FAIL-LOGIC  first at step 7, realization 1, rows 0-7, columns 8-15:\n                     stale tile\n",
		"\nREAD     The device computes another function", "\nfound    FAIL-LOGIC at step 7",
		"claim    float16/autocast-cuda/state-float32/noise-tape\n",
		"\n7     0.01", "  900  0.1  300   wrong\n9  ", "(88 more)",
		"\nconv_blocks.0.block.1\n  norm  384    17          99 (12)",
		"\nE is the device's next state minus exact arithmetic", "\nkurtosis  5.9    3     152  wrong\n",
		"\nstep 7, r1 [2,3,4]  0.5    0x3800   0x3800 to 0x3801  2 (0x4000)  200\n",
		"; from step 38\n         on a comparison of free rollouts says nothing\n", "\nBLIND    eps outside sqrt: " +
			"visible from 1.6 times its usual size on; the probe\n         variance-ladder shows it\n",
		"\nBLIND    NaN swallowed: not visible at any size\n", "\nSKIPPED  emulation of steps 50 to 99\n",
		"\nnote     a note <b>\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	inColumns(t, text)
}

// inColumns: no line is wider than a terminal, but for a word that is itself.
func inColumns(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && len(strings.Fields(line)) > 1 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestWideTables: of a table that is too wide the names stand alone, and then the cells are a list.
func TestWideTables(t *testing.T) {
	long := strings.Repeat("n", 30)
	for _, k := range []struct {
		row  []string
		want string
	}{
		{[]string{long, long}, "layer                           op\n" + long + "  " + long + "\n\n"},
		{[]string{long + long, long}, "layer\n  op\n" + long + long + "\n  " + long + "\n\n"},
		{[]string{long, long, long, "", long}, long + "\n  op " + long + ", a " + long + ", c\n  " + long + "\n\n"},
	} {
		var b strings.Builder
		table{head: []string{"layer", "op", "a", "b", "c"}[:len(k.row)], rows: [][]string{k.row}}.text(&b)
		if b.String() != k.want {
			t.Errorf("%q, want %q", b.String(), k.want)
		}
	}
}

// TestReportJSON holds the keys that scripts read, and what is not finite.
func TestReportJSON(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, sampleReport()); err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"verdict": "FAIL-LOGIC", "first_step": 7., "first_realization": 1., "first_layer": "",
		"slice":     "rows 0-7, columns 8-15",
		"diagnosis": "stale tile", "horizon": 38.,
		"growth_per_step": 1.07, "contract": "",
	} {
		if v[key] != want {
			t.Errorf("%s is %v, want %v", key, v[key], want)
		}
	}
	one, expected := v["one_step"].(map[string]any), v["expected"].(map[string]any)
	if one["max_abs"] != 0.25 || one["mean_abs"] != 0.01 || one["rms_over_expected"] != 3. || expected["max_abs"] != 0.01 {
		t.Errorf("one_step %v, expected %v", one, expected)
	}
	blind := v["blind"].([]any)
	if len(blind) != 2 || blind[1].(map[string]any)["c_min"] != "inf" {
		t.Errorf("blind %v", blind)
	}
	if reason, _ := v["reason"].(string); reason == "" {
		t.Error("no reason")
	}
	if len(v["steps"].([]any)) != 100 || v["noise"].(map[string]any)["stream"] != "tape" {
		t.Errorf("%d steps, noise %v", len(v["steps"].([]any)), v["noise"])
	}
}

// TestJUnit reads the XML back: counts, and where the failures stand.
func TestJUnit(t *testing.T) {
	read := func(r *report.Report) (junitSuite, map[string]junitCase) {
		t.Helper()
		var b bytes.Buffer
		if err := WriteJUnit(&b, r); err != nil {
			t.Fatal(err)
		}
		var s junitSuites
		if err := xml.Unmarshal(b.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		cases := map[string]junitCase{}
		for _, c := range s.Suite.Cases {
			cases[c.Class+" "+c.Name] = c
		}
		return s.Suite, cases
	}
	s, cases := read(sampleReport())
	if s.Tests != len(s.Cases) || s.Tests != len(cases) || s.Failures != 4 || s.Skipped != 1 || s.Errors != 0 {
		t.Errorf("%d tests of %d cases (%d names), %d failures, %d skipped",
			s.Tests, len(s.Cases), len(cases), s.Failures, s.Skipped)
	}
	for name, fails := range map[string]bool{
		"verdict float16/autocast-cuda/state-float32/noise-tape": true, "gate structure": false, "gate accuracy": true,
		"layer conv_blocks.0.block.0, step 1": false, "layer conv_blocks.0.block.1, step 1": true,
		"steps 1 to 50": true, "steps 51 to 100": false,
	} {
		c, ok := cases[name]
		if !ok || (c.Failure != nil) != fails {
			t.Errorf("%s: there %v, failure %v: want %v", name, ok, c.Failure, fails)
		}
	}
	if f := cases["steps 1 to 50"].Failure; f == nil || !strings.Contains(f.Text,
		"step 7: largest error 0.01, R64 900") || !strings.Contains(f.Message, "1 of 50 steps") {
		t.Errorf("steps: %+v", f)
	}
	if !strings.Contains(s.Out, "VERDICT  FAIL-LOGIC") {
		t.Error("the text is not in system-out")
	}
	blind := &report.Report{Verdict: report.NoPower, FirstStep: -1, Claim: "c"}
	if s, cases := read(blind); s.Failures != 0 || s.Skipped != 1+len(gateNames) || cases["verdict c"].Skipped == nil {
		t.Errorf("no power: %d failures, %d skipped", s.Failures, s.Skipped)
	}
}

// TestHTML: the page is well-formed, needs nothing from elsewhere, and has all
// parts; texts of a case cannot become markup.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHTML(&b, sampleReport()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		`<h1 class="fail">FAIL-LOGIC</h1>`, "first at step 7", "another function", "<h2>Every step</h2>", "horizon",
		"first faulty step",
		"<h2>Where in the image</h2>", "data:image/png;base64,", ">-12<", "<h2>Distance in units", "<h2>Steps</h2>",
		"<h2>Layers</h2>",
		"<h2>Noise: tape</h2>", "<h2>Worst elements</h2>", "What this run could not have shown", "a note &lt;b&gt;",
		"before &amp; no other", "88 more",
		"<th>Case</th><td>my &lt;case&gt;</td>",
		"<th>Command</th><td>refrun check --case &#39;my &lt;case&gt;&#39;</td>",
		"<th>Made</th><td>2026-01-02 03:04 UTC</td>", "<footer>refrun 1.2.3, refrun check.",
		"Numbers beyond 12 have the colours of the scale",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, never := range []string{
		"<script", "http:", "https:", "<link", "@import", "url(", "<b>", "ZgotmplZ", "NaN\"", "%!",
	} {
		if strings.Contains(strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, ""), never) {
			t.Errorf("%q in the page", never)
		}
	}
	// A pass has no findings and no maps, and shows none.
	pass := &report.Report{Verdict: report.PassConforming, FirstStep: -1, FirstRealization: -1, Claim: "c",
		Contract: "c", Steps: []report.StepRow{{Step: 1, R64: 1}}}
	b.Reset()
	if err := WriteHTML(&b, pass); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, `<h1 class="pass">PASS-CONFORMING</h1>`) ||
		strings.Contains(text, "Findings") || strings.Contains(text, "Where in the image") ||
		strings.Contains(text, "first faulty step") {
		t.Errorf("a pass:\n%s", text)
	}
}

// TestWithin: a fault of all of a realization is in that realization, said once.
func TestWithin(t *testing.T) {
	t.Parallel()
	for slice, want := range map[string]string{"realization 1": "FAIL-LOGIC at step 5, realization 1 (accuracy)",
		"row 3":          "FAIL-LOGIC at step 5, realization 1, row 3 (accuracy)",
		"realization 11": "FAIL-LOGIC at step 5, realization 1, realization 11 (accuracy)"} {
		if got := Line(report.Finding{
			Verdict: report.FailLogic, Gate: "accuracy", Step: 5, Realization: 1, Slice: slice,
		}); !strings.HasPrefix(got, want) {
			t.Errorf("%q: want %q", got, want)
		}
	}
}
