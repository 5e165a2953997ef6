package main

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

var compareVerb = verb{
	name:    "compare",
	args:    "A B",
	summary: "differences of two tensors or trajectories",
	help: `Prints the distance of tensor A from the reference B. A and B are .safetensors,
.npy, .npz or .h5 files, or case folders (their trajectory). A name may end in
:TENSOR. Without it the tensor is the one called "trajectory", the only one, or
/trajectories of an HDF5 file. Tensors of five dimensions [M,T,C,H,W] are also
compared step by step and channel by channel, with the relative L2 error and VRMSE
of each. If a threshold is given and exceeded, the exit code is 1. A threshold is no
verdict about arithmetic: refrun check and refrun kernel judge without one.

example: refrun compare gpu.safetensors cpu.safetensors --max-ulp 2`,
	run: compare,
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

func compare(c *command) error {
	limits := map[string]*float64{
		"max-abs":  c.flags.Float64("max-abs", 0, "fail if the largest difference exceeds this `number`"),
		"mean-abs": c.flags.Float64("mean-abs", 0, "fail if the mean difference exceeds this `number`"),
		"max-ulp":  c.flags.Float64("max-ulp", 0, "fail if a difference exceeds this `number` of units in the last place"),
	}
	table := c.flags.String("csv", "", "write the errors of trajectories by step and channel as a CSV `file`")
	c.judges()
	if err := c.parse(2); err != nil {
		return err
	}
	if err := writable("--csv", *table); err != nil {
		return err
	}
	if err := c.keepGiven(limits); err != nil {
		return err
	}
	a, err := openTensor(c.pos[0])
	if err != nil {
		return err
	}
	defer a.close()
	b, err := openTensor(c.pos[1])
	if err != nil {
		return err
	}
	defer b.close()
	if err := apart("--csv", *table, a.path, b.path); err != nil {
		return err
	}
	if !slices.Equal(a.shape, b.shape) {
		return fmt.Errorf("%s: shape %v: want %v, that of %s", a.name, a.shape, b.shape, b.name)
	}
	// Ulps are those of the coarser type: a float32 copy of float16 numbers
	// is compared as float16.
	format := b.format
	if a.format.Ulp(1) > format.Ulp(1) {
		format = a.format
	}
	n := a.len()
	if n == 0 {
		return fmt.Errorf("%s: shape %v: want at least one element to compare", a.name, a.shape)
	}
	out, err := compared(a, b, n, format)
	if err != nil {
		return err
	}
	if err := writeFields("--csv", *table, out.Fields); err != nil {
		return err
	}
	out.judge()
	for _, t := range []struct {
		flag string
		got  diff.Number
	}{{"max-abs", out.MaxAbs}, {"mean-abs", out.MeanAbs}, {"max-ulp", out.MaxUlp}} {
		if limit := limits[t.flag]; limit != nil && !(float64(t.got) <= *limit) {
			out.Failed = append(out.Failed, fmt.Sprintf("%s %s exceeds %g", t.flag, beyond(t.got, *limit), *limit))
		}
	}
	out.OK = len(out.Failed) == 0
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	c.printComparison(out)
	if !out.OK {
		return errFailed
	}
	return nil
}

// keepGiven keeps the limits that were given.
func (c *command) keepGiven(limits map[string]*float64) error {
	given := map[string]bool{}
	c.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
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
func compared(a, b *array, n int, format fp16.Format) (*comparison, error) {
	out := &comparison{A: a.name, B: b.name, Shape: a.shape}
	var steps diff.Trajectory
	s := a.shape
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

func (c *command) printComparison(out *comparison) {
	d := out.Diff
	c.printf("%s against %s, %v\n", clean(out.A), clean(out.B), out.Shape)
	at := ""
	if d.At >= 0 {
		at = fmt.Sprintf(" (element %d)", d.At)
	}
	c.printf("  largest difference  %-9s %-9s of B's std, %s%s\n", num(d.MaxAbs), num(d.MaxOverStd), num(d.Std), at)
	c.printf("  RMS difference      %-9s %-9s\n", num(d.RMS), num(d.RMSOverStd))
	c.printf("  mean difference     %-9s\n", num(d.MeanAbs))
	c.printf("  mean relative       %-9s of |B|, at least %s; RMS %s of B's RMS\n", num(d.MeanRel),
		num(d.RelFloor), num(d.RMSRel))
	c.printf("  largest in ulps     %-9s of %s\n", num(d.MaxUlp), d.Format)
	if d.NonFiniteDiffer > 0 || d.NonFiniteEqual > 0 {
		c.printf("  not finite          %d differ, %d equal and left out\n", d.NonFiniteDiffer, d.NonFiniteEqual)
	}
	for _, n := range out.Notes {
		c.printf("note: %s\n", n)
	}
	if len(out.PerStep) > 0 {
		c.printf("\n  state  largest    RMS        RMS/std    rel. L2    VRMSE\n")
		for _, i := range sample(len(out.PerStep), 12) {
			p, l2, vrmse := out.PerStep[i], "-", "-"
			if channels := len(out.Fields) / len(out.PerStep); channels > 0 {
				f := diff.MeanFields(out.Fields[i*channels : (i+1)*channels])
				l2, vrmse = num(f.RelL2), num(f.VRMSE)
			}
			c.printf("  %5d  %-9s  %-9s  %-9s  %-9s  %s\n", i, num(p.MaxAbs), num(p.RMS), num(p.RMSOverStd), l2, vrmse)
		}
		if out.Chaotic {
			c.printf("\nwarning: the difference grows %sx a step until it is as large as the states: "+
				"the pair is chaotic, and its last states say nothing about arithmetic. "+
				"refrun run --one-step compares single steps.\n", num(out.GrowthPerStep))
		}
	}
	for _, f := range out.Failed {
		c.printf("FAILED: %s\n", f)
	}
}

// trajectories reports whether two tensors are called like those of a step graph's states.
func trajectories(all ...*array) bool {
	for _, a := range all {
		if name := a.name[strings.LastIndexByte(a.name, ':')+1:]; name != "trajectory" &&
			!strings.HasPrefix(name, "trajectory.") {
			return false
		}
	}
	return true
}
