package rollout

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
)

// Stream is where a case's noise comes from.
type Stream struct {
	Name string // canonical, as in mode strings: "tape", "torch-cpu:1.13", "counter", "none"
	// Contents is the hash of what was recorded, of a stream that replays; "" of one that
	// its name and a seed decide.
	Contents string
	// at returns the draws of step t for engine batch k, realizations [lo,hi).
	at func(k, lo, hi, t int) (noise.Draws, error)
}

// NewStream returns a stream of draws that are known otherwise: at returns those
// of step t (1 or more) for engine batch k, realizations [lo,hi); name is what mode
// strings call it.
func NewStream(name string, at func(k, lo, hi, t int) (noise.Draws, error)) *Stream {
	return &Stream{Name: name, at: at}
}

// OpenStream returns the stream of that name for the case and an operator
// stepped in a mode: "counter", "tape",
// "none", "torch-cpu[:1.13|:2.x][:mkl]", "torch-cuda:SMS[:THREADS]"; "" means
// what the case says: its tape, or the stream of the PyTorch that recorded it
// (that of a CUDA device if torch.sm_count names one), or, if it names neither,
// counter. For streams without files the case need be none:
//
//	c := &rollout.Case{Operator: op.Config, Rollout: config} // config.BaseSeed seeds it
//	stream, err := c.OpenStream("counter", op, mode)
func (c *Case) OpenStream(name string, op *operator.Operator, mode graph.Mode) (*Stream, error) {
	kind, _, _ := strings.Cut(name, ":")
	switch { // a name is wrong even where there is no noise
	case name == "", name == "none", name == "tape", name == "counter", kind == "torch-cpu", kind == "torch-cuda":
	default:
		return nil, fmt.Errorf("noise: %.60q: want counter, tape, torch-cpu[:1.13|:2.x], torch-cuda:SMS or none", name)
	}
	if !op.HasNoise() || name == "none" {
		return &Stream{Name: "none", at: noDraws}, nil
	}
	if name == "" {
		name = c.Framework()
		if c.Noise != nil {
			name = "tape"
		}
		if name == "" {
			name = "counter"
		}
	}
	switch kind, _, _ := strings.Cut(name, ":"); kind {
	case "tape":
		switch {
		case c.Noise == nil && !c.HasFolder():
			return nil, fmt.Errorf(
				"--noise: tape: %s has none: want a case folder with noise.safetensors, or another stream", c.File,
			)
		case c.Noise == nil:
			return nil, fmt.Errorf("%s: missing: want a recorded tape, or another --noise",
				path.Join(c.Dir, "noise.safetensors"))
		}
		tape, err := noise.OpenTape(c.Noise)
		if err != nil {
			return nil, err
		}
		return &Stream{
			"tape", tape.Hash(), func(k, lo, hi, t int) (noise.Draws, error) { return tape.Draws(k, t, 0, hi-lo) },
		}, nil
	case "counter":
		g := noise.Counter{Seed: c.Rollout.BaseSeed}
		return &Stream{Name: "counter", at: func(_, lo, hi, t int) (noise.Draws, error) { return g.At(t, lo, hi) }}, nil
	case "torch-cuda":
		g, err := noise.ParseTorchCUDA(name)
		if err != nil {
			return nil, err
		}
		return seeded(g, c.Rollout.BaseSeed), nil
	}
	return c.openTorchCPU(name, op.NoiseFormat(mode))
}

// generator is a random generator of a framework.
type generator interface {
	noise.Draws
	fmt.Stringer
	Seed(uint64)
}

// seeded returns g's stream as Spinlock's engine uses it: before step t it
// seeds with base_seed + first realization of the engine batch + t.
func seeded(g generator, base uint64) *Stream {
	return &Stream{Name: g.String(), at: func(_, lo, _, t int) (noise.Draws, error) {
		g.Seed(base + uint64(lo) + uint64(t))
		return g, nil
	}}
}

// Framework returns the name of the random stream of the PyTorch that recorded
// the case, on its device, or "" if the case does not say.
func (c *Case) Framework() string {
	switch {
	case c.Torch.SMCount > 0:
		return fmt.Sprintf("torch-cuda:%d:%d", c.Torch.SMCount, c.Torch.ThreadsPerSM)
	case c.Torch.Version != "":
		return "torch-cpu"
	}
	return ""
}

// openTorchCPU opens a stream named torch-cpu[:VERSION][:mkl]. What the name
// leaves open the case says: the version and whether Bernoulli and exponential draws
// are MKL's (see mklDraws). Noise made of normal draws is the same either way.
// PyTorch's CPU draws other normals for a tensor of a half type.
func (c *Case) openTorchCPU(name string, f fp16.Format) (*Stream, error) {
	version := ""
	switch v := c.Torch.Version; {
	case strings.HasPrefix(v, "1.13"):
		version = "1.13"
	case strings.HasPrefix(v, "2."):
		version = "2.x"
	case name == "torch-cpu" || name == "torch-cpu:mkl":
		return nil, fmt.Errorf("%s: torch.version: %.60q: "+
			"want a 1.13 or 2.x version, or --noise torch-cpu:1.13 or torch-cpu:2.x", c.File, v)
	}
	if t := c.Operator.NoiseType; t == "gaussian" || t == "multiplicative" {
		name = strings.TrimSuffix(name, ":mkl")
	} else if strings.Count(name, ":") == 0 {
		mkl, err := c.mklDraws()
		if err != nil {
			return nil, err
		}
		if mkl {
			name += ":mkl"
		}
	}
	g, err := noise.ParseTorchCPU(name, version)
	if err != nil {
		return nil, err
	}
	g.Half = f
	if f == fp16.Float16 && strings.HasPrefix(g.String(), "torch-cpu:1.13") {
		return nil, fmt.Errorf("noise: %v: has no normal draws of type float16: want torch-cpu:2.x", g)
	}
	return seeded(g, c.Rollout.BaseSeed), nil
}

// mklDraws reports whether the Bernoulli and exponential draws of the case's PyTorch are
// MKL's: as the case says, or else by its release. A build without MKL has none. With it
// they are MKL's on any processor up to 2.6 and on none from 2.7 on, as far as 2.9, which
// is what was read and measured; in 1.13 on Intel's only, and what later releases do is
// not known.
func (c *Case) mklDraws() (bool, error) {
	if c.Torch.MKLDraws != nil {
		return *c.Torch.MKLDraws, nil
	}
	if !c.Torch.MKL {
		return false, nil
	}
	release, minor := "1.13", 0
	if n, err := fmt.Sscanf(c.Torch.Version, "2.%d", &minor); n == 1 && err == nil {
		if minor <= 9 {
			return minor <= 6, nil
		}
		release = "2.x"
	}
	return false, fmt.Errorf("%s: torch.mkl_draws: missing: PyTorch %.60q, built with MKL, "+
		"may draw dropout masks and exponentials with it or not: want mkl_draws, as the recorder writes it, or "+
		"--noise torch-cpu:%s or torch-cpu:%s:mkl", c.File, c.Torch.Version, release, release)
}

func noDraws(int, int, int, int) (noise.Draws, error) { return nil, nil }

// Draws returns the draws of step t (1 or more) for engine batch k, which
// holds realizations [lo,hi): nil if the stream is "none". They must be used
// before the next call.
func (s *Stream) Draws(k, lo, hi, t int) (noise.Draws, error) {
	return s.at(k, lo, hi, t)
}

// White fills dst with the standard normals of the counter stream that are set
// aside for initial conditions.
func White(seed uint64, s Shape, dst []float64) error {
	d, err := noise.Counter{Seed: seed, Operator: math.MaxUint32}.At(0, 0, 1)
	if err != nil {
		return err
	}
	return d.Draw(noise.Normal, 0, []int{1, s.C, s.H, s.W}, dst)
}
