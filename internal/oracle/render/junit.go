package render

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/report"
)

// The elements of JUnit's XML, as common CI systems read it.
type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      string      `xml:"system-out"`
}

type junitCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Failure *junitFault `xml:"failure,omitempty"`
	Skipped *junitFault `xml:"skipped,omitempty"`
}

type junitFault struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// gateNames are the gates in the order in which they are reported.
var gateNames = []string{"structure", "accuracy", "noise", "rollout", "probe"}

// groupOfSteps is how many steps make one test case.
const groupOfSteps = 50

// WriteJUnit writes the report as one JUnit test suite: a case for the verdict,
// for each gate, each layer, and each group of steps. What has no power or was
// left out is skipped.
func WriteJUnit(w io.Writer, of *report.Report) error {
	r := drawing{of}
	s := junitSuite{Name: "refrun check", Out: r.text()}
	verdict := junitCase{Class: "verdict", Name: r.Claim}
	switch {
	case r.Verdict.Failed() && !r.Fails():
		verdict.Skipped = &junitFault{string(r.Verdict) + r.where() + ", by odds", r.Reason}
	case r.Verdict.Failed():
		verdict.Failure = &junitFault{string(r.Verdict) + r.where(), r.Reason}
	case r.Verdict == report.NoPower:
		verdict.Skipped = &junitFault{string(r.Verdict), r.Reason}
	}
	s.Cases = append(s.Cases, verdict)
	for _, gate := range gateNames {
		c := r.junit("gate", gate, func(f report.Finding) bool { return f.Gate == gate })
		if r.Verdict == report.NoPower {
			c.Skipped = &junitFault{Message: string(report.NoPower)}
		}
		s.Cases = append(s.Cases, c)
	}
	inRow := func(f report.Finding, l report.LayerRow) bool {
		ofPolicy := f.Layer == "" && l.Name == "policy" && (f.Gate == "bound" || f.Gate == "statistics")
		return (f.OfLayers() && f.Layer == l.Name || ofPolicy) && f.Step == l.Step
	}
	for _, l := range r.Layers {
		c := r.junit("layer", fmt.Sprintf("%s, step %d", l.Name, l.Step), func(f report.Finding) bool { return inRow(f, l) })
		if c.Failure == nil && l.Violations > 0 {
			text := fmt.Sprintf("%d of %d elements outside of what correct kernels may have", l.Violations, l.Elements)
			c.Failure = &junitFault{text, text}
		}
		s.Cases = append(s.Cases, c)
	}
	if c := r.junit("layer", "not in the table", func(f report.Finding) bool {
		return (f.Gate == "bound" || f.Gate == "statistics") &&
			!slices.ContainsFunc(r.Layers, func(l report.LayerRow) bool { return inRow(f, l) })
	}); c.Failure != nil || c.Skipped != nil {
		s.Cases = append(s.Cases, c)
	}
	for lo := 0; lo < len(r.Steps); lo += groupOfSteps {
		s.Cases = append(s.Cases, r.only(junitSteps(r.Steps[lo:min(lo+groupOfSteps, len(r.Steps))])))
	}
	for _, what := range r.Unjudged {
		s.Cases = append(s.Cases,
			junitCase{Class: "not judged", Name: what, Skipped: &junitFault{Message: "nothing was held against it"}})
	}
	for _, what := range r.Skipped {
		s.Cases = append(s.Cases,
			junitCase{Class: "left out", Name: what, Skipped: &junitFault{Message: "it was not reached"}})
	}
	s.count()
	_, err := io.WriteString(w, s.xml())
	return err
}

// count fills in how many cases there are, and how many of them failed and were skipped.
func (s *junitSuite) count() {
	s.Tests = len(s.Cases)
	for _, c := range s.Cases {
		if c.Failure != nil {
			s.Failures++
		}
		if c.Skipped != nil {
			s.Skipped++
		}
	}
}

// xml returns the suite as text. (The standard library's encoder would find the fields by
// reflection, for 150 KB of the command.)
func (s junitSuite) xml() string {
	var b strings.Builder
	b.WriteString(xml.Header)
	fmt.Fprintf(&b, "<testsuites>\n <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" "+
		"skipped=\"%d\">\n", escape(s.Name), s.Tests, s.Failures, s.Errors, s.Skipped)
	for _, c := range s.Cases {
		fmt.Fprintf(&b, "  <testcase classname=\"%s\" name=\"%s\">", escape(c.Class), escape(c.Name))
		b.WriteString(c.Failure.xml("failure") + c.Skipped.xml("skipped") + "</testcase>\n")
	}
	fmt.Fprintf(&b, "  <system-out>%s</system-out>\n </testsuite>\n</testsuites>\n", escape(s.Out))
	return b.String()
}

func (f *junitFault) xml(name string) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("\n   <%s message=\"%s\">%s</%[1]s>\n  ", name, escape(f.Message), escape(f.Text))
}

// escape makes a text fit for XML, in elements and attributes.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder refuses nothing
	return b.String()
}

// junit is a case that fails with the findings that belong to it.
func (r drawing) junit(class, name string, belongs func(report.Finding) bool) junitCase {
	c := junitCase{Class: class, Name: name}
	var lines []string
	for _, f := range r.Findings {
		if f.Verdict.Failed() && belongs(f) {
			lines = append(lines, Line(f))
		}
	}
	if len(lines) > 0 {
		c.Failure = &junitFault{lines[0], strings.Join(lines, "\n")}
	}
	return r.only(c)
}

// only is a case that is skipped, not failed, where the report as a whole fails no build.
func (r drawing) only(c junitCase) junitCase {
	if c.Failure != nil && !r.Fails() {
		c.Failure, c.Skipped = nil, c.Failure
	}
	return c
}

func junitSteps(rows []report.StepRow) junitCase {
	c := junitCase{Class: "steps", Name: fmt.Sprintf("%d to %d", rows[0].Step, rows[len(rows)-1].Step)}
	bad := slices.DeleteFunc(slices.Clone(rows), func(s report.StepRow) bool { return !s.Violation })
	if len(bad) == 0 {
		if !slices.ContainsFunc(rows, func(s report.StepRow) bool { return finite(float64(s.R64)) }) {
			c.Skipped = &junitFault{Message: "nothing of these steps could be compared"}
		}
		return c
	}
	var text []string
	for _, s := range bad {
		text = append(text,
			fmt.Sprintf("step %d: largest error %s, R64 %s, Re %s, peak %s", s.Step, words.Three(float64(s.MaxAbs)),
				words.Three(float64(s.R64)), words.Three(float64(s.Re)), words.Three(float64(s.Peak))))
	}
	c.Failure = &junitFault{fmt.Sprintf("%d of %d steps are wrong, first step %d", len(bad), len(rows), bad[0].Step),
		strings.Join(text, "\n")}
	return c
}
