package oracle_test

import (
	"context"
	"fmt"
	"log"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

// gpu stands for your program: it rolls an operator out in float16 and returns
// the states that it wrote.
func gpu(op *operator.Operator, config rollout.Config, mode graph.Mode) *rollout.States {
	s := &rollout.States{M: config.Realizations, T: config.Timesteps, C: 3, H: 32, W: 32, Format: mode.Wide()}
	s.Data = make([]float64, s.M*s.T*s.CHW())
	e := &rollout.Engine{
		Stepper: rollout.Stepper{Operator: op, Config: config, Mode: mode},
		Stream:  none(op, mode), Shape: rollout.Shape{C: s.C, H: s.H, W: s.W},
		Start: func(m int) []float64 {
			x := make([]float64, s.CHW())
			if err := rollout.White(uint64(m), rollout.Shape{C: s.C, H: s.H, W: s.W}, x); err != nil {
				log.Fatal(err)
			}
			return x
		},
		Sinks: []rollout.Sink{keep{s}},
	}
	if err := e.Run(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	return s
}

func none(op *operator.Operator, mode graph.Mode) *rollout.Stream {
	s, err := new(rollout.Case).OpenStream("none", op, mode)
	if err != nil {
		log.Fatal(err)
	}
	return s
}

type keep struct{ s *rollout.States }

func (k keep) State(t, m int, x, _ []float64) error {
	copy(k.s.At(m, t), x)
	return nil
}

// printer is a testing.TB that prints, so that this example can be run.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Fatalf(format string, args ...any) { fmt.Println("test failed") }

// A trajectory that a device wrote is held against its own claim, step by step.
// In a test, RequirePass does it in one line.
func ExampleCheck() {
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 8, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "gelu", Normalization: "instance"}, 1)
	if err != nil {
		log.Fatal(err)
	}
	config := rollout.Config{Policy: rollout.Convex, Alpha: 0.5, Timesteps: 6, Realizations: 2}
	mode, err := graph.ParseMode("float16", "cuda")
	if err != nil {
		log.Fatal(err)
	}
	states := gpu(op, config, mode)
	claim := oracle.Claim{Mode: mode, Rollout: config}

	r, err := oracle.Check(context.Background(), op, states, claim)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Verdict)

	// A kernel that skips a tile at step 4.
	for y := range 8 {
		copy(states.At(1, 4)[y*32:y*32+8], states.At(1, 3)[y*32:])
	}
	if r, err = oracle.Check(context.Background(), op, states, claim); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Verdict.Code(), "step", r.FirstStep, "realization", r.FirstRealization)

	// In a test: oracle.RequirePass(t, ctx, op, states, claim)
	oracle.Require(printer{}, r)
	// Output:
	// PASS-CONFORMING
	// 1 step 4 realization 1
	// test failed
}
