package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/npy"
	"github.com/refrun/refrun/internal/safetensors"
	"github.com/refrun/refrun/oracle"
)

var compareVerb = verb{
	name:    "compare",
	args:    "A B",
	summary: "differences of two tensors or trajectories",
	help: `Prints how far tensor A lies from the reference B. A and B are .safetensors,
.npy or .npz files or case folders (their trajectory), with an optional :TENSOR; without
it the tensor called "trajectory" is taken, or the only one there is. Tensors of
five dimensions [M,T,C,H,W] are compared step by step as well. With thresholds
the exit code is 1 if one is exceeded.

example: refrun compare gpu.safetensors cpu.safetensors --max-ulp 2`,
	run: compare,
}

func compare(c *command) error {
	maxAbs := c.flags.Float64("max-abs", -1, "fail if the largest difference exceeds this `number`")
	meanAbs := c.flags.Float64("mean-abs", -1, "fail if the mean difference exceeds this `number`")
	maxUlp := c.flags.Float64("max-ulp", -1, "fail if a difference exceeds this `number` of units in the last place")
	if err := c.parse(2); err != nil {
		return err
	}
	a, err := openTensor(c.pos[0])
	if err != nil {
		return err
	}
	b, err := openTensor(c.pos[1])
	if err != nil {
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
	out := struct {
		A      string   `json:"a"`
		B      string   `json:"b"`
		Shape  []int    `json:"shape"`
		OK     bool     `json:"ok"`
		Failed []string `json:"failed,omitempty"`
		oracle.Diff
		PerStep       []oracle.Diff `json:"per_step,omitempty"`
		GrowthPerStep oracle.Number `json:"growth_per_step,omitempty"`
		Chaotic       bool          `json:"chaotic"`
	}{A: a.name, B: b.name, Shape: a.shape, Diff: oracle.Compare(a.data, b.data, format)}
	if out.Count == 0 {
		return fmt.Errorf("%s: shape %v: want at least one element to compare", a.name, a.shape)
	}
	if s := a.shape; len(s) == 5 {
		out.PerStep = oracle.PerStep(a.data, b.data, s[0], s[1], s[2]*s[3]*s[4], format)
		growth, saturated := oracle.Growth(out.PerStep)
		out.GrowthPerStep = oracle.Number(growth)
		out.Chaotic = saturated && growth > 1.05
	}
	for _, t := range []struct {
		flag  string
		limit float64
		got   oracle.Number
	}{{"max-abs", *maxAbs, out.MaxAbs}, {"mean-abs", *meanAbs, out.MeanAbs}, {"max-ulp", *maxUlp, out.MaxUlp}} {
		if t.limit >= 0 && !(float64(t.got) <= t.limit) {
			out.Failed = append(out.Failed, fmt.Sprintf("%s %s exceeds %g", t.flag, num(t.got), t.limit))
		}
	}
	out.OK = len(out.Failed) == 0
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	d := out.Diff
	c.printf("%s against %s, %v\n", out.A, out.B, out.Shape)
	at := ""
	if d.At >= 0 {
		at = fmt.Sprintf(" (element %d)", d.At)
	}
	c.printf("  largest difference  %-9s %-9s of B's std, %s%s\n", num(d.MaxAbs), num(d.MaxOverStd), num(d.Std), at)
	c.printf("  RMS difference      %-9s %-9s\n", num(d.RMS), num(d.RMSOverStd))
	c.printf("  mean difference     %-9s\n", num(d.MeanAbs))
	c.printf("  mean relative       %-9s counting |B| as at least %s; RMS %s of B's RMS\n", num(d.MeanRel), num(d.RelFloor), num(d.RMSRel))
	c.printf("  largest in ulps     %-9s of %s\n", num(d.MaxUlp), d.Format)
	if d.NonFiniteDiffer > 0 || d.NonFiniteEqual > 0 {
		c.printf("  not finite          %d differ, %d equal and left out\n", d.NonFiniteDiffer, d.NonFiniteEqual)
	}
	if len(out.PerStep) > 0 {
		c.printf("\n  state  largest    RMS        RMS/std\n")
		for _, i := range sample(len(out.PerStep), 12) {
			p := out.PerStep[i]
			c.printf("  %5d  %-9s  %-9s  %s\n", i, num(p.MaxAbs), num(p.RMS), num(p.RMSOverStd))
		}
		if out.Chaotic {
			c.printf("\nwarning: the difference grows %sx a step until it is as large as the states: the pair is chaotic, and its\nlast states say nothing about arithmetic. refrun run --one-step compares single steps.\n", num(out.GrowthPerStep))
		}
	}
	for _, f := range out.Failed {
		c.printf("FAILED: %s\n", f)
	}
	if !out.OK {
		return errFailed
	}
	return nil
}

// loaded is a tensor in memory.
type loaded struct {
	name   string
	shape  []int
	format fp16.Format
	data   []float64
}

// openTensor reads FILE, FOLDER, FILE:TENSOR or FOLDER:TENSOR.
func openTensor(arg string) (*loaded, error) {
	file, name := arg, ""
	if _, err := os.Stat(file); err != nil {
		if i := strings.LastIndexByte(arg, ':'); i > 0 {
			file, name = arg[:i], arg[i+1:]
		}
	}
	st, err := os.Stat(file)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("%s: %w: want a .safetensors, .npy or .npz file or a case folder", file, err)
	}
	if st.IsDir() {
		file = filepath.Join(file, "trajectory.safetensors")
	}
	switch ext := filepath.Ext(file); ext {
	case ".safetensors":
		return openSafetensors(file, name)
	case ".npy":
		return openNpy(file, name)
	case ".npz":
		return openNpz(file, name)
	default:
		return nil, fmt.Errorf("%s: file type %q: want .safetensors, .npy or .npz", file, ext)
	}
}

// choose returns the tensor to read from a file of several.
func choose(file, name string, names []string) (string, error) {
	switch {
	case name != "":
		return name, nil
	case slices.Contains(names, "trajectory"):
		return "trajectory", nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("%s: %d tensors: want %s:NAME with one of %s", file, len(names), file, strings.Join(names, ", "))
}

func openSafetensors(file, name string) (*loaded, error) {
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, err
	}
	if name, err = choose(file, name, f.Names()); err != nil {
		return nil, err
	}
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	format, ok := t.DType.Format()
	if !ok {
		return nil, fmt.Errorf("%s: %s: dtype %s: want F64, F32, F16 or BF16", file, name, t.DType)
	}
	data, err := t.Float64s()
	return &loaded{file + ":" + name, t.Shape, format, data}, err
}

func openNpy(file, name string) (*loaded, error) {
	if name != "" {
		return nil, fmt.Errorf("%s:%s: want no name, since the file holds one array", file, name)
	}
	a, err := npy.Open(file)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return readNpy(file, a)
}

func openNpz(file, name string) (*loaded, error) {
	z, err := npy.OpenArchive(file)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	if name, err = choose(file, name, z.Names()); err != nil {
		return nil, err
	}
	a, err := z.Array(name)
	if err != nil {
		return nil, err
	}
	return readNpy(file+":"+name, a)
}

func readNpy(name string, a *npy.Array) (*loaded, error) {
	format, ok := a.Format()
	if !ok {
		return nil, fmt.Errorf("%s: dtype %s: want <f8, <f4 or <f2", name, a.DType)
	}
	data, err := a.Float64s()
	return &loaded{name, a.Shape, format, data}, err
}
