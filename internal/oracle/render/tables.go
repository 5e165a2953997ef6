package render

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/oracle/report"
)

// table is a part of the evidence, for text and HTML alike.
type table struct {
	title, note string
	head        []string
	rows        [][]string
	bad         []bool // rows that are wrong; nil if none is
	left        int    // rows that were left out
}

// mostRows is the number of rows of a table for people; JSON has them all.
const mostRows = 12

// tables returns what there is to show, the first faulty step and what is wrong
// always among it.
func (r drawing) tables() []table {
	var all []table
	for _, t := range []table{r.stepTable(), r.layerTable(), r.noiseTable(), r.worstTable()} {
		if len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

func (t *table) add(bad bool, row ...string) {
	t.rows, t.bad = append(t.rows, row), append(t.bad, bad)
}

// some returns the indices of at most mostRows of n rows: the first and the
// last, those that must be there, and even steps between.
func some(n int, must func(i int) bool) (keep []int, left int) {
	if n <= mostRows {
		for i := range n {
			keep = append(keep, i)
		}
		return keep, 0
	}
	chosen := []int{0, n - 1}
	for i := 0; i < n && len(chosen) < mostRows; i++ {
		if must(i) && !slices.Contains(chosen, i) {
			chosen = append(chosen, i)
		}
	}
	for k := 0; len(chosen) < mostRows; k++ {
		if i := k * (n - 1) / mostRows; !slices.Contains(chosen, i) {
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	return chosen, n - len(chosen)
}

func (r drawing) stepTable() table {
	t := table{title: "Steps", head: []string{"step", "max|E|", "mean|E|", "R64", "Re", "peak", ""},
		note: "E is the device's next state minus exact arithmetic from the device's own state. " +
			"R64 is the mean of (E/s)², s what the claim makes one expect of an element; " +
			"Re the RMS distance from the contract over s; peak the largest |E|/s."}
	// which only known draws have
	if r.Noise.Stream == words.UnknownNoise &&
		!slices.ContainsFunc(r.Steps, func(s report.StepRow) bool { return s.Re > 0 }) {
		t.note = "E is the device's next state minus the exact step without noise from the device's own state. " +
			"R64 is the mean of (E/s)², s what the specified noise makes one expect of an element; " +
			"peak the largest |E|/s."
	}
	if len(r.Fields) > 0 {
		t.head = slices.Insert(t.head, 3, "rel. L2", "VRMSE")
		t.note += " rel. L2 is the norm of E over that of the exact state and VRMSE the RMS of E over its standard " +
			"deviation, the means of all channels."
	}
	bad := func(i int) bool { return r.Steps[i].Violation }
	keep, left := some(len(r.Steps), bad)
	for _, i := range keep {
		s, mark := r.Steps[i], ""
		if s.Violation {
			mark = "wrong"
		}
		row := []string{fmt.Sprint(s.Step), words.Three(float64(s.MaxAbs)), words.Three(float64(s.MeanAbs)),
			words.Three(float64(s.R64)), words.Three(float64(s.Re)), words.Three(float64(s.Peak)), mark}
		if len(r.Fields) > 0 {
			row = slices.Insert(row, 3, r.relative(s.Step)...)
		}
		t.add(s.Violation, row...)
	}
	t.left = left
	return t
}

// relative is the relative L2 error and VRMSE of a step in words.
func (r drawing) relative(step int) []string {
	of := slices.DeleteFunc(slices.Clone(r.Fields), func(f diff.Field) bool { return f.Step != step })
	if len(of) == 0 {
		return []string{"", ""}
	}
	mean := diff.MeanFields(of)
	return []string{words.Three(float64(mean.RelL2)), words.Three(float64(mean.VRMSE))}
}

func (r drawing) layerTable() table {
	t := table{title: "Layers", head: []string{
		"layer", "op", "elems", "violations", "flips (limit)", "bias z", "var", "max|E|", "slice",
	}, note: "Each layer with the inputs that the device gave it. A violation lies outside of every result " +
		"that correct kernels may have; max|E| is the largest error over that bound; flips are elements that are not " +
		"the rounded exact value; var is the variance of the error over the expected one."}
	bad := func(i int) bool {
		l := r.Layers[i]
		return l.Violations > 0 || slices.ContainsFunc(r.Findings,
			func(f report.Finding) bool { return f.OfLayers() && f.Layer == l.Name && f.Step == l.Step })
	}
	several := slices.ContainsFunc(r.Layers, func(l report.LayerRow) bool { return l.Step != r.Layers[0].Step })
	keep, left := some(len(r.Layers), bad)
	for _, i := range keep {
		l := r.Layers[i]
		name := l.Name
		if several {
			name = fmt.Sprintf("%s, step %d", name, l.Step)
		}
		t.add(bad(i), name, l.Op, fmt.Sprint(l.Elements), fmt.Sprint(l.Violations),
			fmt.Sprintf("%d (%s)", l.Flips, words.Three(float64(l.FlipLimit))), words.Three(float64(l.BiasZ)),
			words.Three(float64(l.Variance)), words.Three(float64(l.MaxE)), l.WorstSlice)
	}
	t.left = left
	return t
}

func (r drawing) noiseTable() table {
	t := table{title: "Noise: " + r.Noise.Stream, head: []string{"noise", "value", "want", "z", ""},
		note: "What the recorded states say about the noise: statistics of it, and its slopes on the specified draws."}
	for _, x := range r.Noise.Tests {
		mark := ""
		if !x.OK {
			mark = "wrong"
		}
		t.add(!x.OK, x.Name, words.Three(float64(x.Value)), words.Three(float64(x.Want)), words.Three(float64(x.Z)), mark)
	}
	return t
}

func (r drawing) worstTable() table {
	t := table{title: "Worst elements", head: []string{
		"worst element", "exact", "rounded", "admissible", "got", "error/expected",
	}, note: "Places are step, realization and [channel,row,column]; " +
		"numbers in hexadecimal are the bits of the format."}
	for _, x := range r.Worst {
		at := fmt.Sprintf("step %d, r%d [%d,%d,%d]", x.Step, x.Realization, x.C, x.H, x.W)
		if x.Layer != "" {
			at += " " + x.Layer
		}
		span := ""
		if x.Low != "" || x.High != "" {
			span = x.Low + " to " + x.High
		}
		got := fmt.Sprintf("%.7g", float64(x.GotValue))
		if x.Got != "" {
			got += " (" + x.Got + ")"
		}
		t.add(true, at, fmt.Sprintf("%.9g", float64(x.Exact)), x.Rounded, span, got, words.Three(float64(x.Error)))
	}
	return t
}
