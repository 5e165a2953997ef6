// 08_step loads the weights of an operator from a safetensors file and steps a state.
package main

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

func main() {
	weights, err := safetensors.Open("../../testdata/rollouts/no_norm_no_noise/weights.safetensors")
	check(err)
	op, err := operator.Load(operator.Config{NumLayers: 2, BaseChannels: 4, Normalization: "none"}, weights)
	check(err)
	mode, err := graph.ParseMode("bfloat16", "cuda")
	check(err)
	step := rollout.Stepper{Operator: op, Mode: mode, Config: rollout.Config{Policy: rollout.Residual, Dt: 0.1}}

	state := tensor.FromFloat32(make([]float32, 1*3*16*16), 1, 3, 16, 16) // [N,C,H,W]
	for t := range 5 {
		state, err = step.Step(state, nil) // nil: without noise
		check(err)
		fmt.Printf("step %d: %s %v, first numbers %.6f\n", t+1, state.Dims(), state.Format, state.Float32s()[:2])
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
