package render

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/format/svg"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/report"
)

//go:embed report.css
var css string

// mostMaps is the number of error maps that a page shows.
const mostMaps = 16

// mostHTMLFindings is the number of findings that a page shows.
const mostHTMLFindings = 4 * mostFindings

// WriteHTML writes the report as one page that needs nothing else: no script,
// no font, no file beside it.
func WriteHTML(w io.Writer, of *report.Report) error {
	p, r := new(page), drawing{of}
	p.head(r)
	p.section("Not judged", r.Unjudged)
	p.findings(r)
	if chart := r.chart(); chart != "" {
		p.h2("Every step")
		p.note("Each step is taken from the device's own state, so that errors do not add up and chaos has no part " +
			"in it. s is the standard deviation that one expects of an element's E.")
		p.add(chart, "\n")
	}
	if fate := r.fate(); fate != "" {
		p.note("Free rollouts: " + fate + ".")
	}
	p.maps(r)
	if bars := r.bars(); bars != "" {
		p.h2("Distance in units of the last place")
		p.add(bars, "\n")
	}
	for _, t := range r.tables() {
		p.table(t)
	}
	var blind []string
	for _, b := range r.Blind {
		blind = append(blind, blindLine(b))
	}
	p.section("What this run could not have shown", blind)
	p.section("Left out", r.Skipped)
	p.section("Notes", r.Notes)
	p.add("<footer>")
	p.add(html.EscapeString(cmp.Or(r.Made.By, "refrun")), ", refrun check.")
	if len(r.Skipped)+len(r.Unjudged) == 0 {
		p.add(" The same evidence gives the same verdict on every machine.")
	}
	p.add("</footer>\n</html>\n")
	_, err := io.WriteString(w, p.b.String())
	return err
}

// page is a page in the making. What add is given is markup; all other texts may come from
// anywhere and are escaped. (The standard library's templates would do this too, but they find
// methods by name, so that a linker keeps every method there is: 1.7 MB of the command.)
type page struct{ b strings.Builder }

func (p *page) add(markup ...string) {
	for _, m := range markup {
		p.b.WriteString(m)
	}
}

// in adds a text within a tag.
func (p *page) in(tag, text string) {
	name, _, _ := strings.Cut(tag, " ")
	p.add("<", tag, ">", html.EscapeString(text), "</", name, ">")
}

func (p *page) h2(text string)   { p.in("h2", text); p.add("\n") }
func (p *page) note(text string) { p.in(`p class="note"`, text); p.add("\n") }

// section is a heading and a list, or nothing if the list is empty.
func (p *page) section(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.h2(title)
	p.add("<ul>")
	for _, l := range lines {
		p.in("li", l)
		p.add("\n")
	}
	p.add("</ul>\n")
}

func (p *page) head(r drawing) {
	p.add("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width\">\n")
	p.in("title", string(r.Verdict)+" - refrun check")
	p.add("\n<style>\n", css, "</style>\n")
	class := "fail"
	switch {
	case r.Verdict.Passed():
		class = "pass"
	case r.Verdict == report.NoPower:
		class = "blind"
	}
	p.in(`h1 class="`+class+`"`, string(r.Verdict))
	p.add("\n")
	p.in(`p class="where"`, r.where())
	p.add("\n")
	p.in(`p class="reason"`, r.Reason)
	p.add("\n<div class=\"wide\"><table class=\"facts\">\n")
	for _, f := range r.facts() {
		p.add("<tr>")
		p.in("th", f[0])
		p.in("td", f[1])
		p.add("</tr>\n")
	}
	p.add("</table></div>\n")
}

func (p *page) findings(r drawing) {
	more := max(0, len(r.Findings)-mostHTMLFindings)
	var lines []string
	for _, f := range r.Findings[:len(r.Findings)-more] {
		lines = append(lines, Line(f))
	}
	p.section("Findings", lines)
	p.left(more)
}

// left says how many rows are not shown, if there are any.
func (p *page) left(n int) {
	if n > 0 {
		p.note(fmt.Sprintf("%d more; --json has all.", n))
	}
}

func (p *page) table(t table) {
	p.h2(t.title)
	p.note(t.note)
	p.add(`<div class="wide"><table><tr>`)
	for _, h := range t.head {
		p.in("th", h)
	}
	p.add("</tr>\n")
	for i, row := range t.rows {
		p.add(map[bool]string{true: `<tr class="bad">`, false: "<tr>"}[t.bad[i]])
		for _, cell := range row {
			p.in("td", cell)
		}
		p.add("</tr>\n")
	}
	p.add("</table></div>\n")
	p.left(t.left)
}

// facts are the figures at the top of the page.
func (r drawing) facts() [][2]string {
	var all [][2]string
	add := func(name, value string) {
		if value != "" {
			all = append(all, [2]string{name, value})
		}
	}
	add("Case", r.Made.Case)
	add("Operator", r.Subject)
	if len(r.Shape) > 2 {
		state := strings.ReplaceAll(strings.Trim(fmt.Sprint(r.Shape[2:]), "[]"), " ", "×")
		add("States", fmt.Sprintf("%d realizations of %d states, %s", r.Shape[0], r.Shape[1], state))
	}
	add("Claim", r.Claim)
	add("Command", r.Made.Command)
	add("Made", r.Made.When)
	add("Keeps", r.Contract)
	if r.FirstStep >= 0 {
		add("First faulty step", fmt.Sprint(r.FirstStep))
	}
	if r.FirstRealization >= 0 {
		add("Realization", fmt.Sprint(r.FirstRealization))
	}
	add("Layer", r.FirstLayer)
	add("Place", r.Slice)
	add("Diagnosis", r.Diagnosis)
	if e := r.OneStep; e != (report.StepError{}) {
		s := fmt.Sprintf("largest %s, mean %s", words.Three(float64(e.MaxAbs)), words.Three(float64(e.MeanAbs)))
		if finite(float64(e.RMSOverExpected)) {
			s += fmt.Sprintf("; RMS %s of what is expected", words.Three(float64(e.RMSOverExpected)))
		}
		add("Error of one step", s)
	}
	if e := r.Expected; e != (report.StepError{}) {
		add("Expected", fmt.Sprintf("largest %s, mean %s", words.Three(float64(e.MaxAbs)), words.Three(float64(e.MeanAbs))))
	}
	return all
}

// chart draws what single steps are off by, over the steps.
func (r drawing) chart() string {
	if len(r.Steps) == 0 {
		return ""
	}
	var x, rms, re, peak []float64
	for _, s := range r.Steps {
		x = append(x, float64(s.Step))
		rms = append(rms, math.Sqrt(float64(s.R64)))
		re = append(re, float64(s.Re))
		peak = append(peak, float64(s.Peak))
	}
	k := svg.Chart{W: 860, H: 300, XLabel: "step", Across: []svg.Mark{{At: 1, Name: "expected"}}}
	for _, s := range []svg.Series{
		{Name: "RMS of E/s", X: x, Y: rms}, {Name: "Re", X: x, Y: re}, {Name: "peak |E|/s", X: x, Y: peak},
	} {
		if slices.ContainsFunc(s.Y, func(y float64) bool { return y > 0 }) {
			k.Series = append(k.Series, s)
		}
	}
	if len(k.Series) == 0 {
		return ""
	}
	if r.Horizon != nil {
		k.Upward = append(k.Upward, svg.Mark{At: float64(*r.Horizon), Name: "horizon"})
	}
	if r.FirstStep >= 0 {
		k.Upward = append(k.Upward, svg.Mark{At: float64(r.FirstStep), Name: "first faulty step"})
	}
	return k.String()
}

// bars draws the histogram of distances in ulps, up to its last bucket.
func (r drawing) bars() string {
	last := -1
	for k, n := range r.Ulps {
		if n > 0 {
			last = k
		}
	}
	if last < 0 {
		return ""
	}
	var labels []string
	for k := range r.Ulps[:last+1] {
		switch label := r.Ulps.Label(k); {
		case k < 3 || k == len(r.Ulps)-1:
			labels = append(labels, label)
		default: // the range by its end
			_, end, _ := strings.Cut(label, "-")
			labels = append(labels, "≤"+end)
		}
	}
	return svg.Bars(min(860, 90*float64(last+1)+40), 220, labels, r.Ulps[:last+1])
}

// mostShown deviations have the strongest colours: beyond that all is equally wrong.
const mostShown = 12

// maps draws the error maps, on one scale: that of the largest finite number, but no more than mostShown.
func (p *page) maps(r drawing) {
	limit := 0.0
	shown := r.Maps[:min(len(r.Maps), mostMaps)]
	for _, m := range shown {
		for _, v := range m.Values {
			if a := math.Abs(v); finite(a) {
				limit = max(limit, a)
			}
		}
	}
	if limit == 0 {
		return
	}
	said := "Error over what is expected, blue below zero, red above."
	if limit > mostShown {
		limit = mostShown
		said += fmt.Sprintf(" Numbers beyond %d have the colours of the scale's ends.", mostShown)
	}
	p.h2("Where in the image")
	p.note(said)
	p.add(`<div class="maps">`)
	for _, m := range shown {
		p.add("<figure>", svg.Heat(190, m.H, m.W, m.Values, limit)) // the svg package escapes texts
		p.in("figcaption", m.Title)
		p.add("</figure>\n")
	}
	p.add("</div>\n", svg.Legend(240, limit), "\n")
}
