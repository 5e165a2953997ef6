package compare

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

var Verb = cli.Verb{
	Name:    "compare",
	Args:    "A B",
	Summary: "differences of two tensors or trajectories",
	Help: `Prints the distance of tensor A from the reference B. A and B are .safetensors,
.npy, .npz or .h5 files, or case folders (their trajectory). A name may end in
:TENSOR. Without it the tensor is the one called "trajectory", the only one, or
/trajectories of an HDF5 file. Tensors of five dimensions [M,T,C,H,W] are also
compared step by step and channel by channel, with the relative L2 error and VRMSE
of each. If a threshold is given and exceeded, the exit code is 1. A threshold is no
verdict about arithmetic: refrun check and refrun kernel judge without one.

example: refrun compare gpu.safetensors cpu.safetensors --max-ulp 2`,
	Run: compare,
}

// mostSteps is of how many steps figures are kept, and of how many channels of all steps: of each, about a thousand
// bytes.
const mostSteps = 1 << 15

// comparison is the JSON of compare.
type comparison struct {
	A      string   `json:"a"`
	B      string   `json:"b"`
	Shape  []int    `json:"shape"`
	OK     bool     `json:"ok"`
	Failed []string `json:"failed,omitempty"`
	diff.Diff
	PerStep       []diff.Diff  `json:"per_step,omitempty"`
	Fields        []diff.Field `json:"fields,omitempty"`
	GrowthPerStep diff.Number  `json:"growth_per_step,omitempty"`
	Chaotic       bool         `json:"chaotic"`
	Notes         []string     `json:"notes,omitempty"`
}

func compare(c *cli.Command) error {
	limits := map[string]*float64{
		"max-abs":  c.Flags.Float64("max-abs", 0, "fail if the largest difference exceeds this `number`"),
		"mean-abs": c.Flags.Float64("mean-abs", 0, "fail if the mean difference exceeds this `number`"),
		"max-ulp":  c.Flags.Float64("max-ulp", 0, "fail if a difference exceeds this `number` of units in the last place"),
	}
	table := c.Flags.String("csv", "", "write the errors of trajectories by step and channel as a CSV `file`")
	c.Judges()
	if err := c.Parse(2); err != nil {
		return err
	}
	if err := files.Writable("--csv", *table); err != nil {
		return err
	}
	if err := keepGiven(c, limits); err != nil {
		return err
	}
	a, err := files.OpenTensor(c.Pos[0])
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := files.OpenTensor(c.Pos[1])
	if err != nil {
		return err
	}
	defer b.Close()
	if err := files.Apart("--csv", *table, a.Path, b.Path); err != nil {
		return err
	}
	if !slices.Equal(a.Shape, b.Shape) {
		return fmt.Errorf("%s: shape %v: want %v, that of %s", a.Name, a.Shape, b.Shape, b.Name)
	}
	// Ulps are those of the coarser type: a float32 copy of float16 numbers
	// is compared as float16.
	format := b.Format
	if a.Format.Ulp(1) > format.Ulp(1) {
		format = a.Format
	}
	n := a.Len()
	if n == 0 {
		return fmt.Errorf("%s: shape %v: want at least one element to compare", a.Name, a.Shape)
	}
	out, err := compared(a, b, n, format)
	if err != nil {
		return err
	}
	if err := files.WriteFields("--csv", *table, out.Fields); err != nil {
		return err
	}
	out.judge()
	for _, t := range []struct {
		flag string
		got  diff.Number
	}{{"max-abs", out.MaxAbs}, {"mean-abs", out.MeanAbs}, {"max-ulp", out.MaxUlp}} {
		if limit := limits[t.flag]; limit != nil && !(float64(t.got) <= *limit) {
			out.Failed = append(out.Failed, fmt.Sprintf("%s %s exceeds %g", t.flag, cli.Beyond(t.got, *limit), *limit))
		}
	}
	out.OK = len(out.Failed) == 0
	if c.Json {
		if err := c.PrintJSON(out); err != nil {
			return err
		}
	}
	printComparison(c, out)
	if !out.OK {
		return cli.ErrFailed
	}
	return nil
}

// keepGiven keeps the limits that were given.
func keepGiven(c *cli.Command, limits map[string]*float64) error {
	given := map[string]bool{}
	c.Flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if !given[name] {
			delete(limits, name)
		} else if v := *limits[name]; !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("--%s: %v: want a finite number of 0 or more", name, v)
		}
	}
	return nil
}

// compared compares n numbers in a format, step by step and by channel where they are trajectories.
func compared(a, b *files.Array, n int, format fp16.Format) (*comparison, error) {
	out := &comparison{A: a.Name, B: b.Name, Shape: a.Shape}
	var steps diff.Trajectory
	s := a.Shape
	if len(s) == 5 && s[1] <= mostSteps {
		steps = diff.Trajectory{M: s[0], T: s[1], CHW: s[2] * s[3] * s[4]}
	} else if len(s) > 2 && trajectories(a, b) && s[1] <= mostSteps { // of a step graph
		steps = diff.Trajectory{M: s[0], T: s[1], CHW: tensor.Size(s[2:])}
	} else if len(s) == 5 {
		out.Notes = append(out.Notes,
			fmt.Sprintf("%d states are more than %d: they are compared as a whole, not step by step", s[1], mostSteps))
	}
	var err error
	if out.Diff, out.PerStep, err = diff.CompareStreams(a, b, n, steps, format); err != nil {
		return nil, err
	}
	if len(s) == 5 && s[1]*s[2] <= mostSteps {
		out.Fields, err = diff.CompareFields(a, b, n, [5]int(s))
	} else if len(s) == 5 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d states of %d channels are more than %d: there are no figures "+
			"by channel", s[1], s[2], mostSteps))
	}
	return out, err
}

// judge says how the difference of trajectories grows, and whether that is chaos.
func (out *comparison) judge() {
	if len(out.PerStep) == 0 {
		return
	}
	growth, saturated := diff.Growth(out.PerStep)
	out.GrowthPerStep = diff.Number(growth)
	out.Chaotic = saturated && growth > 1.05 && !jumps(out.PerStep, growth)
}

// jumps reports whether a difference came to the size of the states in a step that is far
// larger than its growth, or that is no number: a fault does that, not chaos.
func jumps(perStep []diff.Diff, growth float64) bool {
	const large, far = 0.25, 100 // large is that of diff.Saturation; the growth of single steps varies
	last := 0.0
	for _, d := range perStep {
		r := float64(d.RMSOverStd)
		if !(r < large) {
			return !(r <= far*growth*last)
		}
		if r > 0 {
			last = r
		}
	}
	return false
}

func printComparison(c *cli.Command, out *comparison) {
	d := out.Diff
	c.Printf("%s against %s, %v\n", cli.Clean(out.A), cli.Clean(out.B), out.Shape)
	at := ""
	if d.At >= 0 {
		at = fmt.Sprintf(" (element %d)", d.At)
	}
	c.Printf("  largest difference  %-9s %-9s of B's std, %s%s\n", cli.Num(d.MaxAbs), cli.Num(d.MaxOverStd),
		cli.Num(d.Std), at)
	c.Printf("  RMS difference      %-9s %-9s\n", cli.Num(d.RMS), cli.Num(d.RMSOverStd))
	c.Printf("  mean difference     %-9s\n", cli.Num(d.MeanAbs))
	c.Printf("  mean relative       %-9s of |B|, at least %s; RMS %s of B's RMS\n", cli.Num(d.MeanRel),
		cli.Num(d.RelFloor), cli.Num(d.RMSRel))
	c.Printf("  largest in ulps     %-9s of %s\n", cli.Num(d.MaxUlp), d.Format)
	if d.NonFiniteDiffer > 0 || d.NonFiniteEqual > 0 {
		c.Printf("  not finite          %d differ, %d equal and left out\n", d.NonFiniteDiffer, d.NonFiniteEqual)
	}
	for _, n := range out.Notes {
		c.Printf("note: %s\n", n)
	}
	if len(out.PerStep) > 0 {
		c.Printf("\n  state  largest    RMS        RMS/std    rel. L2    VRMSE\n")
		for _, i := range cli.Sample(len(out.PerStep), 12) {
			p, l2, vrmse := out.PerStep[i], "-", "-"
			if channels := len(out.Fields) / len(out.PerStep); channels > 0 {
				f := diff.MeanFields(out.Fields[i*channels : (i+1)*channels])
				l2, vrmse = cli.Num(f.RelL2), cli.Num(f.VRMSE)
			}
			c.Printf("  %5d  %-9s  %-9s  %-9s  %-9s  %s\n", i, cli.Num(p.MaxAbs), cli.Num(p.RMS), cli.Num(p.RMSOverStd), l2,
				vrmse)
		}
		if out.Chaotic {
			c.Printf("\nwarning: the difference grows %sx a step until it is as large as the states: "+
				"the pair is chaotic, and its last states say nothing about arithmetic. "+
				"refrun run --one-step compares single steps.\n", cli.Num(out.GrowthPerStep))
		}
	}
	for _, f := range out.Failed {
		c.Printf("FAILED: %s\n", f)
	}
}

// trajectories reports whether two tensors are called like those of a step graph's states.
func trajectories(all ...*files.Array) bool {
	for _, a := range all {
		if name := a.Name[strings.LastIndexByte(a.Name, ':')+1:]; name != "trajectory" &&
			!strings.HasPrefix(name, "trajectory.") {
			return false
		}
	}
	return true
}
