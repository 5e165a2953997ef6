package dataset

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/dataset/initial"
	"github.com/refrun/refrun/internal/dataset/sample"
	"github.com/refrun/refrun/internal/ground/strict"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// Unit is one operator of a dataset and the rollouts of it. It is a function of the
// specification and of the operator's index, and of nothing else.
type Unit struct {
	Index int
	Point []float64 // of the unit cube
	// Values are the parameters that the coordinates of Point stand for, in order: a number, 0
	// or 1 for a truth, and for a choice of something else which one it is, from 0.
	Values []float64
	texts  []json.RawMessage // the same, as JSON
	// What the point makes of the specification, JSON objects as in a case.json.
	OperatorText, RolloutText, InitialText json.RawMessage

	Operator    operator.Config
	Rollout     rollout.Config
	Mode        graph.Mode
	condition   *initial.Condition
	WeightsSeed uint64
	InitialSeed uint64
	Store       fp16.Format
	States      bool // whether the file holds them
	// Identity is the SHA-256 of all that decides the unit's numbers.
	Identity string
}

// Shape returns the size of a state.
func (u *Unit) Shape() rollout.Shape {
	return rollout.Shape{C: u.Operator.InputChannels, H: u.Operator.GridSize, W: u.Operator.GridSize}
}

// InitialType returns the name of the initial condition's type, such as gaussian_random_field.
func (u *Unit) InitialType() string { return u.condition.Type }

// Units makes the units of a specification, one by one.
type Units struct {
	*Spec
	file    string
	sampler sample.Sampler
}

// Units returns the units; file is what messages call the specification.
func (s *Spec) Units(file string) (*Units, error) {
	p, err := sample.New(s.points)
	return &Units{s, file, p}, err
}

// At returns unit i, from 0.
func (u *Units) At(i int) (*Unit, error) {
	x := make([]float64, u.points.Dims)
	u.sampler.At(i, x)
	one, err := u.at(u.file, x, i)
	if err != nil {
		return nil, fmt.Errorf("%w, as operator %d has it", err, i)
	}
	return one, nil
}

// apart is the first operator of the counter streams that axes take which are no
// dimensions of the points, and seeds the one of seeds.
const (
	seeds = 1<<32 - 1<<16
	apart = seeds - 1
)

// seed returns one of the operator's own seeds of 64 bits.
func (s *Spec) seed(index int, purpose uint32) uint64 {
	x := noise.Counter{Seed: s.Seed, Operator: seeds}.Words(uint32(index), purpose, 0)
	return uint64(x[1])<<32 | uint64(x[0])
}

// at returns the unit of a point.
func (s *Spec) at(file string, x []float64, index int) (*Unit, error) {
	u := &Unit{Index: index, Point: x, Store: s.Store, States: s.States}
	text := map[string]json.RawMessage{"operator": s.Operator, "rollout": s.Rollout, "initial": s.Initial}
	dim := 0
	for k, a := range s.Axes {
		part, rest, ok := partOf(a.Field)
		if !ok {
			return nil, fmt.Errorf("%s: space.%s: want a field of operator, rollout or initial", file, strict.Word(a.Field))
		}
		var v float64
		if a.Apart {
			w := noise.Counter{Seed: s.Seed, Operator: apart}.Words(uint32(index), uint32(k), 0)
			v = float64((uint64(w[1])<<32|uint64(w[0]))>>11) * 0x1p-53
		} else {
			v = x[dim]
			dim++
		}
		value := a.value(v)
		if !a.Apart {
			u.Values, u.texts = append(u.Values, a.number(value)), append(u.texts, value)
		}
		t, err := set(text[part], rest, value)
		if err != nil {
			return nil, fmt.Errorf("%s: space.%s: %w", file, strict.Word(a.Field), err)
		}
		text[part] = t
	}
	for part, t := range text {
		c, err := canonical(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, part, err)
		}
		text[part] = c
	}
	u.OperatorText, u.RolloutText, u.InitialText = text["operator"], text["rollout"], text["initial"]
	if err := u.read(file); err != nil {
		return nil, err
	}
	// PyTorch's generator takes 32 bits of a seed: these are never the same for two
	// operators, which random ones of 10,000 would be once in 86 datasets.
	u.WeightsSeed = uint64(uint32(s.seed(0, 0)) + uint32(index))
	u.Rollout.BaseSeed, u.InitialSeed = s.seed(index, 1), s.seed(index, 2)
	u.Identity = u.identity()
	return u, nil
}

// read takes the unit's parameters from their text.
func (u *Unit) read(file string) (err error) {
	if u.Operator, err = operator.ReadConfig(file, "operator", u.OperatorText); err != nil {
		return err
	}
	if u.Rollout, err = rollout.ReadConfig(file, "rollout", u.RolloutText); err != nil {
		return err
	}
	if u.condition, err = initial.Parse(file, "initial", u.InitialText); err != nil {
		return err
	}
	if u.Mode, err = graph.ParseMode(u.Rollout.Precision, u.Rollout.Autocast); err != nil {
		return fmt.Errorf("%s: rollout.precision: %w", file, err)
	}
	o := u.Operator
	switch {
	case o.GridSize == 0:
		return errors.New(file + ": operator.grid_size: missing: want the side of the images")
	case o.Nodes == nil && o.InputChannels != o.OutputChannels:
		return fmt.Errorf("%s: operator.output_channels: %d: want %d, as many as input_channels, to step a state", file,
			o.OutputChannels, o.InputChannels)
	case u.Rollout.BaseSeed != 0:
		return fmt.Errorf("%s: rollout.base_seed: %d: want none: it follows from seed and the operator's index", file,
			u.Rollout.BaseSeed)
	}
	if err := u.condition.Fits(u.Shape().C, u.Shape().H); err != nil {
		return fmt.Errorf("%s: initial.%w", file, err)
	}
	const most = 1 << 31
	if n := float64(u.Rollout.EngineBatches()[0][1]) * float64(u.Shape().C) * float64(u.Shape().H) * float64(
		u.Shape().W); n > most {
		return fmt.Errorf("%s: operator.grid_size: %d: want states of at most 2^31 numbers in an engine batch",
			file, o.GridSize)
	}
	return nil
}

// identity returns the hash of what decides the unit's numbers.
func (u *Unit) identity() string {
	text, err := json.Marshal(map[string]any{
		"contract": graph.Contract, "mode": u.Mode.String(), "noise": "counter", "initial_version": u.condition.Version(),
		"operator": u.OperatorText, "rollout": u.RolloutText, "initial": u.InitialText,
		"weights_seed": u.WeightsSeed, "base_seed": u.Rollout.BaseSeed, "initial_seed": u.InitialSeed,
		"store": u.Store.String(),
	})
	if err != nil {
		panic(err) // of texts and numbers
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// Point sets x to the point of unit i in the unit cube.
func (u *Units) Point(i int, x []float64) { u.sampler.At(i, x) }
