package render

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/svg"
	"github.com/refrun/refrun/oracle/report"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// mostMaps is the number of error maps that a page shows.
const mostMaps = 16

// mostHTMLFindings is the number of findings that a page shows.
const mostHTMLFindings = 4 * mostFindings

// WriteHTML writes the report as one page that needs nothing else: no script,
// no font, no file beside it.
func WriteHTML(w io.Writer, of *report.Report) error {
	r := drawing{of}
	p := htmlPage{Report: of, Class: "fail", Where: r.where(), Fate: r.fate()}
	switch {
	case r.Verdict.Passed():
		p.Class = "pass"
	case r.Verdict == report.NoPower:
		p.Class = "blind"
	}
	p.MoreFindings = max(0, len(r.Findings)-mostHTMLFindings)
	for _, f := range r.Findings[:len(r.Findings)-p.MoreFindings] {
		p.Lines = append(p.Lines, lineOf(f))
	}
	for _, b := range r.Blind {
		p.BlindLines = append(p.BlindLines, blindLine(b))
	}
	for _, t := range r.tables() {
		h := htmlTable{Title: t.title, Note: t.note, Head: t.head, Left: t.left}
		for i, row := range t.rows {
			h.Rows = append(h.Rows, htmlRow{row, t.bad[i]})
		}
		p.Tables = append(p.Tables, h)
	}
	p.Facts = r.facts()
	p.Chart = template.HTML(r.chart()) // the svg package escapes texts
	p.Bars = template.HTML(r.bars())
	p.Maps, p.MapLegend = r.maps()
	return pageTemplate.Execute(w, p)
}

type htmlPage struct {
	*report.Report
	Class, Where, Fate string
	Lines, BlindLines  []string
	MoreFindings       int
	Facts              [][2]string
	Tables             []htmlTable
	Chart, Bars        template.HTML
	Maps               []htmlMap
	MapLegend          template.HTML
}

type htmlTable struct {
	Title, Note string
	Head        []string
	Rows        []htmlRow
	Left        int
}

type htmlRow struct {
	Cells []string
	Bad   bool
}

type htmlMap struct {
	Title   string
	Picture template.HTML
}

// facts are the figures at the top of the page.
func (r drawing) facts() [][2]string {
	var all [][2]string
	add := func(name, value string) {
		if value != "" {
			all = append(all, [2]string{name, value})
		}
	}
	add("Operator", r.Subject)
	if r.Shape != [5]int{} {
		add("States", fmt.Sprintf("%d realizations of %d states, %d×%d×%d", r.Shape[0], r.Shape[1], r.Shape[2], r.Shape[3], r.Shape[4]))
	}
	add("Claim", r.Claim)
	add("Keeps", r.Contract)
	add("Pattern", r.Pattern)
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
		s := fmt.Sprintf("largest %s, mean %s", report.Three(float64(e.MaxAbs)), report.Three(float64(e.MeanAbs)))
		if finite(float64(e.RMSOverExpected)) {
			s += fmt.Sprintf("; RMS %s of what is expected", report.Three(float64(e.RMSOverExpected)))
		}
		add("Error of one step", s)
	}
	if e := r.Expected; e != (report.StepError{}) {
		add("Expected", fmt.Sprintf("largest %s, mean %s", report.Three(float64(e.MaxAbs)), report.Three(float64(e.MeanAbs))))
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
	for _, s := range []svg.Series{{Name: "RMS of E/s", X: x, Y: rms}, {Name: "Re", X: x, Y: re}, {Name: "peak |E|/s", X: x, Y: peak}} {
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

// maps draws the error maps, on one scale: that of the largest finite number,
// but no more than 12, beyond which all is equally wrong.
func (r drawing) maps() (all []htmlMap, legend template.HTML) {
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
		return nil, ""
	}
	limit = min(limit, 12)
	for _, m := range shown {
		all = append(all, htmlMap{m.Title, template.HTML(svg.Heat(190, m.H, m.W, m.Values, limit))})
	}
	return all, template.HTML(svg.Legend(240, limit))
}
