package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/internal/hdf5"
	"github.com/refrun/refrun/internal/npy"
	"github.com/refrun/refrun/internal/safetensors"
	"github.com/refrun/refrun/oracle"
)

var compareVerb = verb{
	name:    "compare",
	args:    "A B",
	summary: "differences of two tensors or trajectories",
	help: `Prints how far tensor A lies from the reference B. A and B are .safetensors,
.npy, .npz or .h5 files or case folders (their trajectory), with an optional
:TENSOR; without it the tensor called "trajectory" is taken, or the only one
there is, or /trajectories of an HDF5 file. Tensors of
five dimensions [M,T,C,H,W] are compared step by step as well. With thresholds
the exit code is 1 if one is exceeded.

example: refrun compare gpu.safetensors cpu.safetensors --max-ulp 2`,
	run: compare,
}

func compare(c *command) error {
	limits := map[string]*float64{
		"max-abs":  c.flags.Float64("max-abs", 0, "fail if the largest difference exceeds this `number`"),
		"mean-abs": c.flags.Float64("mean-abs", 0, "fail if the mean difference exceeds this `number`"),
		"max-ulp":  c.flags.Float64("max-ulp", 0, "fail if a difference exceeds this `number` of units in the last place"),
	}
	if err := c.parse(2); err != nil {
		return err
	}
	given := map[string]bool{}
	c.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if !given[name] {
			delete(limits, name)
		} else if v := *limits[name]; !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("--%s: %v: want a finite number of 0 or more", name, v)
		}
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
		flag string
		got  oracle.Number
	}{{"max-abs", out.MaxAbs}, {"mean-abs", out.MeanAbs}, {"max-ulp", out.MaxUlp}} {
		if limit := limits[t.flag]; limit != nil && !(float64(t.got) <= *limit) {
			out.Failed = append(out.Failed, fmt.Sprintf("%s %s exceeds %g", t.flag, num(t.got), *limit))
		}
	}
	out.OK = len(out.Failed) == 0
	if c.json {
		if err := c.printJSON(out); err != nil {
			return err
		}
	}
	d := out.Diff
	c.printf("%s against %s, %v\n", clean(out.A), clean(out.B), out.Shape)
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

// openTensor reads FILE, FOLDER, FILE:TENSOR or FOLDER:TENSOR. Either part may
// hold colons: the file is the longest that exists.
func openTensor(arg string) (t *loaded, err error) {
	file, name := arg, ""
	st, err := os.Stat(file)
	for missing := err; err != nil; st, err = os.Stat(file) {
		i := strings.LastIndexByte(file, ':')
		if i <= 0 {
			return nil, fmt.Errorf("%s: %w: want a .safetensors, .npy, .npz or .h5 file or a case folder", arg, fault.Cause(missing))
		}
		if file, name = arg[:i], arg[i+1:]; name == "" {
			return nil, fmt.Errorf("%s: no tensor after the colon: want FILE:TENSOR", arg)
		}
	}
	if st.IsDir() {
		file = filepath.Join(file, "trajectory.safetensors")
	}
	defer func() {
		if c := fault.Cause(err); c != err { // the system's words begin with what was tried
			err = fmt.Errorf("%s: %w: want a file that can be read", file, c)
		}
	}()
	switch ext := filepath.Ext(file); ext {
	case ".safetensors":
		return openSafetensors(file, name)
	case ".npy":
		return openNpy(file, name)
	case ".npz":
		return openNpz(file, name)
	case ".h5", ".hdf5":
		return openHDF5(file, name)
	default:
		return nil, fmt.Errorf("%s: file type %q: want .safetensors, .npy, .npz or .h5", file, ext)
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
	case len(names) == 0:
		return "", fmt.Errorf("%s: no tensors: want one", file)
	}
	const most = 8
	some, more := names[:min(most, len(names))], ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
	}
	return "", fmt.Errorf("%s: %d tensors: want %s:NAME with one of %s%s", file, len(names), file, strings.Join(some, ", "), more)
}

// openFile is safetensors.Open with the system's errors in the form of others.
func openFile(path string) (*safetensors.File, error) {
	f, err := safetensors.Open(path)
	if p := fault.Cause(err); p != err {
		err = fmt.Errorf("%s: %w: want a safetensors file", path, p)
	}
	return f, err
}

func openSafetensors(file, name string) (*loaded, error) {
	f, err := openFile(file)
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

// openHDF5 reads a dataset, by default Spinlock's /trajectories: of its
// [N,M,T,C,H,W], N = 1, the trajectory [M,T,C,H,W].
func openHDF5(file, name string) (*loaded, error) {
	f, err := hdf5.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	name = "/" + strings.TrimPrefix(cmp.Or(name, "trajectories"), "/")
	d, err := f.Dataset(name)
	if err != nil {
		return nil, err
	}
	format, ok := map[hdf5.Type]fp16.Format{hdf5.Float64: fp16.Float64, hdf5.Float32: fp16.Float32, hdf5.Float16: fp16.Float16}[d.Type]
	if !ok {
		return nil, fmt.Errorf("%s:%s: type %v: want f8, f4 or f2", file, name, d.Type)
	}
	data, err := d.At()
	shape := d.Shape
	if len(shape) == 6 && shape[0] == 1 {
		shape = shape[1:]
	}
	return &loaded{file + ":" + name, shape, format, data}, err
}

func readNpy(name string, a *npy.Array) (*loaded, error) {
	format, ok := a.Format()
	if !ok {
		return nil, fmt.Errorf("%s: dtype %s: want <f8, <f4 or <f2", name, a.DType)
	}
	data, err := a.Float64s()
	return &loaded{name, a.Shape, format, data}, err
}
