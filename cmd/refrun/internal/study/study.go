package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/study"
)

var Verb = cli.Verb{
	Name:    "study",
	Summary: "is a precision good enough for this operator? rollouts of each, side by side",
	Help: `Rolls out an operator in float32. Beside it run twins with the same noise, each of
which differs in one thing: float16, bfloat16, TF32, float64, a start moved by
1e-6, another noise seed. For every twin it prints two distances from float32: that
of the whole rollout, and that of one step from the same state. It also prints how
fast a small difference grows, and the horizon, the step from which whole rollouts
cannot be compared. docs/STUDY.md explains two of them. --budget asks of each
arithmetic whether it is good enough. With --onnx or --graph, prints how far the
outputs of one forward of a network in each precision lie from those in float64.

example: refrun study --case my_case --horizon 500 --budget "1 % of std"`,
	Run: studyRun,
}

// What a study takes if nobody says.
const (
	studySteps        = 60
	studyMost         = 480 // steps, where it is not seen before how far apart unrelated paths stay
	studyRealizations = 2
)

// studyReport is the JSON of study.
type studyReport struct {
	Case          string       `json:"case"`
	Contract      string       `json:"contract"`
	Mode          string       `json:"mode"` // of the reference
	Noise         string       `json:"noise"`
	Steps         int          `json:"steps"`
	Realizations  int          `json:"realizations"`
	Grid          [2]int       `json:"grid"`
	WeightSeeds   []uint64     `json:"weight_seeds"` // of the operators; null if the weights are the case's
	ISA           string       `json:"isa"`
	Threads       int          `json:"threads"`
	Seconds       float64      `json:"seconds"`
	PeakBytes     int64        `json:"peak_bytes"`
	Notes         []string     `json:"notes,omitempty"`
	PictureFile   string       `json:"picture,omitempty"`
	Rows          []studyRow   `json:"rows"`
	GrowthPerStep *diff.Number `json:"growth_per_step"` // median of the operators' that grow; null if none does
	// by twin, the earliest among the operators; null if none within the steps, or not measured
	Horizon map[string]*int `json:"horizon"`
	// by twin, with all operators: else more steps are needed to tell
	Measured   map[string]bool `json:"horizon_measured"`
	NoiseFloor *study.Distance `json:"noise_floor"` // of one step, mean over steps and operators
	// Budget is what --budget says, as a share of the std; null without.
	Budget    *diff.Number    `json:"budget"`
	Decisions []studyDecision `json:"decisions,omitempty"`
	Operators []*study.Study  `json:"operators"` // step by step

	weights string // the file of the weights, "" for the case's or those of seeds
}

// studyRow is a twin, over all operators: means, and of max_abs the greatest.
type studyRow struct {
	Twin     string          `json:"twin"`
	What     string          `json:"what"`
	Mode     string          `json:"mode"`
	OneStep  *study.Distance `json:"one_step"` // mean over the steps
	End      study.Distance  `json:"end"`      // the path's, at the last step
	Horizons []*int          `json:"horizons"` // of each operator
	Measured []bool          `json:"horizons_measured"`
}

func studyRun(c *cli.Command) error {
	f, w := c.Flags, new(setup.Flags)
	dir := f.String("case", "",
		"`folder` of the case; a trajectory is needed for its initial condition only; it may stand without --case")
	c.Folder = dir
	f.StringVar(&w.Config, "config", "", "`file` in YAML or JSON with the fields of a case.json, instead of --case")
	f.StringVar(&w.Weights, "weights", "",
		"safetensors `file` of the weights (default the case's, or drawn from weights_seed)")
	f.StringVar(&w.X0, "x0", "",
		"initial condition: a `file` with [C,H,W], [M,C,H,W] or trajectories [M,T,C,H,W], whose first states are taken; "+
			"zeros, or white:SEED (default the case's)")
	f.StringVar(&w.Seed, "seed", "", "base `seed` of the noise (default the case's)")
	f.IntVar(&w.Steps, "steps", 0, fmt.Sprintf("`steps` to take (default %d, and up to %d "+
		"until it is seen how far apart unrelated paths stay)", studySteps, studyMost))
	horizon := f.Int("horizon", 0, "`steps` to take, and to ask --budget of")
	allowed := f.String("budget", "", "`share` of the std that a path may be off, such as \"1 % of std\": "+
		"say of each arithmetic whether it is good enough")
	f.IntVar(&w.Realizations, "realizations", 0, "`number` of realizations (default the case's, at most 2)")
	operators := f.Int("operator-seeds", 0, "`number` of operators, "+
		"with PyTorch's initial weights of the seeds weights_seed, weights_seed+1, ... (default the case's operator)")
	seeds := f.String("seeds", "", "`list` of weight seeds, such as 0,1,7, instead of --operator-seeds")
	autocast := f.String("autocast", "cuda",
		"`rules` of float16 and bfloat16: cuda or cpu, with the release :1.13 or :2.x if it is not the case's")
	noise := f.String("noise", "counter", "`stream`, the same numbers for every precision: "+
		"counter, torch-cpu[:1.13|:2.x][:mkl], torch-cuda:SMS[:THREADS] or none")
	picture := f.String("svg", "", "write a picture to this `file`, .svg")
	m := model.Declare(c)
	if err := c.Parse(0); err != nil {
		return err
	}
	if m.Given() {
		return studyModel(c, m, *autocast)
	}
	if len(m.Inputs) > 0 {
		return errors.New("--input: want --onnx or --graph as well")
	}
	cs, err := studyCase(w, *dir, *noise, *allowed, *horizon)
	if err != nil {
		return err
	}
	if err := w.Given(f); err != nil {
		return err
	}
	if err := pictureFile(*picture); err != nil {
		return err
	}
	var share *diff.Number
	if *allowed != "" {
		v, err := budget(*allowed)
		if err != nil {
			return err
		}
		share = &v
	}
	fixed := cmp.Or(w.Steps, *horizon)
	w.Steps = cmp.Or(fixed, studySteps)
	weightSeeds, err := studySeeds(cs, w, *operators, *seeds)
	if err != nil {
		return err
	}
	if weightSeeds != nil {
		cs.Weights, cs.WeightsSeed = nil, &weightSeeds[0]
	}
	start, shape, err := studyStart(cs, w)
	if err != nil {
		return err
	}
	o := study.Options{Noise: *noise, Shape: shape, Start: start}
	for _, precision := range []string{"float32:fast", "tf32", "float16", "bfloat16"} {
		rules := *autocast
		if !strings.HasSuffix(precision, "float16") {
			rules = ""
		}
		m, _, err := setup.Arithmetic{Precision: precision, Autocast: rules, Arith: ""}.Mode(cs)
		if err != nil {
			return err
		}
		o.Arithmetics = append(o.Arithmetics, m)
	}
	ctx, stop := cli.Interruptible()
	began := time.Now()
	studies, err := settled(w.Steps, fixed == 0, func(steps int) ([]*study.Study, error) {
		cs.Rollout.Timesteps = steps + 1
		return studies(c, ctx, cs, weightSeeds, o)
	})
	if cause := stop(); err != nil && cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	if err != nil {
		return err
	}
	r := summarise(studies)
	if r.Budget = share; share != nil {
		r.Decisions = r.decide()
	}
	r.weights = w.Weights
	r.Case, r.Contract, r.Grid, r.WeightSeeds = cmp.Or(*dir, w.Config), graph.Contract,
		[2]int{shape.H, shape.W}, weightSeeds
	r.ISA, r.Threads, r.Seconds, r.PeakBytes = c.Isa, runtime.GOMAXPROCS(0), time.Since(began).Seconds(), cli.PeakBytes()
	r.Notes = append(setup.IgnoredNotes(cs), studyNotes(r)...)
	var undrawn error // a picture that cannot be written does not take the study along
	if *picture != "" {
		if undrawn = r.draw(*picture); undrawn == nil {
			r.PictureFile = *picture
		}
	}
	if c.Json {
		err = c.PrintJSON(r)
	} else {
		printStudy(c, cs, r)
	}
	return cmp.Or(undrawn, err)
}

// studyCase opens the case of a study, whose flags are in range.
func studyCase(w *setup.Flags, dir, noise, allowed string, horizon int) (*rollout.Case, error) {
	switch {
	case (dir == "") == (w.Config == ""):
		return nil, errors.New("--case: want the folder of a case, or --config FILE, one of them")
	case horizon != 0 && allowed == "":
		return nil, errors.New("--horizon: want --budget as well")
	case horizon != 0 && w.Steps != 0:
		return nil, errors.New("--horizon: want it or --steps, one of them")
	case horizon != 0 && horizon < study.LeastSteps:
		return nil, fmt.Errorf("--horizon: %d: want %d or more", horizon, study.LeastSteps)
	case w.Steps != 0 && w.Steps < study.LeastSteps:
		return nil, fmt.Errorf("--steps: %d: want %d or more", w.Steps, study.LeastSteps)
	case noise == "tape":
		return nil, errors.New("--noise: tape: has no other seed: want counter, torch-cpu, torch-cuda:SMS or none")
	case dir != "":
		return rollout.OpenCase(dir)
	}
	return files.ReadConfig(w.Config)
}

// studies runs one study an operator.
func studies(c *cli.Command,
	ctx context.Context, cs *rollout.Case, weightSeeds []uint64, o study.Options,
) ([]*study.Study, error) {
	n := max(1, len(weightSeeds))
	p := c.Progress("study")
	defer p.Done()
	var all []*study.Study
	for i := range n {
		if weightSeeds != nil {
			cs.WeightsSeed = &weightSeeds[i]
		}
		o.Progress = func(done, total int) { p.Step(i*total+done, n*total) }
		s, err := study.Run(ctx, cs, o)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// settled runs studies of so many steps, and, if it may go on, of twice as many until no more are needed.
func settled(steps int, more bool, run func(steps int) ([]*study.Study, error)) ([]*study.Study, error) {
	for {
		studies, err := run(steps)
		if err != nil || !more || steps >= studyMost || !unsettled(studies) {
			return studies, err
		}
		steps *= 2
	}
}

// unsettled reports whether more steps are needed to tell where paths lose the reference.
func unsettled(studies []*study.Study) bool {
	return slices.ContainsFunc(studies, func(s *study.Study) bool {
		return slices.ContainsFunc(s.Twins, func(t study.Twin) bool { return t.Name != study.Other && !t.Measured })
	})
}

// studySeeds returns the seeds of the operators' weights, nil for the case's
// own weights.
func studySeeds(cs *rollout.Case, w *setup.Flags, n int, list string) ([]uint64, error) {
	const most = 1000
	switch {
	case n < 0 || n > most:
		return nil, fmt.Errorf("--operator-seeds: %d: want 1 to %d", n, most)
	case n > 0 && list != "":
		return nil, errors.New("--seeds: want it or --operator-seeds, one of them")
	case (n > 0 || list != "") && w.Weights != "":
		return nil, errors.New("--weights: want it or --operator-seeds or --seeds, one of them")
	case list != "":
		var seeds []uint64
		for _, s := range strings.Split(list, ",") {
			v, err := setup.Seed(strings.TrimSpace(s))
			if err != nil {
				return nil, fmt.Errorf("--seeds: %w, or several with commas", err)
			}
			seeds = append(seeds, v)
		}
		if len(seeds) > most {
			return nil, fmt.Errorf("--seeds: %d seeds: want at most %d", len(seeds), most)
		}
		return seeds, nil
	case n == 0:
		return nil, nil
	case cs.WeightsSeed == nil:
		return nil, fmt.Errorf("%s: weights_seed: missing: want it, or --seeds LIST instead of --operator-seeds", cs.File)
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = *cs.WeightsSeed + uint64(i)
	}
	return seeds, nil
}

// studyStart applies the flags to the case and returns its initial condition. A
// study may take fewer realizations than the case has initial conditions for.
func studyStart(cs *rollout.Case, w *setup.Flags) (func(m int) []float64, rollout.Shape, error) {
	if cs.Step != nil {
		_, err := cs.NewOperator() // says why not
		return nil, rollout.Shape{}, err
	}
	want := w.Realizations
	if want >= 0 && want <= cs.Rollout.Realizations {
		w.Realizations = 0
	}
	if err := w.Override(cs); err != nil {
		return nil, rollout.Shape{}, err
	}
	x0, shape, err := w.Start(cs)
	if err != nil {
		return nil, shape, err
	}
	if want == 0 {
		want = min(cs.Rollout.Realizations, studyRealizations)
	}
	cs.Rollout.Realizations = want
	return setup.ByRealization(x0, shape), shape, setup.Fits(cs.Rollout.EngineBatches()[0][1], shape, setup.ByBatch)
}

// pictureFile refuses a name under which no picture can be written, before
// anything is computed.
func pictureFile(path string) error {
	if path == "" {
		return nil
	}
	if err := files.SvgName(path); err != nil {
		return fmt.Errorf("--svg: %w", err)
	}
	return files.Writable("--svg", path)
}

// summarise forms the rows over the operators.
func summarise(studies []*study.Study) *studyReport {
	s := studies[0]
	r := &studyReport{
		Mode: s.Mode, Noise: s.Noise, Steps: s.Steps, Realizations: s.Realizations,
		Horizon: map[string]*int{}, Measured: map[string]bool{}, Operators: studies,
	}
	for i, twin := range s.Twins {
		row := studyRow{Twin: twin.Name, Mode: twin.Mode, What: studyWhat(twin.Name, s.Noise)}
		var one, end []study.Distance
		for _, o := range studies {
			t := o.Twins[i]
			one = append(one, t.OneStep...)
			end = append(end, t.Path[len(t.Path)-1])
			row.Horizons, row.Measured = append(row.Horizons, t.Horizon), append(row.Measured, t.Measured)
		}
		row.End = study.Mean(end)
		if one != nil {
			m := study.Mean(one)
			row.OneStep = &m
		}
		if twin.Name == study.Other {
			r.NoiseFloor = row.OneStep
		}
		r.Horizon[twin.Name], r.Measured[twin.Name] = earliest(row.Horizons), !slices.Contains(row.Measured, false)
		r.Rows = append(r.Rows, row)
	}
	var growth []float64
	for _, o := range studies {
		if o.Growth != nil {
			growth = append(growth, float64(o.Growth.PerStep))
		}
	}
	if growth != nil {
		g := diff.Number(median(growth))
		r.GrowthPerStep = &g
	}
	return r
}

// earliest returns the least of the horizons, nil if there are none.
func earliest(horizons []*int) *int {
	var least *int
	for _, h := range horizons {
		if h != nil && (least == nil || *h < *least) {
			least = h
		}
	}
	return least
}

// median returns the middle of numbers, of two middles their mean.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// row returns the row of a twin.
func (r *studyReport) row(twin string) studyRow {
	return r.Rows[slices.IndexFunc(r.Rows, func(w studyRow) bool { return w.Twin == twin })]
}

func studyNotes(r *studyReport) []string {
	var notes []string
	for i, o := range r.Operators {
		for _, t := range o.Twins {
			if t.Overflow == nil {
				continue
			}
			of := ""
			if r.WeightSeeds != nil {
				of = fmt.Sprintf("weight seed %d: ", r.WeightSeeds[i])
			}
			for _, n := range setup.OverflowNotes(t.Overflow, false) {
				notes = append(notes, of+n)
			}
		}
	}
	return notes
}
