package rollout

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"
	"sync/atomic"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/disk"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/internal/strict"
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
				return nil, fmt.Errorf("%s: more than %d files layers.step*.safetensors: want the layers of fewer steps", dir, mostLayerFiles)
			}
		}
	}
	if c.Weights == nil && c.WeightsSeed == nil {
		return nil, fmt.Errorf("%s: missing: want this file, or weights_seed in case.json", path.Join(dir, "weights.safetensors"))
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
	o.Need("operator", "rollout")
	o.Int("version", 1, 1, 1)
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
		return fmt.Errorf("%s: operator.output_channels: %d: want %d, as many as input_channels, to step a state", file, c.Operator.OutputChannels, c.Operator.InputChannels)
	}
	if torch != nil {
		c.Torch = Torch{Version: torch.String("version", ""), MKL: torch.Bool("mkl", false), SMCount: int(torch.Int("sm_count", 0, 0, 1<<20)),
			ThreadsPerSM: int(torch.Int("max_threads_per_sm", noise.DefaultThreads, 1, 1<<20))}
		if torch.Has("mkl_draws") {
			draws := torch.Bool("mkl_draws", false)
			c.Torch.MKLDraws = &draws
		}
		torch.Open()
		return torch.Close()
	}
	return nil
}

// NewOperator builds the case's operator, from its weights or, where it has
// none, from its weights seed.
func (c *Case) NewOperator() (*operator.Operator, error) {
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

// States is a trajectory: [M,T,C,H,W], row-major. It is in memory, or, of
// [Case.OpenTrajectory], in a file of which it reads a state at a time. One that a
// device wrote elsewhere is made by hand: the sizes, Data and the format of its numbers.
type States struct {
	M, T, C, H, W int
	Format        fp16.Format // in which the states are stored
	Data          []float64   // nil if it is in a file
	file          *safetensors.Tensor
	failed        *atomic.Pointer[error] // of the file; nil if there is none
}

// Err returns the first error of reading the file, nil if there was none. Whoever judges
// by what At returned asks first.
func (s *States) Err() error {
	if s.failed == nil || s.failed.Load() == nil {
		return nil
	}
	return *s.failed.Load()
}

// CHW returns the number of elements of one state.
func (s *States) CHW() int { return s.C * s.H * s.W }

// At returns the state of realization m at step t, which is shared and must
// not be changed. Where it cannot be read, because the disk fails or the file was
// changed since it was opened, At returns zeros and Err says why.
func (s *States) At(m, t int) []float64 {
	n := s.CHW()
	at := (m*s.T + t) * n
	if s.file == nil {
		return s.Data[at : at+n : at+n]
	}
	v := make([]float64, n)
	if err := s.file.Read(at, v); err != nil {
		clear(v)
		err = fmt.Errorf("state %d of realization %d: %w: want a file that can be read, and stays as it is", t, m, err)
		s.failed.CompareAndSwap(nil, &err)
	}
	return v
}

// ReadTrajectory returns the recorded trajectory, whose shape must be the one
// that case.json says.
func (c *Case) ReadTrajectory() (*States, error) {
	s, err := c.OpenTrajectory()
	if err != nil {
		return nil, err
	}
	s.Data, err = s.file.Float64s()
	s.file = nil
	return s, err
}

// OpenTrajectory is ReadTrajectory without reading it: the states stay in the
// file until they are asked for.
func (c *Case) OpenTrajectory() (*States, error) {
	if c.Trajectory == nil {
		return nil, fmt.Errorf("%s: missing: want the recorded trajectory", path.Join(c.Dir, "trajectory.safetensors"))
	}
	t, err := c.Trajectory.Tensor("trajectory")
	if err != nil {
		return nil, err
	}
	return c.states(c.Trajectory, t, c.Rollout.Timesteps)
}

// ReadStart returns the recorded initial condition, [C,H,W] for all realizations
// or [M,C,H,W] for each, before post-processing.
func (c *Case) ReadStart() ([]float64, Shape, error) {
	if c.Trajectory == nil {
		return nil, Shape{}, fmt.Errorf("%s: missing: want the recorded initial condition", path.Join(c.Dir, "trajectory.safetensors"))
	}
	t, err := c.Trajectory.Tensor("initial_condition")
	if err != nil {
		return nil, Shape{}, err
	}
	s, err := c.StartShape(c.Trajectory.Path+": initial_condition", t.Shape)
	if err != nil {
		return nil, s, err
	}
	data, err := t.Float64s()
	return data, s, err
}

// StartShape returns the size of a state of an initial condition of that shape,
// [C,H,W] or [M,C,H,W]; another shape is an error that begins with name.
func (c *Case) StartShape(name string, shape []int) (Shape, error) {
	channels, m, d := c.Operator.InputChannels, c.Rollout.Realizations, shape
	if len(d) == 4 && d[0] == m {
		d = d[1:]
	}
	if len(d) != 3 || d[0] != channels || d[1] < 1 || d[2] < 1 {
		return Shape{}, fmt.Errorf("%s: shape %v: want [%d,H,W] or [%d,%d,H,W]%s", name, shape, channels, m, channels, channelsLast(d, channels))
	}
	return Shape{d[0], d[1], d[2]}, nil
}

// ReadTruth returns the float64 one-step truth [M,T-1,C,H,W] of the case, or
// nil if it has none.
func (c *Case) ReadTruth() (*States, error) {
	if c.Truth == nil {
		return nil, nil
	}
	t, err := c.Truth.Tensor("one_step")
	if err != nil {
		return nil, err
	}
	s, err := c.states(c.Truth, t, c.Rollout.Timesteps-1)
	if err != nil {
		return nil, err
	}
	s.Data, err = t.Float64s()
	s.file = nil
	return s, err
}

// channelsLast is a hint where a shape has its channels last, as other frameworks have them.
func channelsLast(shape []int, channels int) string {
	if n := len(shape); n >= 3 && shape[n-3] != channels && shape[n-1] == channels {
		return "; the channels seem to stand last: want them before H and W"
	}
	return ""
}

// mixedUp is a hint which axes of a trajectory may have changed places.
func (c *Case) mixedUp(s []int, steps int) string {
	m := c.Rollout.Realizations
	if len(s) == 5 && m != steps && s[0] == steps && s[1] == m {
		return "; steps and realizations seem to have changed places"
	}
	return channelsLast(s, c.Operator.OutputChannels)
}

func (c *Case) states(f *safetensors.File, t *safetensors.Tensor, steps int) (*States, error) {
	s, r := t.Shape, c.Rollout
	if len(s) != 5 || s[0] != r.Realizations || s[1] != steps || s[2] != c.Operator.OutputChannels || s[3] < 1 || s[4] < 1 {
		return nil, fmt.Errorf("%s: %s: shape %v: want [%d,%d,%d,H,W] as case.json says%s", f.Path, t.Name, s, r.Realizations, steps, c.Operator.OutputChannels, c.mixedUp(s, steps))
	}
	if err := t.Read(0, nil); err != nil { // of a type that has no numbers
		return nil, err
	}
	format, _ := t.DType.Format()
	return &States{M: s[0], T: s[1], C: s[2], H: s[3], W: s[4], Format: format, file: t, failed: new(atomic.Pointer[error])}, nil
}
