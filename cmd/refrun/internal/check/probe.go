package check

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

var Probe = cli.Verb{
	Name:    "probe",
	Summary: "write inputs for a device that show faults which ordinary states hide",
	Help: `Writes inputs for the operator of a case, each of which shows certain faults:
integers, whose sums are exact in every format, show wrong indices; channels of
small variance show a wrong eps; large means show one-pass variances; ladders show
overflow and subnormal numbers. Each folder below that of -o is a case without a
trajectory. Let the device step it from its initial_condition, with the draws of its
noise.safetensors, and store trajectory.safetensors there. refrun check --case
FOLDER judges the answer. With --onnx or --graph the files are inputs of a network:
refrun check --onnx FILE --input PROBE judges the outputs of the device.

example: refrun probe --case my_case -o probes`,
	Run: runProbe,
}

func runProbe(c *cli.Command) error {
	dir := c.Flags.String("case", "",
		"`folder` of a case, or of its case.json and weights alone; it may stand without --case")
	c.Folder = dir
	out := c.Flags.String("o", "", "`folder` to write to, which must be new or empty")
	m := model.Declare(c)
	if err := c.Parse(0); err != nil {
		return err
	}
	if m.Given() {
		return probeModel(c, m, *out)
	}
	if len(m.Inputs) > 0 {
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
		return fmt.Errorf("-o: %s: holds %s: want a folder that is new or empty", *out, cli.Plural(len(entries), "file"))
	}
	files, err := oracle.WriteProbes(*out, cs)
	if err != nil {
		return err
	}
	if c.Json {
		return c.PrintJSON(struct {
			Files []string `json:"files"`
		}{files})
	}
	printProbes(c, files)
	return nil
}

func printProbes(c *cli.Command, files []string) {
	for _, f := range files {
		c.Printf("%s\n", cli.Clean(f))
	}
	draws := ""
	if slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == "noise.safetensors" }) {
		draws = " and with the draws of noise.safetensors"
	}
	c.Print("\n" + cli.Wrap("Let the device step each folder's case once, from initial_condition"+draws+
		", store trajectory.safetensors [M,2,C,H,W] there, and run refrun check --case FOLDER.", 0))
}
