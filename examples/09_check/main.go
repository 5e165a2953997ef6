// 09_check says whether what a device wrote is what its claimed arithmetic gives. The
// trajectory here is PyTorch's, on a CPU; then one of its numbers is changed.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle"
	"github.com/refrun/refrun/rollout"
)

func main() {
	c, err := rollout.OpenCase("../../testdata/rollouts/no_norm_no_noise")
	check(err)
	op, err := c.NewOperator()
	check(err)
	states, err := c.ReadTrajectory()
	check(err)
	mode, err := graph.ParseMode("float32", "")
	check(err)
	claim := oracle.Claim{Mode: mode, Rollout: c.Rollout}

	report, err := oracle.Check(context.Background(), op, states, claim)
	check(err)
	fmt.Println("as PyTorch wrote it:", report.Verdict)

	x := states.At(0, 7)
	x[100] = float64(float32(x[100]) + 0.01)
	report, err = oracle.Check(context.Background(), op, states, claim)
	check(err)
	fmt.Println("one number changed:", report.Verdict, "at step", report.FirstStep)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
