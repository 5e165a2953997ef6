package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

var probeVerb = verb{
	name:    "probe",
	summary: "write inputs for a device that show faults which ordinary states hide",
	help: `Writes inputs for the operator of a case, each of which shows certain faults:
integers, whose sums are exact in every format, show wrong indices; channels of
small variance show a wrong eps; large means show one-pass variances; ladders show
overflow and subnormal numbers. Each folder below that of -o is a case without a
trajectory. Let the device step it from its initial_condition, with the draws of its
noise.safetensors, and store trajectory.safetensors there. refrun check --case
FOLDER judges the answer. With --onnx or --graph the files are inputs of a network:
refrun check --onnx FILE --input PROBE judges the outputs of the device.

example: refrun probe --case my_case -o probes`,
	run: runProbe,
}

func runProbe(c *command) error {
	dir := c.flags.String("case", "",
		"`folder` of a case, or of its case.json and weights alone; it may stand without --case")
	c.folder = dir
	out := c.flags.String("o", "", "`folder` to write to, which must be new or empty")
	m := c.modelFlags()
	if err := c.parse(0); err != nil {
		return err
	}
	if m.given() {
		return c.probeModel(m, *out)
	}
	if len(m.inputs) > 0 {
		return errors.New("--input: want --onnx or --graph as well")
	}
	if *dir == "" {
		return errors.New("--case: want the folder of a case")
	}
	if *out == "" {
		return errors.New("-o: want the folder to write the probes to")
	}
	cs, err := rollout.OpenCase(*dir)
	if err != nil {
		return err
	}
	entries, err := disk.ReadDir(*out)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("-o: %s: %w: want a folder that is new or empty", *out, fault.Cause(err))
	case len(entries) > 0:
		return fmt.Errorf("-o: %s: holds %s: want a folder that is new or empty", *out, plural(len(entries), "file"))
	}
	files, err := oracle.WriteProbes(*out, cs)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(struct {
			Files []string `json:"files"`
		}{files})
	}
	c.printProbes(files)
	return nil
}

func (c *command) printProbes(files []string) {
	for _, f := range files {
		c.printf("%s\n", clean(f))
	}
	draws := ""
	if slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == "noise.safetensors" }) {
		draws = " and with the draws of noise.safetensors"
	}
	c.print("\n" + wrap("Let the device step each folder's case once, from initial_condition"+draws+
		", store trajectory.safetensors [M,2,C,H,W] there, and run refrun check --case FOLDER.", 0))
}
