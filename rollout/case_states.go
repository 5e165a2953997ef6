package rollout

import (
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
)

// States is a trajectory: [M,T,C,H,W], row-major. It is in memory, or, of
// [Case.OpenTrajectory], in a file of which it reads a state at a time. One that a
// device wrote elsewhere is made by hand: the sizes, Data and the format of its numbers.
type States struct {
	M, T, C, H, W int
	Name          string      // of a step graph's state, "" of its first and of an operator's
	Dims          []int       // the shape of a step graph's state, of which C, H and W are planes; nil of images
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

// Called returns the name of the states' tensor: trajectory, or trajectory.NAME.
func (s *States) Called() string { return strings.TrimSuffix("trajectory."+s.Name, ".") }

// Channels returns how many channels a state has: planes of samples are C. It is the second axis of three or more.
func (s *States) Channels() int {
	switch {
	case s.Dims == nil:
		return s.C
	case len(s.Dims) < 3:
		return 1
	}
	return s.Dims[1]
}

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
	if c.Step != nil {
		return nil, Shape{}, c.noOperator()
	}
	if c.Trajectory == nil {
		return nil, Shape{}, fmt.Errorf("%s: missing: want the recorded initial condition",
			path.Join(c.Dir, "trajectory.safetensors"))
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
		return Shape{}, fmt.Errorf("%s: shape %v: want [%d,H,W] or [%d,%d,H,W]%s",
			name, shape, channels, m, channels, channelsLast(d, channels))
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
	if len(s) != 5 || s[0] != r.Realizations || s[1] != steps || s[2] != c.Operator.OutputChannels ||
		s[3] < 1 || s[4] < 1 {
		return nil, fmt.Errorf("%s: %s: shape %v: want [%d,%d,%d,H,W] as case.json says%s",
			f.Path, t.Name, s, r.Realizations, steps, c.Operator.OutputChannels, c.mixedUp(s, steps))
	}
	if err := t.Read(0, nil); err != nil { // of a type that has no numbers
		return nil, err
	}
	format, _ := t.DType.Format()
	return &States{
		M: s[0], T: s[1], C: s[2], H: s[3], W: s[4], Format: format, file: t, failed: new(atomic.Pointer[error]),
	}, nil
}
