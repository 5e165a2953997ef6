package render

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/report"
)

// mostFindings is the number of findings that the text shows.
const mostFindings = 5

// drawing is a report on its way to a reader.
type drawing struct{ *report.Report }

// Text returns the report for a person: the verdict, what it means, the tables
// of the evidence, and what could not be seen.
func Text(r *report.Report) string { return drawing{r}.text() }

func (r drawing) text() string {
	var b strings.Builder
	subject := r.Subject
	if len(r.Shape) > 0 { // of a rollout
		subject += fmt.Sprintf("; states %v", r.Shape)
	}
	b.WriteString(wrap("refrun check  ", subject))
	b.WriteString(wrap("claim    ", r.Claim))
	if at := r.where(); at != "" {
		b.WriteString(wrap("VERDICT  "+string(r.Verdict)+"  ", at))
	} else {
		fmt.Fprintf(&b, "VERDICT  %s\n", r.Verdict)
	}
	if r.Verdict.Failed() && !r.Fails() {
		b.WriteString(wrap("ONLY     ", "nothing of it is proved, and only what is proved was asked for: the exit code is 0"))
	}
	for _, s := range r.Unjudged[:min(len(r.Unjudged), mostFindings)] {
		b.WriteString(wrap("UNJUDGED ", s))
	}
	if n := len(r.Unjudged) - mostFindings; n > 0 {
		fmt.Fprintf(&b, "         (%d more)\n", n)
	}
	b.WriteString(wrap("READ     ", r.Reason))
	for _, f := range r.Findings[:min(len(r.Findings), mostFindings)] {
		b.WriteString(wrap("found    ", Line(f)))
	}
	if n := len(r.Findings) - mostFindings; n > 0 {
		fmt.Fprintf(&b, "         (%d more)\n", n)
	}
	b.WriteByte('\n')
	for _, table := range r.tables() {
		table.text(&b)
	}
	if e := r.OneStep; e != (report.StepError{}) {
		s := fmt.Sprintf("largest error %s, mean %s", words.Three(float64(e.MaxAbs)), words.Three(float64(e.MeanAbs)))
		if x := r.Expected; x != (report.StepError{}) {
			s += fmt.Sprintf("; expected %s and %s; RMS over expected %s", words.Three(float64(x.MaxAbs)),
				words.Three(float64(x.MeanAbs)), words.Three(float64(e.RMSOverExpected)))
		}
		b.WriteString(wrap("one step  ", s))
	}
	if s := r.fate(); s != "" {
		b.WriteString(wrap("rollout  ", s))
	}
	for _, x := range r.Blind {
		b.WriteString(wrap("BLIND    ", blindLine(x)))
	}
	for _, s := range r.Skipped {
		b.WriteString(wrap("SKIPPED  ", s))
	}
	for _, n := range r.Notes {
		b.WriteString(wrap("note     ", n))
	}
	return b.String()
}

// where says the place of the first fault in a few words, "" if there is none.
func (r drawing) where() string {
	s := ""
	if r.FirstStep >= 0 {
		s += fmt.Sprintf("  first at step %d", r.FirstStep)
		if r.FirstRealization >= 0 {
			s += fmt.Sprintf(", realization %d", r.FirstRealization)
		}
	}
	if r.FirstLayer != "" {
		s += ", layer " + r.FirstLayer
	}
	s += words.Within(r.Slice, r.FirstRealization)
	if r.Diagnosis != "" {
		s += ": " + r.Diagnosis
	}
	if s != "" && !strings.HasPrefix(s, "  ") {
		s = "  " + strings.TrimLeft(s, ",: ")
	}
	return s
}

// fate says what comparisons of free rollouts are worth.
func (r drawing) fate() string {
	s := ""
	if r.GrowthPerStep != nil {
		s = fmt.Sprintf("a small difference becomes %s times as large in a step", words.Three(float64(*r.GrowthPerStep)))
	}
	if r.Horizon != nil {
		if s != "" {
			s += "; "
		}
		s += fmt.Sprintf("from step %d on a comparison of free rollouts says nothing", *r.Horizon)
	}
	return s
}

// Line is a finding in one line.
func Line(f report.Finding) string {
	s := string(f.Verdict)
	if f.Step >= 0 {
		s += fmt.Sprintf(" at step %d", f.Step)
		if f.Realization >= 0 {
			s += fmt.Sprintf(", realization %d", f.Realization)
		}
	}
	if f.Layer != "" {
		s += ", " + f.Layer
	}
	s += words.Within(f.Slice, f.Realization)
	s += " (" + f.Gate
	if f.Known != "" {
		s += ", " + f.Known
	}
	if f.Chance > 0 {
		s += " " + words.Three(f.Chance)
	}
	if f.Excess > 1 && finite(float64(f.Excess)) {
		s += fmt.Sprintf(", %s times its limit", words.Three(float64(f.Excess)))
	}
	s += "): " + f.Said()
	if f.Diagnosis != "" {
		s += " [" + f.Diagnosis + "]"
	}
	return s
}

// blindLine is a blind spot in one line.
func blindLine(x report.Blind) string {
	s := x.Name
	if c := float64(x.Least); finite(c) && c > 0 {
		s += fmt.Sprintf(": visible from %s times its usual size on", words.Three(c))
	} else {
		s += ": not visible at any size"
	}
	if x.Probe != "" {
		s += "; the probe " + x.Probe + " shows it"
	}
	if x.Needs != "" {
		s += "; it needs " + x.Needs
	}
	return s
}

// text writes a table with aligned columns. Of one that is too wide the first column, which
// has the names, stands in lines of its own; of one that is too wide even so, each row is a list. What the
// columns mean comes last.
func (t table) text(b *strings.Builder) {
	lines, ok := aligned(append([][]string{t.head}, t.rows...), "")
	if !ok {
		var rest [][]string
		for _, row := range append([][]string{t.head}, t.rows...) {
			rest = append(rest, row[1:])
		}
		lines, ok = aligned(rest, "  ")
		for i, row := range rest {
			if !ok {
				lines[i] = t.list(row)
			}
		}
		lines[0] = t.head[0] + "\n" + lines[0]
		for i, row := range t.rows {
			lines[1+i] = row[0] + "\n" + lines[1+i]
		}
		if !ok {
			lines = lines[1:]
		}
	}
	b.WriteString(strings.Join(lines, ""))
	if t.left > 0 {
		fmt.Fprintf(b, "(%d more)\n", t.left)
	}
	if t.note != "" {
		b.WriteString(wrap("", t.note))
	}
	b.WriteByte('\n')
}

// aligned returns rows as lines with columns of the same width, and whether they fit.
func aligned(rows [][]string, indent string) (lines []string, fit bool) {
	var all strings.Builder
	w := tabwriter.NewWriter(&all, 0, 1, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, indent+strings.Join(row, "\t"))
	}
	w.Flush()
	fit = true
	for line := range strings.Lines(all.String()) {
		line = strings.TrimRight(line, " \n")
		fit = fit && utf8.RuneCountInString(line) <= width
		lines = append(lines, line+"\n")
	}
	return lines, fit
}

// list is a row without its name: what each column is called, and what it says.
func (t table) list(row []string) string {
	var all []string
	for i, cell := range row {
		if cell != "" {
			all = append(all, strings.TrimSpace(t.head[1+i]+" "+cell))
		}
	}
	return wrap("  ", strings.Join(all, ", "))
}

// width is how wide a terminal is at least.
const width = 80

// wrap breaks a text into lines of at most width characters, the first of which
// begins with head and the others with as many spaces.
func wrap(head, text string) string {
	var b strings.Builder
	line := head
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(head)) + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}
