package rollout

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
)

// Stream is where a case's noise comes from.
type Stream struct {
	Name string // canonical, as in mode strings: "tape", "torch-cpu:1.13", "counter", "none"
	// at returns the draws of step t for engine batch k, realizations [lo,hi).
	at func(k, lo, hi, t int) (noise.Draws, error)
}

// OpenStream returns the stream of that name for the case: "counter", "tape",
// "none", "torch-cpu", "torch-cpu:1.13", "torch-cpu:2.x" (and :mkl, which is
// refused where it matters); "" means what the case says: its tape, or the CPU
// stream of the PyTorch that recorded it, or, if it names neither, counter.
func (c *Case) OpenStream(name string, op *operator.Operator) (*Stream, error) {
	if !op.HasNoise() || name == "none" {
		return &Stream{"none", func(int, int, int, int) (noise.Draws, error) { return nil, nil }}, nil
	}
	if name == "" {
		switch {
		case c.Noise != nil:
			name = "tape"
		case c.Torch.Version != "":
			name = "torch-cpu"
		default:
			name = "counter"
		}
	}
	kind, _, _ := strings.Cut(name, ":")
	switch kind {
	case "tape":
		if c.Noise == nil {
			return nil, fmt.Errorf("%s: missing: want a recorded tape, or another --noise", path.Join(c.Dir, "noise.safetensors"))
		}
		tape, err := noise.OpenTape(c.Noise)
		return &Stream{"tape", func(k, lo, hi, t int) (noise.Draws, error) { return tape.Draws(k, t, 0, hi-lo) }}, err
	case "torch-cpu":
		return c.openTorchCPU(name)
	case "counter":
		if name != "counter" {
			break
		}
		g := noise.Counter{Seed: c.Rollout.BaseSeed}
		return &Stream{"counter", func(_, lo, hi, t int) (noise.Draws, error) { return g.At(t, lo, hi) }}, nil
	case "torch-cuda":
		return nil, fmt.Errorf("noise: %q is not there yet: want counter, tape, torch-cpu[:1.13|:2.x] or none", name)
	}
	return nil, fmt.Errorf("noise: %q: want counter, tape, torch-cpu[:1.13|:2.x] or none", name)
}

// openTorchCPU opens a stream named torch-cpu[:VERSION][:mkl]. What the name
// leaves open the case says: the version and whether PyTorch was built with
// MKL. MKL changes Bernoulli and exponential draws only, so for noise made of
// normal draws it does not matter and is not refused.
func (c *Case) openTorchCPU(name string) (*Stream, error) {
	version := ""
	switch v := c.Torch.Version; {
	case strings.HasPrefix(v, "1.13"):
		version = "1.13"
	case strings.HasPrefix(v, "2."):
		version = "2.x"
	case name == "torch-cpu" || name == "torch-cpu:mkl":
		return nil, fmt.Errorf("%s: torch.version: %q: want a 1.13 or 2.x version, or --noise torch-cpu:1.13 or torch-cpu:2.x", path.Join(c.Dir, "case.json"), v)
	}
	if c.Torch.MKL && strings.Count(name, ":") == 0 {
		name += ":mkl"
	}
	if t := c.Operator.NoiseType; t == "gaussian" || t == "multiplicative" {
		name = strings.TrimSuffix(name, ":mkl")
	}
	g, err := noise.ParseTorchCPU(name, version)
	if err != nil {
		return nil, err
	}
	seed := c.Rollout.BaseSeed
	return &Stream{g.String(), func(_, lo, _, t int) (noise.Draws, error) {
		// The engine seeds with base_seed + first realization + t.
		g.Seed(seed + uint64(lo) + uint64(t))
		return g, nil
	}}, nil
}

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
