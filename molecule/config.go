package molecule

import (
	"fmt"

	"github.com/refrun/refrun/internal/ground/strict"
)

// Kind names an architecture.
type Kind string

// The architectures. The package's doc says what each one computes.
const (
	PaiNN       Kind = "painn"
	PaiNNFilter Kind = "painn-filter"
	SchNet      Kind = "schnet"
)

// Config is what the weights of a network do not say of it.
type Config struct {
	Kind   Kind
	Cutoff float64 // in the unit of positions
}

// ReadConfig reads a configuration, a JSON object with model (painn, painn-filter or schnet) and
// cutoff, a positive number. hidden, radial and layers may be there: the weights say them too, and
// [New] compares. file names it in errors.
func ReadConfig(file string, data []byte) (Config, Sizes, error) {
	o, err := strict.Parse(file, "", data)
	if err != nil {
		return Config{}, Sizes{}, err
	}
	c := Config{Kind: Kind(o.String("model", "")), Cutoff: o.Float("cutoff", 0)}
	s := Sizes{Hidden: int(o.Int("hidden", 0, 0, 1<<20)), Radial: int(o.Int("radial", 0, 0, 1<<20)),
		Layers: int(o.Int("layers", 0, 0, 1<<20))}
	if err := o.Close(); err != nil {
		return Config{}, Sizes{}, err
	}
	if err := c.check(); err != nil {
		return Config{}, Sizes{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, s, nil
}

func (c Config) check() error {
	switch {
	case c.Kind != PaiNN && c.Kind != PaiNNFilter && c.Kind != SchNet:
		return fmt.Errorf("model: %.40q: want %s, %s or %s", string(c.Kind), PaiNN, PaiNNFilter, SchNet)
	case !(c.Cutoff > 0) || !strict.Finite(c.Cutoff):
		return fmt.Errorf("cutoff: %v: want a positive number", c.Cutoff)
	}
	return nil
}

// Sizes are those of a network.
type Sizes struct {
	Elements int // rows of the embedding: atomic numbers 0 to Elements-1
	Hidden   int // features of an atom
	Radial   int // radial functions
	Layers   int
}

// agree returns an error if sizes that are given differ.
func (s Sizes) agree(given Sizes) error {
	for _, v := range []struct {
		name    string
		is, say int
	}{{"hidden", s.Hidden, given.Hidden}, {"radial", s.Radial, given.Radial}, {"layers", s.Layers, given.Layers}} {
		if v.say != 0 && v.say != v.is {
			return fmt.Errorf("%s: %d: the weights have %d", v.name, v.say, v.is)
		}
	}
	return nil
}

// Weights returns the names and shapes of a state dict of these sizes. The readout of [PaiNNFilter] has
// three layers, H to H/2 to H/4 to 1, and filters of [SchNet] have the hidden size.
func (s Sizes) Weights(k Kind) map[string][]int {
	var of map[string][]int
	switch k {
	case PaiNN:
		of = s.painn()
	case PaiNNFilter:
		half, quarter := max(s.Hidden/2, 1), max(s.Hidden/4, 1)
		of, _ = s.painnFilter(map[string][]int{"energy_head.0.weight": {half, s.Hidden},
			"energy_head.2.weight": {quarter, half}, "energy_head.4.weight": {1, quarter}})
	case SchNet:
		of, _ = s.schnet(map[string][]int{"interactions.0.mlp.0.weight": {s.Hidden, s.Radial}})
	}
	return of
}
