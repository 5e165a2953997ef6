package serve

import (
	"context"
	"fmt"

	"github.com/refrun/refrun/cmd/refrun/internal/setup"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// run rolls the operator out from "start" [C,H,W] or [M,C,H,W], or from the case's own start, as
// the text of a rollout object says, or the case; with the tape "batch0" if it is given. The
// answer is "trajectory" [M,T,C,H,W].
func (s *session) run(m *safetensors.File) ([]*safetensors.Tensor, map[string]string, error) {
	cs := *s.cs
	var err error
	if text := m.Metadata["rollout"]; text != "" {
		if cs.Rollout, err = rollout.ReadConfig("rollout", "", []byte(text)); err != nil {
			return nil, nil, err
		}
	}
	stream := s.noise
	if _, err := m.Tensor("batch0"); err == nil {
		stream = "tape"
		if cs.Noise, err = tapeOf(m); err != nil {
			return nil, nil, err
		}
	}
	draws, err := cs.OpenStream(stream, s.op, s.mode)
	if err != nil {
		return nil, nil, err
	}
	x0, shape, err := start(&cs, m)
	if err != nil {
		return nil, nil, err
	}
	e := &rollout.Engine{Stepper: rollout.Stepper{Operator: s.op, Config: cs.Rollout, Mode: s.mode}, Stream: draws,
		Shape: shape, Start: setup.ByRealization(x0, shape)}
	k, err := keeping(e)
	if err != nil {
		return nil, nil, err
	}
	if err := e.Run(context.Background(), nil); err != nil {
		return nil, nil, err
	}
	t, err := safetensors.New("trajectory", safetensors.DTypeOf(k.format), k.shape[:], k.raw)
	said := map[string]string{
		"digest": k.digest.Hex(), "mode": cs.Rollout.ModeName(s.op, s.mode, draws), "noise": draws.Name,
	}
	return []*safetensors.Tensor{t}, said, err
}

// tapeOf returns the message's tape, without what else it holds.
func tapeOf(m *safetensors.File) (*safetensors.File, error) {
	t, err := m.Tensor("batch0")
	if err != nil {
		return nil, err
	}
	header, err := safetensors.Header([]*safetensors.Tensor{t}, nil)
	if err != nil {
		return nil, err
	}
	return safetensors.Parse("tape", append(header, t.Bytes()...))
}

// start returns the initial condition of a message, or the case's.
func start(cs *rollout.Case, m *safetensors.File) ([]float64, rollout.Shape, error) {
	t, err := m.Tensor("start")
	if err != nil {
		if cs.Trajectory == nil {
			return nil, rollout.Shape{}, fmt.Errorf("start: missing: want an initial condition [C,H,W] or [M,C,H,W]")
		}
		return cs.ReadStart()
	}
	shape, err := cs.StartShape("start", t.Shape)
	if err == nil {
		err = setup.Fits(cs.Rollout.EngineBatches()[0][1], shape, "fewer realizations")
	}
	if err != nil {
		return nil, shape, err
	}
	x0, err := t.Float64s()
	return x0, shape, err
}

// keeper is a sink that keeps all states in memory, as bytes of a format.
type keeper struct {
	format fp16.Format
	shape  [5]int
	raw    []byte
	digest *rollout.Digest
}

// keeping adds a keeper to an engine's sinks.
func keeping(e *rollout.Engine) (*keeper, error) {
	c, s := e.Config, e.Shape
	k := &keeper{format: e.Mode.Wide(), shape: [5]int{c.Realizations, c.Timesteps, s.C, s.H, s.W}}
	bytes := float64(k.format.Bytes())
	for _, n := range k.shape {
		bytes *= float64(n)
	}
	if bytes > mostTrajectory {
		return nil, fmt.Errorf("trajectory: %v: want at most %d GiB in memory; "+
			"refrun run -o streams a longer one to a file", k.shape, mostTrajectory>>30)
	}
	if err := memory.Fits(int64(bytes)); err != nil {
		return nil, fmt.Errorf("trajectory: %v: it %w; refrun run -o streams one to a file", k.shape, err)
	}
	k.raw, k.digest = make([]byte, int(bytes)), rollout.NewDigest(k.format, c.Realizations, c.Timesteps, s.C, s.H, s.W)
	e.Sinks = append(e.Sinks, k, k.digest)
	return k, nil
}

// mostTrajectory is how many bytes a trajectory may have that is sent in one message.
const mostTrajectory = 16 << 30

// State implements rollout.Sink.
func (k *keeper) State(t, m int, x, _ []float64) error {
	at := (m*k.shape[1] + t) * len(x) * k.format.Bytes()
	k.format.Append(k.raw[at:at], x)
	return nil
}
