package study

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/study"
)

// aStudy is a report of two operators: float16 and bfloat16 lose the reference, the
// moved start does not.
func aStudy() *studyReport {
	five, nine := 5, 9
	d := func(v diff.Number) study.Distance { return study.Distance{MeanAbs: v, RMSOverStd: v} }
	one := func(v diff.Number) *study.Distance { x := d(v); return &x }
	both := []bool{true, true}
	r := &studyReport{Steps: 8, Realizations: 1, NoiseFloor: one(4), WeightSeeds: []uint64{0, 1},
		GrowthPerStep: &[]diff.Number{1.4}[0],
		Rows: []studyRow{
			{Twin: study.Moved, What: "start moved by 1e-6", Horizons: []*int{nil, nil}, Measured: both},
			{Twin: study.Other, What: "another noise seed", OneStep: one(4), Horizons: []*int{nil, nil}, Measured: both},
			{Twin: "float16", What: "float16", OneStep: one(0.5), End: d(3), Horizons: []*int{&five, &five}, Measured: both},
			{Twin: "bfloat16", What: "bfloat16", OneStep: one(4), End: d(6), Horizons: []*int{&five, &nine}, Measured: both},
		},
	}
	for _, growth := range []diff.Number{1.3, 1.5} {
		o := &study.Study{Std: []diff.Number{1}, Growth: &study.GrowthFit{PerStep: growth, From: 3, To: 30}}
		for range r.Rows {
			path := make([]study.Distance, r.Steps)
			for i := range path {
				path[i] = d(0.1)
			}
			o.Twins = append(o.Twins, study.Twin{Path: path, OneStep: path})
		}
		r.Operators = append(r.Operators, o)
	}
	return r
}

// oneOperator leaves one of them.
func oneOperator(r *studyReport) {
	r.Operators, r.WeightSeeds = r.Operators[:1], nil
	for i := range r.Rows {
		r.Rows[i].Horizons, r.Rows[i].Measured = r.Rows[i].Horizons[:1], r.Rows[i].Measured[:1]
	}
}

// neverLost takes the horizons away.
func neverLost(r *studyReport) {
	for i := range r.Rows {
		clear(r.Rows[i].Horizons)
	}
}

func studyPairs(t *testing.T) []clitest.Pair {
	dir := clitest.NewFolder(t).Write()
	studied := func(flags ...string) string {
		return lines(t, append([]string{"study", "--case", dir, "--steps", "8", "--realizations", "1"}, flags...)...)
	}
	// tell prints the report with some facts changed, on lines without end.
	tell := func(changes ...func(*studyReport)) string {
		r := aStudy()
		for _, change := range changes {
			change(r)
		}
		text := clitest.Printed(func(c *cli.Command) { printStudy(c, &rollout.Case{}, r) })
		return text + strings.Join(r.story(), "\n")
	}
	is := tell()
	unmeasured := func(r *studyReport) { r.Rows[0].Measured = []bool{true, false} }
	decided := func(moved bool, good ...bool) string {
		budget := diff.Number(0.01)
		r := aStudy()
		r.Budget, r.Decisions = &budget, []studyDecision{{study.Moved, moved, 0.02, 7}}
		for i, g := range good {
			r.Decisions = append(r.Decisions, studyDecision{r.Rows[2+i].Twin, g, 0.03, 5})
		}
		return strings.ReplaceAll(clitest.Printed(func(c *cli.Command) { c.Print(r.decided()) }), "\n", " ")
	}
	yes, no, chaos := decided(true, true, true), decided(true, true, false), decided(false, true, false)
	noGrowth := func(r *studyReport) { r.GrowthPerStep, r.Operators[0].Growth, r.Operators[1].Growth = nil, nil, nil }
	someGrowth := func(r *studyReport) { r.Operators[1].Growth = nil }
	someLost := func(r *studyReport) { r.Rows[2].Horizons[1] = nil }
	given := func(r *studyReport) { r.weights = "w.safetensors" }
	of := func(seeds []uint64, overflow *rollout.Overflow) string {
		r := aStudy()
		r.WeightSeeds, r.Operators[0].Twins[2].Overflow = seeds, overflow
		return strings.Join(studyNotes(r), "\n")
	}
	what := func(twin, noise string) string { return studyWhat(twin, noise) }
	over := &rollout.Overflow{Step: 1, Layer: "a", Elements: 1}
	return []clitest.Pair{
		{Says: "the case's own operator", Is: tell(oneOperator), IsNot: is},
		{Says: "the case's own operator", Is: tell(oneOperator), IsNot: tell(oneOperator, given)},
		{Says: "the case's own operator", Is: studied(), IsNot: studied("--weights",
			filepath.Join(dir, "weights.safetensors"))},
		{Says: "the operator with the weights of w.safetensors", Is: tell(oneOperator, given), IsNot: tell(oneOperator)},
		{Says: "2 operators (weight seeds 0 1)", Is: is, IsNot: tell(oneOperator)},
		{Says: ", mean over the 2 operators", Is: is, IsNot: tell(oneOperator)},
		{Says: "picture written to a.svg", Is: tell(func(r *studyReport) { r.PictureFile = "a.svg" }), IsNot: is},
		{Says: "Is it within 1.00 % of the std at each of 8 steps?", Is: yes, IsNot: is},
		{Says: "float16         yes: at most 3.00 % away, at step 5; one step 50.0 %", Is: yes, IsNot: decided(true, false,
			false)},
		{Says: "bfloat16        no: 3.00 % away at step 5; one step 400 %", Is: no, IsNot: yes},
		{Says: "A start moved by 1e-6 stays within it: what is beyond it is what the steps of that arithmetic add up to.",
			Is:    no,
			IsNot: chaos},
		{Says: "A start moved by 1e-6 stays within it", Is: no, IsNot: yes},
		{Says: "A start moved by 1e-6 is beyond it too, from step 7 on: the end of such a path says nothing about " +
			"arithmetic. Compare single steps and statistics.", Is: chaos, IsNot: no},
		{Says: "Arithmetic: in one step from the same state, bfloat16 is 8.00 times as far from float32 as float16. " +
			"At the end of the rollout it is 2.00 times as far.", Is: is,
			IsNot: tell(func(r *studyReport) { r.Rows[3].OneStep.MeanAbs = 2 })},
		{Says: "At the end of the rollout it is 2.00 times as far", Is: is,
			IsNot: tell(func(r *studyReport) { r.Rows[3].End.MeanAbs = 3 })},
		{Says: "(no number of)", Is: tell(func(r *studyReport) { r.Rows[2].End.MeanAbs = 0 }), IsNot: is},
		{Says: "Noise: another seed moves a state by 4.00 in one step, 8.00 times float16's error and 1.00 times bfloat16's.",
			Is: is, IsNot: tell(func(r *studyReport) { r.NoiseFloor = nil })},
		{Says: "a small difference grows 1.40-fold per step", Is: is, IsNot: tell(noGrowth)},
		{Says: ": a fit to the start moved by 1e-6, between 10 times the rounding error of a step and a tenth of the std, " +
			"steps 3 to 30.", Is: is, IsNot: tell(noGrowth)},
		{Says: " (median of 1.30 to 1.50)", Is: is, IsNot: tell(someGrowth)},
		{Says: " with 1 of 2 operators: a fit", Is: tell(someGrowth), IsNot: is},
		{Says: "Growth: none was found within 8 steps. The start moved by 1e-6 grows less than tenfold, " +
			"or not exponentially.", Is: tell(noGrowth), IsNot: tell(someGrowth)},
		{Says: "paths lose the reference: float16 at step 5, bfloat16 at step 5 to " +
			"9. From there on, half as far away as unrelated paths stay, a path says nothing about its arithmetic: " +
			"compare single steps, and beyond the horizon only statistics.", Is: is, IsNot: tell(neverLost)},
		{Says: "float16 with 1 of 2 operators (step 5, 1 not yet)", Is: tell(someLost), IsNot: is},
		{Says: "float16 from step 5", Is: tell(oneOperator), IsNot: is},
		{Says: "none within 8 steps. No path has come half as far from the reference as unrelated paths stay or may stay, " +
			"so the paths still tell the arithmetics apart.", Is: tell(neverLost), IsNot: is},
		{Says: "so the paths still tell the arithmetics apart", Is: tell(neverLost), IsNot: tell(neverLost, unmeasured)},
		{Says: "not measured for start moved by 1e-6: after 8 steps another noise seed has not settled at a distance, " +
			"so how far unrelated paths stay is not known, and these are too far away to rule it out.",
			Is: tell(unmeasured), IsNot: is},
		{Says: "Not lost within 8 steps: start moved by 1e-6.", Is: is,
			IsNot: tell(func(r *studyReport) { nine := 9; r.Rows[0].Horizons = []*int{&nine, &nine} })},
		{Says: "Not lost", Is: is, IsNot: tell(unmeasured)},
		{Says: "step 5 to 9\n", Is: is, IsNot: tell(neverLost)},
		{Says: "0.100 not yet", Is: is,
			IsNot: tell(func(r *studyReport) { five := 5; r.Rows[0].Horizons[0], r.Rows[1].Horizons[0] = &five, &five })},
		{Says: "not yet", Is: tell(neverLost), IsNot: horizons([]*int{nil}, []bool{false})},
		{Says: "not measured", Is: horizons([]*int{nil}, []bool{false}), IsNot: is},
		{Says: "start moved by 1e-6", Is: what(study.Moved, "counter"), IsNot: what(study.Other, "counter")},
		{Says: "start moved by 0.01", Is: what(study.Other, "none"), IsNot: what(study.Other, "counter")},
		{Says: "another noise seed", Is: what(study.Other, "counter"), IsNot: what(study.Other, "none")},
		{Says: "weight seed 3: float16 overflow: first at step 1", Is: of([]uint64{3, 4}, over), IsNot: of(nil, over)},
		{Says: "float16 overflow", Is: of(nil, over), IsNot: of(nil, nil)},
	}
}

// picturePairs are the captions.
func picturePairs(t *testing.T) []clitest.Pair {
	draw := func(changes ...func(*studyReport)) string {
		r := aStudy()
		for _, change := range changes {
			change(r)
		}
		path := filepath.Join(t.TempDir(), "a.svg")
		if err := r.draw(path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return captions(string(b))
	}
	is := draw()
	all := func(change func(*study.Twin)) func(*studyReport) {
		return func(r *studyReport) {
			for _, o := range r.Operators {
				for i := range o.Twins {
					change(&o.Twins[i])
				}
			}
		}
	}
	equal := all(func(w *study.Twin) { w.OneStep = make([]study.Distance, len(w.OneStep)) })
	nothing := all(func(w *study.Twin) { w.Path = make([]study.Distance, len(w.Path)) })
	return []clitest.Pair{
		{Says: "solid: the path", Is: is, IsNot: draw(nothing)},
		{Says: "dashed: one step from\nthe same state", Is: is, IsNot: draw(equal)},
		{Says: "horizon: half the distance\nof unrelated paths", Is: is, IsNot: draw(neverLost)},
		{Says: "Distance from the float32 rollout: 2 operators", Is: is, IsNot: draw(oneOperator)},
	}
}

// captions returns the texts of an SVG, a line each.
func captions(svg string) string {
	var all []string
	for _, part := range strings.Split(svg, "</text>") {
		all = append(all, part[strings.LastIndexByte(part, '>')+1:])
	}
	return strings.Join(all, "\n")
}
