package run

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// identity lists what decides the bytes of an output, or whether there is one: contents,
// never the names of files. tape is the hash of the noise that is replayed.
func identity(cs *rollout.Case, op *operator.Operator, mode, tape string, store fp16.Format, shape rollout.Shape,
	x0 []float64, allowNonfinite bool) [][2]string {
	r := cs.Rollout
	weights := sha256.New()
	for _, p := range op.Params() {
		fmt.Fprintf(weights, "%q %v\n", p.Name, p.Shape)
		weights.Write(fp16.Float64.Append(nil, p.Data))
	}
	start := sha256.New()
	for b := []byte(nil); len(x0) > 0; x0 = x0[min(len(x0), shape.Len()):] {
		b = fp16.Float64.Append(b[:0], x0[:shape.Len()])
		start.Write(b)
	}
	clamp := "none"
	if r.Clamp != nil {
		clamp = fmt.Sprint(*r.Clamp)
	}
	o := cs.Operator
	o.Ignored = nil
	built, err := json.Marshal(o)
	if err != nil { // of a number that JSON does not have: none is read from one
		built = fmt.Appendf(nil, "%#v", o)
	}
	return [][2]string{
		{"version", cli.Version}, {"contract", graph.Contract}, {"mode", mode}, {"store", store.String()},
		{"operator", string(built)}, {"weights", fmt.Sprintf("%x", weights.Sum(nil))}, {"tape", tape},
		{"state", fmt.Sprint([]int{shape.C, shape.H, shape.W})}, {"initial condition", fmt.Sprintf("%x", start.Sum(nil))},
		{"policy_type", string(r.Policy)}, {"alpha", fmt.Sprint(r.Alpha)}, {"dt", fmt.Sprint(r.Dt)},
		{"steps", fmt.Sprint(r.Timesteps - 1)}, {"realizations", fmt.Sprint(r.Realizations)},
		{"base_seed", fmt.Sprint(r.BaseSeed)},
		{"engine_batch", fmt.Sprint(r.EngineBatch)}, {"normalization", string(r.Normalization)}, {"clamp_range", clamp},
		{"allow_nonfinite", fmt.Sprint(allowNonfinite)},
	}
}
