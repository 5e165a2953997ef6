package check

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

var Verb = cli.Verb{
	Name:    "check",
	Summary: "is a recorded rollout right, or one forward of a network? if not, what is wrong, and where",
	Help: `Judges a rollout that a device recorded. Steps each recorded state once, in the
arithmetic that the device claims, and says whether correct kernels may give the
recorded next state. If not, says which step is the first wrong one, in which layer
(if layers.safetensors is there), and which known fault it is. There is no tolerance
to set: the limits follow from the claim. docs/FORMATS.md describes a case folder,
docs/ORACLE.md the verdicts.

With --onnx or --graph, judges one forward of a network: its outputs, and with
--layers the output of each layer, computed from the device's own inputs of that
layer (docs/networks.md).

Exit codes: 0 PASS, 1 FAIL, 2 bad input, 3 NO-POWER: this run could not have shown
a fault.

example: refrun check --case my_case --claim float16 --autocast cuda --report report.html
example: refrun check --onnx m.onnx --input x=x.npy --output y.npz --layers layers.npz --claim bfloat16 --autocast cpu`,
	Run: check,
}

// checkFlags are the flags of check.
type checkFlags struct {
	dir, config, weights, trajectory, layers, tape string
	claim, autocast, noise                         string
	report, junit, csv, finding, only              string
	budget                                         time.Duration
}

func check(c *cli.Command) error {
	w := new(checkFlags)
	f := c.Flags
	f.StringVar(&w.dir, "case", "", "`folder` of the recorded case; it may stand without --case")
	c.Folder = &w.dir
	f.StringVar(&w.config, "config", "", "`file` in YAML or JSON with the fields of a case.json, instead of --case")
	f.StringVar(&w.weights, "weights", "", "safetensors `file` of the weights, instead of the case's")
	f.StringVar(&w.trajectory, "trajectory", "",
		"safetensors `file` with the trajectory [M,T,C,H,W], instead of the case's")
	f.StringVar(&w.layers, "layers", "", "safetensors `file` of the modules' outputs in one step, instead of the case's")
	f.StringVar(&w.tape, "tape", "", "safetensors `file` of the draws, instead of the case's noise.safetensors")
	f.StringVar(&w.claim, "claim", "", "`precision` that the device claims: float64, float32, tf32[:away|:truncate], "+
		"float16 or bfloat16; behind a slash where states are kept, float16/state-float16 (default what the case says)")
	f.StringVar(&w.autocast, "autocast", "", "`rules` of a half precision: "+
		"cuda or cpu, with the release :1.13 or :2.x if it is not the case's (default the case's, else cuda)")
	f.StringVar(&w.noise, "noise", "", "`stream`: counter, tape, torch-cpu[:1.13|:2.x][:mkl], "+
		"torch-cuda:SMS[:THREADS], none, or unknown (default the case's tape, else its PyTorch's stream)")
	f.DurationVar(&w.budget, "budget", usualBudget,
		"`time` after which tests that need not run on every step are left out, and listed")
	f.StringVar(&w.report, "report", "", "write the report as one HTML `file`")
	f.StringVar(&w.junit, "junit", "", "write the report as a JUnit XML `file`")
	f.StringVar(&w.csv, "csv", "", "write the errors by step and channel as a CSV `file`")
	f.StringVar(&w.finding, "finding", "",
		"`ID` of a finding, as the JSON has it: report nothing else, and fail if there is none")
	f.StringVar(&w.only, "only", "", "`findings` that fail the check: proved, those outside the bounds of every "+
		"right device. Those by odds then leave the exit code 0, and JUnit has them as skipped (default all)")
	m, outputs := model.Declare(c), cli.List{}
	f.Var(&outputs, "output", "of --onnx and --graph: `NAME=FILE` of an output that the device returned, "+
		"or a FILE of all outputs by their names; may be repeated")
	c.Judges()
	if err := c.Parse(0); err != nil {
		return err
	}
	if err := w.valid(m.Given()); err != nil {
		return err
	}
	if m.Given() {
		return checkModel(c, m, outputs, w)
	}
	if len(m.Inputs)+len(outputs) > 0 {
		return errors.New("--input, --output: want --onnx or --graph as well")
	}
	cs, err := w.open()
	if err != nil {
		return err
	}
	return judge(c, cs, w)
}

// valid says what is wrong with the flags of a check, of a model or of a rollout.
func (w *checkFlags) valid(model bool) error {
	if w.only != "" && w.only != report.Proved {
		return fmt.Errorf("--only: %.60q: want proved", w.only)
	}
	if w.budget < 0 {
		return fmt.Errorf("--budget: %v: want 0 (no limit) or more", w.budget)
	}
	if err := cmp.Or(files.Writable("--report", w.report), files.Writable("--junit", w.junit),
		w.spares("--report", w.report),
		w.spares("--junit", w.junit), files.Writable("--csv", w.csv), w.spares("--csv", w.csv)); err != nil {
		return err
	}
	if w.report != "" && filepath.Clean(w.report) == filepath.Clean(w.junit) {
		return fmt.Errorf("--junit: %s: that of --report: want two files", w.junit)
	}
	if w.csv != "" && (model || filepath.Clean(w.csv) == filepath.Clean(w.report) ||
		filepath.Clean(w.csv) == filepath.Clean(w.junit)) {
		return fmt.Errorf("--csv: %s: want a file of its own, of the check of a rollout", w.csv)
	}
	return nil
}

// checkCase checks a case as the flags say, and returns the precision that was
// asked for and the one that was used.
func checkCase(c *cli.Command, cs *rollout.Case, w *checkFlags) (r *report.Report, requested, used string, err error) {
	mode, requested, err := setup.Arithmetic{Precision: w.claim, Autocast: w.autocast, Arith: ""}.Mode(cs)
	if err != nil {
		return nil, "", "", errors.New(strings.Replace(err.Error(), "--precision", "--claim", 1))
	}
	defer cli.CollectSoon()()
	ctx, stop := cli.Interruptible()
	p := c.Progress("check")
	r, err = oracle.CheckCase(ctx, cs,
		oracle.CheckOptions{Mode: mode, Noise: w.noise, Budget: w.budget, Progress: p.Stage})
	p.Done()
	if cause := stop(); err != nil && cause != nil {
		err = cause
	}
	return r, requested, mode.Precision.String(), err
}

// checkReport is the JSON of check.
type checkReport struct {
	Case               string  `json:"case"`
	PrecisionRequested string  `json:"precision_requested"`
	PrecisionUsed      string  `json:"precision_used"`
	ISA                string  `json:"isa"`
	Threads            int     `json:"threads"`
	Seconds            float64 `json:"seconds"`
	PeakBytes          int64   `json:"peak_bytes"`
	Text               string  `json:"text"` // what is printed without --json
	*report.Report
}

func judge(c *cli.Command, cs *rollout.Case, w *checkFlags) error {
	began := time.Now()
	r, requested, used, err := checkCase(c, cs, w)
	if err != nil {
		return err
	}
	out := checkReport{Case: cs.Dir, PrecisionRequested: requested, PrecisionUsed: used,
		ISA: c.Isa, Threads: runtime.GOMAXPROCS(0), Seconds: max(time.Since(began), time.Nanosecond).Seconds(),
		PeakBytes: cli.PeakBytes(), Report: r}
	r.Only, r.Notes = w.only, append(setup.IgnoredNotes(cs), r.Notes...)
	for i := range r.Findings {
		r.Findings[i].Command = w.again(r.Findings[i].ID)
	}
	if w.finding != "" {
		r.Findings = slices.DeleteFunc(r.Findings, func(f report.Finding) bool { return f.ID != w.finding })
		if len(r.Findings) == 0 {
			return fmt.Errorf("--finding: %.200q: the check finds no such: want an id of its findings", w.finding)
		}
	}
	r.Made = made(cs.Dir, w.again(w.finding))
	found(c, r)
	// A report that cannot be written does not take the verdict along.
	unwritten := cmp.Or(files.Write("--report", w.report, r, render.WriteHTML),
		files.Write("--junit", w.junit, r, render.WriteJUnit), files.WriteFields("--csv", w.csv, r.Fields))
	out.Text = render.Text(r)
	if c.Json {
		if err := c.PrintJSON(out); err != nil {
			return err
		}
	}
	if w.finding != "" {
		for _, f := range r.Findings {
			c.Printf("%s\n", render.Line(f))
		}
		return cmp.Or(unwritten, verdictError(r))
	}
	c.Print(out.Text)
	c.Printf("%s s on %s (%s)\n", cli.Num(diff.Number(out.Seconds)), cli.Plural(out.Threads, "thread"), out.ISA)
	if unwritten != nil {
		return unwritten
	}
	return verdictError(r)
}

// again is a line for a shell that repeats the check and shows a finding.
func (w *checkFlags) again(id string) string {
	line := checkOf([][2]string{
		{"case", w.dir}, {"config", w.config}, {"weights", w.weights}, {"trajectory", w.trajectory},
		{"layers", w.layers}, {"tape", w.tape},
		{"claim", w.claim}, {"autocast", w.autocast}, {"noise", w.noise}, {"finding", id}, {"only", w.only},
	})
	if w.budget != usualBudget {
		line += " --budget " + w.budget.String()
	}
	return line
}

// checkOf is a check with flags of these names and values, without those of no value.
func checkOf(flags [][2]string) string {
	line := "refrun check"
	for _, f := range flags {
		if f[1] != "" {
			line += " --" + f[0] + " " + quoted(f[1])
		}
	}
	return line
}

// made says where a page comes from.
func made(of, command string) report.Made {
	return report.Made{Case: of, Command: command, By: "refrun " + cli.Version, When: time.Now().Format(time.RFC3339)}
}

// quoted is a word of a shell.
func quoted(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:,=+-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// usualBudget is that of a check whose caller names none.
const usualBudget = 5 * time.Minute

// open opens the case, or makes one of loose files.
func (w *checkFlags) open() (*rollout.Case, error) {
	if (w.dir == "") == (w.config == "") {
		return nil, errors.New(
			"--case: want the folder of a recorded case, or --config FILE with --weights and --trajectory, one of them",
		)
	}
	var cs *rollout.Case
	var err error
	if w.dir != "" {
		cs, err = rollout.OpenCase(w.dir)
	} else {
		cs, err = files.ReadConfig(w.config)
	}
	if err != nil {
		return nil, err
	}
	return cs, w.override(cs)
}
