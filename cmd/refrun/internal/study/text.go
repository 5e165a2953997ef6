package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/study"
)

// studyWhat says in words how a twin differs from the reference.
func studyWhat(twin, noise string) string {
	switch {
	case twin == study.Moved:
		return "start moved by 1e-6"
	case twin == study.Other && noise == "none":
		return "start moved by 0.01"
	case twin == study.Other:
		return "another noise seed"
	}
	return twin
}

func printStudy(c *cli.Command, cs *rollout.Case, r *studyReport) {
	c.Printf("%s: %s, policy %s\n", cli.Clean(r.Case), setup.OperatorText(cs.Operator), cs.Rollout.Policy)
	which := "the case's own operator"
	if r.weights != "" {
		which = "the operator with the weights of " + cli.Clean(r.weights)
	}
	if r.WeightSeeds != nil {
		which = fmt.Sprintf("%s (weight seeds %s)",
			cli.Plural(len(r.WeightSeeds), "operator"), strings.Trim(fmt.Sprint(r.WeightSeeds), "[]"))
	}
	c.Printf("%s, %s, %s on a %dx%d grid\n",
		which, cli.Plural(r.Realizations, "realization"), cli.Plural(r.Steps, "step"), r.Grid[0], r.Grid[1])
	low, high := r.stds()
	c.Printf("reference %s, contract %s; its states' std is %s to %s\n", r.Mode, r.Contract, cli.Num(low), cli.Num(high))
	c.Printf("float16 as %s, bfloat16 likewise\n", r.row("float16").Mode)
	for _, n := range r.Notes {
		c.Printf("note: %s\n", n)
	}
	printStudyTable(c, r)
	if r.Budget != nil {
		c.Print(r.decided())
	}
	c.Printf("\n")
	for _, p := range r.story() {
		c.Print(cli.Wrap(p, 0))
	}
	if r.PictureFile != "" {
		c.Printf("\npicture written to %s\n", cli.Clean(r.PictureFile))
	}
	c.Printf("\n%.3g s on %s (%s)\n", r.Seconds, cli.Plural(r.Threads, "thread"), r.ISA)
}

// printStudyTable prints the twins: one step, path, horizon.
func printStudyTable(c *cli.Command, r *studyReport) {
	c.Printf("\nMean absolute difference from the float32 rollout")
	if n := len(r.Operators); n > 1 {
		c.Printf(", mean over the %d operators", n)
	}
	c.Printf(":\n\n%-20s %-10s  whole rollout, after step\n%-20s %-10s", "", "one step,", "", "same state")
	steps := studyColumns(r.Steps)
	for _, t := range steps {
		c.Printf(" %8d", t)
	}
	c.Printf("  horizon\n")
	for i, row := range r.Rows {
		one := "none"
		if row.OneStep != nil {
			one = num3(row.OneStep.MeanAbs)
		}
		c.Printf("%-20s %-10s", row.What, one)
		for _, t := range steps {
			var at []study.Distance
			for _, o := range r.Operators {
				at = append(at, o.Twins[i].Path[t-1])
			}
			c.Printf(" %8s", num3(study.Mean(at).MeanAbs))
		}
		c.Printf("  %s\n", strings.TrimPrefix(horizons(row.Horizons, row.Measured), "step "))
	}
}

// story is what the table means, a paragraph a point.
func (r *studyReport) story() []string {
	half, bf := r.row("float16"), r.row("bfloat16")
	s := []string{fmt.Sprintf("Arithmetic: in one step from the same state, "+
		"bfloat16 is %s times as far from float32 as float16. At the end of the rollout it is %s times as far.", over(
		bf.OneStep.MeanAbs, half.OneStep.MeanAbs,
	), over(bf.End.MeanAbs, half.End.MeanAbs))}
	if f := r.NoiseFloor; f != nil {
		s = append(s, fmt.Sprintf(
			"Noise: another seed moves a state by %s in one step, %s times float16's error and %s times bfloat16's.",
			num3(f.MeanAbs), over(f.MeanAbs, half.OneStep.MeanAbs), over(f.MeanAbs, bf.OneStep.MeanAbs),
		))
	}
	s = append(s, "Growth: "+r.growthStory())
	return append(s, "Horizon: "+r.horizonStory())
}

// horizonStory says from which step on paths say nothing, that none has come so far, or
// that this cannot be told.
func (r *studyReport) horizonStory() string {
	operators := len(r.Operators)
	var lost, never, unknown []string
	for _, row := range r.Rows {
		if row.Twin == study.Other {
			continue
		}
		n, open := 0, 0
		for k, h := range row.Horizons {
			if h != nil {
				n++
			} else if !row.Measured[k] {
				open++
			}
		}
		switch {
		case n > 1 && n == operators:
			lost = append(lost, fmt.Sprintf("%s at %s", row.What, horizons(row.Horizons, row.Measured)))
		case n > 0 && operators > 1:
			lost = append(lost, fmt.Sprintf("%s with %d of %d operators (%s)",
				row.What, n, operators, horizons(row.Horizons, row.Measured)))
		case n > 0:
			lost = append(lost, fmt.Sprintf("%s from step %d", row.What, *row.Horizons[0]))
		case open > 0:
			unknown = append(unknown, row.What)
		default:
			never = append(never, row.What)
		}
	}
	var s []string
	switch {
	case lost != nil:
		s = append(s, "paths lose the reference: "+strings.Join(lost, ", ")+
			". From there on, half as far away as unrelated paths stay, a path says nothing about its arithmetic: "+
			"compare single steps, and beyond the horizon only statistics.")
	case unknown == nil:
		return fmt.Sprintf("none within %d steps. No path has come half as far from the reference as unrelated paths "+
			"stay or may stay, so the paths still tell the arithmetics apart.", r.Steps)
	}
	if unknown != nil {
		s = append(s, fmt.Sprintf("not measured for %s: after %d steps %s has not settled at a distance, "+
			"so how far unrelated paths stay is not known, and these are too far away to rule it out.",
			strings.Join(unknown, ", "), r.Steps, r.row(study.Other).What))
	}
	if never != nil {
		s = append(s, fmt.Sprintf("Not lost within %d steps: %s.", r.Steps, strings.Join(never, ", ")))
	}
	return strings.Join(s, " ")
}

func (r *studyReport) growthStory() string {
	if r.GrowthPerStep == nil {
		return fmt.Sprintf("none was found within %d steps. The start moved by 1e-6 grows less than tenfold, "+
			"or not exponentially.", r.Steps)
	}
	least, most, n := *r.GrowthPerStep, *r.GrowthPerStep, 0
	from, to := r.Steps, 0
	for _, o := range r.Operators {
		if g := o.Growth; g != nil {
			least, most, n = min(least, g.PerStep), max(most, g.PerStep), n+1
			from, to = min(from, g.From), max(to, g.To)
		}
	}
	s := fmt.Sprintf("a small difference grows %s-fold per step", num3(*r.GrowthPerStep))
	if len(r.Operators) > n {
		s += fmt.Sprintf(" with %d of %d operators", n, len(r.Operators))
	}
	if n > 1 {
		s += fmt.Sprintf(" (median of %s to %s)", num3(least), num3(most))
	}
	return s + fmt.Sprintf(": a fit to the start moved by 1e-6, "+
		"between 10 times the rounding error of a step and a tenth of the std, steps %d to %d.", from, to)
}

// stds returns the least and the greatest std of the reference's states.
func (r *studyReport) stds() (low, high diff.Number) {
	low, high = r.Operators[0].Std[0], r.Operators[0].Std[0]
	for _, o := range r.Operators {
		low, high = min(low, slices.Min(o.Std)), max(high, slices.Max(o.Std))
	}
	return low, high
}

// studyColumns returns the steps a table shows of n.
func studyColumns(n int) []int {
	steps := []int{1, 5}
	for t := 10; t < n; t *= 2 {
		steps = append(steps, t)
	}
	steps = append(steps, n)
	var at []int
	for _, i := range cli.Sample(len(steps), 4) {
		at = append(at, steps[i])
	}
	return at
}

// horizons says in which steps the horizons of the operators lie.
func horizons(h []*int, measured []bool) string {
	var at []int
	never, unknown := 0, 0
	for k, t := range h {
		switch {
		case t != nil:
			at = append(at, *t)
		case measured[k]:
			never++
		default:
			unknown++
		}
	}
	var s []string
	if at != nil {
		s = append(s, fmt.Sprintf("step %d", slices.Min(at)))
		if slices.Max(at) > slices.Min(at) {
			s[0] += fmt.Sprintf(" to %d", slices.Max(at))
		}
	}
	count := func(n int, what string) {
		switch {
		case n == len(h):
			s = append(s, what)
		case n > 0:
			s = append(s, fmt.Sprintf("%d %s", n, what))
		}
	}
	count(never, "not yet")
	count(unknown, "not measured")
	return strings.Join(s, ", ")
}

// num3 formats a figure with three significant digits, trailing zeros included.
func num3(x diff.Number) string {
	v := float64(x)
	switch {
	case v == 0:
		return "0"
	case v >= 100 && v < 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 && v < 1000:
		return fmt.Sprintf("%.1f", v)
	case v >= 1 && v < 1000:
		return fmt.Sprintf("%.2f", v)
	case v >= 0.1 && v < 1000:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2e", v)
}

// over formats a ratio, "no number of" where there is none.
func over(a, b diff.Number) string {
	if !(b > 0) || !(a/b < 1e300) {
		return "(no number of)"
	}
	return num3(a / b)
}
