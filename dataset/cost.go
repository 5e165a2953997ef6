package dataset

import (
	"fmt"

	"github.com/refrun/refrun/operator"
)

// Cost is what a unit takes, as far as its shapes say. It is computed with integers and
// exact products, so that all machines cut a dataset alike.
type Cost struct {
	GFLOP  float64 `json:"gflop"`  // of all steps of all realizations
	Bytes  int64   `json:"bytes"`  // of the file that stays; of a compressed one at most
	Memory int64   `json:"memory"` // that it is about to take at once
}

// Work that is no products: what a step takes for each number of the widest layers,
// a weight to be made, a byte of the file, a unit, in floating-point operations that
// take as long.
// Bytes are hashed when they are written and read once more before the file gets its name; a
// unit's files are made durable.
const (
	perElement = 200
	perWeight  = 400
	perByte    = 150
	perUnit    = 1e9
)

// Cost returns what the unit takes. An operator of Nodes is built for it.
func (u *Unit) Cost() (Cost, error) {
	s, r := u.Shape(), u.Rollout
	macs, weights := u.Operator.MACs(s.H, s.W)
	widest := widest(u.Operator)
	layers := layers(u.Operator)
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
	states := float64(r.Timesteps) * float64(r.Realizations)
	batch := float64(r.EngineBatches()[0][1])
	bytes := states * (float64(s.Len()*u.Store.Bytes()) + 8*5 + 32)
	kept := bytes
	if !u.States {
		kept = float64(states*8*5) + float64(4*s.Len())
	}
	work := float64(step(macs, widest, layers, pixels)*steps) + float64(perWeight*weights) +
		float64(perByte*bytes) + perUnit
	return Cost{
		GFLOP: work / 1e9,
		Bytes: int64(kept),
		Memory: int64(float64(24*weights)) +
			int64(float64(batch*pixels)*(float64(12*widest)+float64(16*float64(s.C)))) + 32<<20,
	}, nil
}

// step returns the work of one step of one realization.
func step(macs, widest, layers, pixels float64) float64 {
	return float64(2*macs) + float64(perElement*float64(widest*layers*pixels))
}

// StepCost returns the work of one step of one realization in GFLOP as [Unit.Cost]
// counts it, so that a step that was timed gives the rate of a machine. It is 0 for an
// operator of Nodes.
func StepCost(c operator.Config, grid int) float64 {
	if c.Nodes != nil {
		return 0
	}
	macs, _ := c.MACs(grid, grid)
	return step(macs, widest(c), layers(c), float64(grid)*float64(grid)) / 1e9
}

// layers returns how many layers go over the whole image.
func layers(c operator.Config) float64 {
	if u := c.UAFNO; u != nil { // a level's share shrinks with its images
		return float64(8 * (u.BlocksPerLevel + 2))
	}
	if f := c.FNO; f != nil {
		return float64(4 * (f.Layers + 1))
	}
	return float64(c.NumLayers + 2)
}

// widest returns the channels of the widest layer, as many as that has on whole images.
func widest(c operator.Config) float64 {
	if c.UAFNO != nil {
		return float64(2 * c.BaseChannels)
	}
	if f := c.FNO; f != nil {
		return float64(f.HiddenChannels) * max(f.LiftingRatio, f.ProjectionRatio, 1)
	}
	return float64(c.BaseChannels << min(max(c.NumLayers-1, 0), 2))
}
