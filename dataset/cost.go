package dataset

import (
	"fmt"

	"github.com/refrun/refrun/operator"
)

// Cost is what a unit takes, as far as its shapes say. It is computed with integers and
// exact products, so that all machines cut a dataset alike.
type Cost struct {
	GFLOP  float64 `json:"gflop"`  // of all steps of all realizations
	Bytes  int64   `json:"bytes"`  // of the file; of a compressed one at most
	Memory int64   `json:"memory"` // that it is about to take at once
}

// Units of work that are no products: what a step takes for each number of the widest
// layers, and the making of a weight, in floating-point operations that take as long.
const (
	perElement = 200
	perWeight  = 400
)

// Cost returns what the unit takes. An operator of Nodes is built for it.
func (u *Unit) Cost() (Cost, error) {
	s, r := u.Shape(), u.Rollout
	macs, weights := u.Operator.MACs(s.H, s.W)
	widest := float64(u.Operator.BaseChannels << min(max(u.Operator.NumLayers-1, 0), 2))
	layers := float64(u.Operator.NumLayers + 2)
	if u.Operator.Nodes != nil {
		op, err := operator.Init(u.Operator, u.WeightsSeed)
		if err != nil {
			return Cost{}, fmt.Errorf("operator %d: %w", u.Index, err)
		}
		macs, layers = float64(op.MACs(s.H, s.W)), float64(len(op.Nodes()))
		widest = float64(s.C)
		for _, p := range op.Params() {
			weights += float64(len(p.Data))
			if len(p.Shape) > 0 {
				widest = max(widest, float64(p.Shape[0]))
			}
		}
	}
	pixels, steps := float64(s.H)*float64(s.W), float64(r.Timesteps-1)*float64(r.Realizations)
	step := 2*macs + float64(perElement*float64(widest*layers*pixels))
	states := float64(r.Timesteps) * float64(r.Realizations)
	batch := float64(r.EngineBatches()[0][1])
	return Cost{
		GFLOP:  (float64(step*steps) + float64(perWeight*weights)) / 1e9,
		Bytes:  int64(states * (float64(s.Len()*u.Store.Bytes()) + 8*5 + 32)),
		Memory: int64(float64(24*weights)) + int64(float64(batch*pixels)*float64(4*3*widest+float64(16*float64(s.C)))) + 32<<20,
	}, nil
}
