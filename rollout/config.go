package rollout

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/strict"
)

// Policy says how the next state follows from the state X and the operator's
// output O.
type Policy string

// The update policies of Spinlock's OperatorRollout.
const (
	Autoregressive Policy = "autoregressive" // O
	Residual       Policy = "residual"       // X + dt O
	Convex         Policy = "convex"         // a X + (1-a) O
)

// Normalization names a post-processing of the whole state.
type Normalization string

// The post-processings of Spinlock's OperatorRollout.
const (
	NoNormalization Normalization = ""
	MinMax          Normalization = "minmax" // (x-min)/(max-min) if max-min > 1e-8
	ZScore          Normalization = "zscore" // (x-mean)/(std+1e-8), std unbiased
)

// Config holds the parameters of a rollout under Spinlock's names. A Config made in Go
// says what it means: Alpha 0 is 0, and Dt must be given for a residual policy. Where
// [ReadConfig] finds no alpha, dt or precision it fills in 0.5, 0.01 and "float32", as
// Spinlock does.
type Config struct {
	Policy       Policy  // policy_type; "" means convex
	Alpha        float64 // convex: weight of the old state, 0 <= alpha < 1
	Dt           float64 // residual: step, > 0
	Timesteps    int     // num_timesteps T >= 1: states with the initial one, so T-1 steps
	Realizations int     // num_realizations M >= 1
	BaseSeed     uint64  // base_seed
	Precision    string  // graph.ParseMode's names; that of a [Stepper] is its Mode
	Autocast     string  // graph.ParseAutocast's names, or "" for none: whose rules a half precision follows
	// EngineBatch is the number of realizations that the recording engine
	// stepped at once: it decides the seeds of framework streams, and
	// post-processing acts on the whole engine batch. 0 if the case does not
	// say: then all realizations share a seed per step, and post-processing
	// acts on each realization.
	EngineBatch   int
	Normalization Normalization
	Clamp         *[2]float64 // clamp_range, nil if there is none
	// State is the number format that states are kept in, the start too: float32,
	// float16 or bfloat16, as of a model and states that are half throughout; "" for what
	// [Config.StateFormat] says follows from the outputs.
	State string
}

// MostTimesteps is the greatest number of states of a rollout, thousands of times more
// than one has: what asks for more would take years.
const MostTimesteps = 1 << 24

// ReadConfig takes a rollout's parameters from the text of a JSON object, such as
//
//	{"num_timesteps": 100, "num_realizations": 4, "policy_type": "residual", "dt": 0.1}
//
// with the keys of docs/FORMATS.md. Unknown keys, missing ones (num_timesteps,
// num_realizations) and values out of range are errors of one line that names file,
// field, value and expectation: file is what they call the text, and place where in it
// the object stands, "" for the whole.
func ReadConfig(file, place string, data []byte) (Config, error) {
	o, err := strict.Parse(file, place, data)
	if err != nil {
		return Config{}, err
	}
	const most = 1<<31 - 1           // an int everywhere
	const mostRealizations = 1 << 20 // each has its hash in memory
	o.Need("num_timesteps", "num_realizations")
	c := Config{
		Policy:        Policy(o.String("policy_type", string(Convex))),
		Alpha:         o.Float("alpha", 0.5),
		Dt:            o.Float("dt", 0.01),
		Timesteps:     int(o.Int("num_timesteps", 1, 1, MostTimesteps)),
		Realizations:  int(o.Int("num_realizations", 1, 1, mostRealizations)),
		Precision:     o.String("precision", "float32"),
		Autocast:      o.String("autocast", ""),
		EngineBatch:   int(o.Int("engine_batch", 0, 1, most)),
		Normalization: Normalization(o.String("normalization", "")),
		State:         o.String("state", ""),
	}
	c.BaseSeed, _ = o.Seed("base_seed")
	if c.Normalization == "none" {
		c.Normalization = NoNormalization
	}
	if clamp := o.Floats("clamp_range"); clamp != nil {
		if len(clamp) != 2 || !(clamp[0] <= clamp[1]) {
			o.Fail("clamp_range", "%v: want two numbers, the lower one first", clamp)
		} else {
			c.Clamp = &[2]float64{clamp[0], clamp[1]}
		}
	}
	if err := o.Close(); err != nil {
		return c, err
	}
	if field, err := c.check(); err != nil {
		return c, o.Errorf(field, "%w", err)
	}
	return c, nil
}

func (c Config) check() (field string, err error) {
	switch c.Policy {
	case Autoregressive, Residual, Convex:
	default:
		return "policy_type", fmt.Errorf("%.60q: want autoregressive, residual or convex", c.Policy)
	}
	switch c.Normalization {
	case NoNormalization, MinMax, ZScore:
	default:
		return "normalization", fmt.Errorf("%.60q: want minmax, zscore or none", c.Normalization)
	}
	if _, err := graph.ParseAutocast(c.Autocast); err != nil {
		return "autocast", err
	}
	if _, err := graph.ParseMode(c.Precision, ""); err != nil {
		return "precision", err
	}
	if err := CheckState(c.State); err != nil {
		return "state", err
	}
	if !(c.Alpha >= 0 && c.Alpha < 1) {
		return "alpha", fmt.Errorf("%v: want a number in [0,1)", c.Alpha)
	}
	if dt := fp16.Float32.Round(c.Dt); !(dt > 0) || !strict.Finite(dt) {
		return "dt", fmt.Errorf("%v: want a float32 number greater than 0", c.Dt)
	}
	return "", nil
}

// CheckState refuses what is no [Config.State].
func CheckState(name string) error {
	switch name {
	case "", "float32", "float16", "bfloat16":
		return nil
	}
	return fmt.Errorf("%.60q: want float32, float16 or bfloat16", name)
}

// EngineBatches returns the bounds [lo,hi) of the engine batches in order.
func (c Config) EngineBatches() [][2]int {
	size := c.EngineBatch
	if size == 0 {
		size = c.Realizations
	}
	var b [][2]int
	for lo := 0; lo < c.Realizations; lo += size {
		b = append(b, [2]int{lo, min(lo+size, c.Realizations)})
	}
	return b
}
