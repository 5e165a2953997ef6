package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/safetensors"
)

// Case is a recorded rollout: what was run, with which weights, and what came
// out. It is a folder of case.json and safetensors files (docs/FORMATS.md).
type Case struct {
	Dir         string
	File        string // what messages call the JSON it was read from
	Operator    operator.Config
	Step        *StepGraph // nil of a case whose step is an operator and a policy
	Rollout     Config
	WeightsSeed *uint64 // torch.manual_seed before the operator was built, if known
	ProducedBy  string
	Note        string
	Incomplete  string // why the recorder stopped early, "" if it did not
	Torch       Torch

	// NoiseUnknown says that the draws could not be recorded and that no stream
	// gives them: a check of the case is one with unknown noise.
	NoiseUnknown bool

	// The files, nil where the folder has none.
	Weights    *safetensors.File
	Trajectory *safetensors.File
	Noise      *safetensors.File
	Layers     *safetensors.File
	Truth      *safetensors.File // one_step_f64.safetensors

	fsys       fs.FS    // the folder, nil if there is none
	layerSteps []string // names of further layers files
	step       string   // the file of the step graph
}

// Torch says which PyTorch recorded a case.
type Torch struct {
	Version string // such as "1.13.1"; "" if the case does not say
	MKL     bool   // built with Intel's MKL
	// MKLDraws says whether its Bernoulli and exponential draws are MKL's, as a probe of
	// it showed; nil if the case does not say.
	MKLDraws *bool
	// Of the CUDA device: its multiprocessors (0 on a CPU), and the threads
	// that each of them holds (2048 if the case does not say).
	SMCount, ThreadsPerSM int
}

// OpenCase reads the case in a folder. Whatever is wrong with it is an error
// of one line that names file, field, value and expectation.
func OpenCase(dir string) (*Case, error) { return OpenCaseFS(disk.Dir(dir), dir) }

// OpenCaseFS reads a case from the root of a file system; dir is what messages
// call it.
func OpenCaseFS(fsys fs.FS, dir string) (*Case, error) {
	c := &Case{Dir: dir, File: path.Join(dir, "case.json"), fsys: fsys}
	data, err := readFile(fsys, "case.json", mostJSON)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a case folder with a case.json", c.File, fault.Cause(err))
	}
	if err := checkSums(fsys, dir); err != nil {
		return nil, err
	}
	if err := c.readJSON(data); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		to   **safetensors.File
	}{
		{"weights", &c.Weights}, {"trajectory", &c.Trajectory}, {"noise", &c.Noise},
		{"layers", &c.Layers}, {"one_step_f64", &c.Truth},
	} {
		name := f.name + ".safetensors"
		var err error
		*f.to, err = openTensors(fsys, name, path.Join(dir, name))
		if err != nil {
			return nil, err
		}
	}
	entries, err := fs.ReadDir(fsys, ".") // fs.Glob takes a folder that cannot be read for an empty one
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a folder that can be read", dir, fault.Cause(err))
	}
	for _, e := range entries {
		if ok, _ := path.Match("layers.step*.safetensors", e.Name()); ok {
			if c.layerSteps = append(c.layerSteps, e.Name()); len(c.layerSteps) > mostLayerFiles {
				return nil, fmt.Errorf("%s: more than %d files layers.step*.safetensors: "+
					"want the layers of fewer steps", dir, mostLayerFiles)
			}
		}
	}
	if c.step != "" {
		return c, c.openStep(c.step)
	}
	if c.Weights == nil && c.WeightsSeed == nil {
		return nil, fmt.Errorf("%s: missing: want this file, or weights_seed in case.json",
			path.Join(dir, "weights.safetensors"))
	}
	return c, nil
}

// HasFolder reports whether the case is a folder, which may hold files beside its
// JSON; one of a configuration is not.
func (c *Case) HasFolder() bool { return c.fsys != nil }

// ReadFile returns what a file of the case's folder holds; the error is
// fs.ErrNotExist if there is no such file.
func (c *Case) ReadFile(name string) ([]byte, error) {
	if c.fsys == nil {
		return nil, fs.ErrNotExist
	}
	return readFile(c.fsys, name, mostJSON)
}

// What is read of a folder whole: text that says something of a case, and layers of one
// step at a time. A trajectory has at most 2^24 steps, and layers of a step are for looking
// closer, not for keeping.
const (
	mostJSON       = 16 << 20
	mostLayerFiles = 1 << 12
)

// EachLayers calls f with layers.safetensors, if the case has it, and then with
// every file named layers.step*.safetensors in the order of their names, one in
// memory at a time. An error of f ends it.
func (c *Case) EachLayers(f func(*safetensors.File) error) error {
	if c.Layers != nil {
		if err := f(c.Layers); err != nil {
			return err
		}
	}
	for _, name := range c.layerSteps {
		data, err := readFile(c.fsys, name, math.MaxInt64)
		if err != nil {
			return fmt.Errorf("%s: %w: want a regular file", path.Join(c.Dir, name), fault.Cause(err))
		}
		file, err := safetensors.Parse(path.Join(c.Dir, name), data)
		if err != nil {
			return err
		}
		if err := f(file); err != nil {
			return err
		}
	}
	return nil
}

// openTensors opens a safetensors file, whose elements stay on disk where the
// file system can read at a place: a trajectory may be larger than memory. It
// returns nil if there is no such file; as is what messages call it.
func openTensors(fsys fs.FS, name, as string) (*safetensors.File, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !info.Mode().IsRegular():
		err = irregular(info)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a regular file", as, fault.Cause(err))
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a regular file", as, fault.Cause(err))
	}
	if at, ok := file.(io.ReaderAt); ok {
		f, err := safetensors.ParseAt(as, at, info.Size()) // the file stays open
		if err == nil {
			err = checkSealed(f, at, info.Size())
		}
		return f, err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a regular file", as, fault.Cause(err))
	}
	return safetensors.Parse(as, data)
}

func irregular(info fs.FileInfo) error { return errors.New("is " + fault.Kind(info.Mode())) }

// readFile reads a regular file of at most so many bytes. Anything else, such as a pipe that nobody
// writes to, could keep the reader for ever.
func readFile(fsys fs.FS, name string, most int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(info)
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%d bytes, and %d are the most", info.Size(), most)
	}
	return fs.ReadFile(fsys, name)
}

// ParseCase returns the case that the JSON text of a case.json or a
// configuration says, with no files; file is what messages call it.
func ParseCase(file string, data []byte) (*Case, error) {
	c := &Case{Dir: path.Dir(file), File: file}
	return c, c.readJSON(data)
}

func (c *Case) readJSON(data []byte) error {
	file := c.File
	o, err := strict.Parse(file, "", data)
	if err != nil {
		return err
	}
	if o.Has("step") {
		o.Need("rollout")
	} else {
		o.Need("operator", "rollout")
	}
	o.Int("version", 1, 1, 1)
	c.step = o.String("step", "")
	op, ro, torch := o.Raw("operator"), o.Raw("rollout"), o.Child("torch")
	if seed, ok := o.Seed("weights_seed"); ok {
		c.WeightsSeed = &seed
	}
	c.ProducedBy, c.Note, c.Incomplete = o.String("produced_by", ""), o.String("note", ""), o.String("incomplete", "")
	switch noise := o.String("noise", ""); noise {
	case "":
	case "unknown":
		c.NoiseUnknown = true
	default:
		return fmt.Errorf("%s: noise: %.60q: want \"unknown\", or no such field", file, noise)
	}
	o.Open() // provenance beyond this is the recorder's own affair
	if err := o.Close(); err != nil {
		return err
	}
	if c.Incomplete != "" && string(op) == "{}" {
		return fmt.Errorf("%s: incomplete: %s: want a case that was recorded to its end", file, fault.Text(c.Incomplete))
	}
	if c.step != "" {
		return cmp.Or(c.stepped(op, ro), c.readTorch(torch))
	}
	if c.Operator, err = operator.ReadConfig(file, "operator", op); err != nil {
		return err
	}
	if c.Rollout, err = ReadConfig(file, "rollout", ro); err != nil {
		return err
	}
	if u := c.Operator.UAFNO; u != nil && c.Rollout.EngineBatch > 0 { // as Spinlock's engine does
		u.NoiseScope = noise.WholeBatch
	}
	if c.Operator.InputChannels != c.Operator.OutputChannels {
		return fmt.Errorf("%s: operator.output_channels: %d: want %d, as many as input_channels, to step a state", file,
			c.Operator.OutputChannels, c.Operator.InputChannels)
	}
	return c.readTorch(torch)
}

func (c *Case) readTorch(torch *strict.Object) error {
	if torch != nil {
		c.Torch = Torch{Version: torch.String("version", ""), MKL: torch.Bool("mkl", false),
			SMCount:      int(torch.Int("sm_count", 0, 0, 1<<20)),
			ThreadsPerSM: int(torch.Int("max_threads_per_sm", threadsPerSM, 1, 1<<20))}
		if torch.Has("mkl_draws") {
			draws := torch.Bool("mkl_draws", false)
			c.Torch.MKLDraws = &draws
		}
		torch.Open()
		return torch.Close()
	}
	return nil
}

// stepped reads the rollout of a step graph, which says itself what follows from a state.
func (c *Case) stepped(op, rollout []byte) (err error) {
	if c.fsys == nil {
		return fmt.Errorf("%s: step: %.60q: want a case folder, which holds the graph", c.File, c.step)
	}
	if op != nil {
		return fmt.Errorf("%s: operator: a step is given as well: want one of them", c.File)
	}
	o, err := strict.Parse(c.File, "rollout", rollout)
	if err != nil {
		return err
	}
	for _, key := range []string{"policy_type", "alpha", "dt", "normalization", "clamp_range", "engine_batch", "state"} {
		if o.Has(key) {
			return o.Errorf(key, "a step graph is the whole step: want nodes of %s in its place", c.step)
		}
	}
	if c.Rollout, err = ReadConfig(c.File, "rollout", rollout); err != nil {
		return err
	}
	c.Rollout.Policy, c.Rollout.EngineBatch = Autoregressive, 1 // realization by realization
	return nil
}

// FitsStep holds what a step graph is given against the rollout, whose steps and realizations may have changed since
// it was opened.
func (c *Case) FitsStep() error { return c.Step.fits(path.Join(c.Dir, inputsFile), c.Rollout, true) }

func (c *Case) noOperator() error {
	return fmt.Errorf("%s: step: a graph in place of an operator: want run, check or compare, which take it", c.File)
}

// NewOperator builds the case's operator, from its weights or, where it has
// none, from its weights seed.
func (c *Case) NewOperator() (*operator.Operator, error) {
	if c.Step != nil {
		return nil, c.noOperator()
	}
	var op *operator.Operator
	var err error
	named := false
	if c.Weights != nil {
		op, err = operator.Load(c.Operator, c.Weights)
		named = err != nil && strings.HasPrefix(err.Error(), c.Weights.Path+": ")
	} else {
		op, err = operator.Init(c.Operator, *c.WeightsSeed)
	}
	if err != nil && !named {
		err = fmt.Errorf("%s: %w", c.File, err)
	}
	return op, err
}

// threadsPerSM is how many threads a multiprocessor holds where a case does not say it, as
// [noise.ParseTorchCUDA] has it.
const threadsPerSM = 2048
