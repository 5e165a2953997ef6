package rollout_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// last keeps the last state of each realization.
type last map[int][]float64

func (l last) State(t, m int, x, _ []float64) error {
	l[m] = append(l[m][:0], x...)
	return nil
}

// Two realizations of a noisy operator are rolled out for ten steps, and their digest
// says whether another machine, or another split into batches, made the same bits.
func ExampleEngine_Run() {
	op, err := operator.Init(operator.Config{NumLayers: 1, BaseChannels: 8, NoiseType: "gaussian", NoiseScale: 0.1}, 1)
	if err != nil {
		log.Fatal(err)
	}
	config := rollout.Config{Policy: rollout.Residual, Dt: 0.1, Timesteps: 11, Realizations: 2, BaseSeed: 5}
	shape := rollout.Shape{C: 3, H: 16, W: 16}
	mode, err := graph.ParseMode("bfloat16", "cuda")
	if err != nil {
		log.Fatal(err)
	}
	run := func(engineBatch int) string {
		config.EngineBatch = engineBatch
		stream, err := (&rollout.Case{Operator: op.Config, Rollout: config}).OpenStream("counter", op, mode)
		if err != nil {
			log.Fatal(err)
		}
		digest := rollout.NewDigest(config.StateFormat(op.Output(mode)), 2, 11, 3, 16, 16)
		states := last{}
		e := &rollout.Engine{
			Stepper: rollout.Stepper{Operator: op, Config: config, Mode: mode},
			Stream:  stream, Shape: shape,
			Start: func(m int) []float64 {
				x := make([]float64, shape.Len())
				if err := rollout.White(uint64(m), shape, x); err != nil {
					log.Fatal(err)
				}
				return x
			},
			Sinks: []rollout.Sink{digest, states},
		}
		if err := e.Run(context.Background(), nil); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("variance %.3f\n", rollout.Diagnose(states[0], nil).Variance)
		return digest.Hex()
	}
	fmt.Println(run(1) == run(2))
	// Output:
	// variance 1.174
	// variance 1.174
	// true
}

// A recorded case is read, and its operator steps one of its states.
func ExampleStepper_Step() {
	c, err := rollout.OpenCase("../testdata/rollouts/no_norm_no_noise")
	if err != nil {
		log.Fatal(err)
	}
	op, err := c.NewOperator()
	if err != nil {
		log.Fatal(err)
	}
	states, err := c.ReadTrajectory()
	if err != nil {
		log.Fatal(err)
	}
	mode, err := graph.ParseMode(c.Rollout.Precision, "")
	if err != nil {
		log.Fatal(err)
	}
	s := rollout.Stepper{Operator: op, Config: c.Rollout, Mode: mode}
	x := tensor.Of(states.Format, states.At(0, 0), 1, states.C, states.H, states.W)
	next, err := s.Step(x, nil)
	if err != nil {
		log.Fatal(err)
	}
	farthest := 0.0
	for i, v := range states.At(0, 1) {
		farthest = max(farthest, math.Abs(v-next.Data[i]))
	}
	fmt.Println(next.Dims(), farthest < 1e-6)
	// Output: [1,3,17,17] true
}
