package initial

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/strict"
)

// Condition is one type of initial condition with its parameters.
type Condition struct {
	Type  string
	maker maker
	args
}

// args are the values of a type's parameters.
type args struct {
	n      map[string]float64
	s      map[string]string
	scales []float64
}

// maker says which parameters a type has and how it fills a state.
type maker struct {
	numbers  []number
	texts    []text
	scales   []float64 // default of the parameter scales; nil for none
	channels int       // that it needs, 0 for any
	version  int       // of what the type means, 0 for 1
	fill     func(*field, args) error
}

// number is a parameter: its name, its default and its range.
type number struct {
	name        string
	def, lo, hi float64
	whole       bool
}

// text is a parameter of which the first option is the default.
type text struct {
	name    string
	options []string
}

// Names returns the types.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// Parse reads a condition from a JSON object. What is wrong is an error of one line: file
// is what messages call the text, and place where in it the object stands.
func Parse(file, place string, data []byte) (*Condition, error) {
	o, err := strict.Parse(file, place, data)
	if err != nil {
		return nil, err
	}
	o.Need("type")
	c := &Condition{Type: o.String("type", "zeros"), args: args{n: map[string]float64{}, s: map[string]string{}}}
	if c.Type == "random" {
		c.Type = "gaussian_random_field"
	}
	m, ok := makers[c.Type]
	if !ok {
		return nil, o.Errorf("type", "%.60q: want one of %s", c.Type, strings.Join(Names(), ", "))
	}
	c.maker = m
	for _, p := range m.numbers {
		if p.whole {
			c.n[p.name] = float64(o.Int(p.name, int64(p.def), int64(p.lo), int64(p.hi)))
			continue
		}
		v := o.Float(p.name, p.def)
		if !(v >= p.lo && v <= p.hi) {
			o.Fail(p.name, "%v: want a number from %v to %v", v, p.lo, p.hi)
		}
		c.n[p.name] = v
	}
	for _, p := range m.texts {
		v := o.String(p.name, p.options[0])
		if !slices.Contains(p.options, v) {
			o.Fail(p.name, "%.60q: want one of %s", v, strings.Join(p.options, ", "))
		}
		c.s[p.name] = v
	}
	if m.scales != nil {
		c.scales = m.scales
		if v := o.Floats("scales"); v != nil {
			c.scales = v
		}
		if len(c.scales) == 0 || len(c.scales) > 64 ||
			slices.ContainsFunc(c.scales, func(v float64) bool { return !(v > 0 && v <= 10) }) {
			o.Fail("scales", "%v: want 1 to 64 numbers greater than 0, at most 10", c.scales)
		}
	}
	return c, o.Close()
}

// Version counts the changes of what the type means, from 1.
func (c *Condition) Version() int { return max(c.maker.version, 1) }

// Fits reports why the condition cannot be one of states [channels,side,side], in a
// message that begins with the field type.
func (c *Condition) Fits(channels, side int) error {
	if c.maker.channels != 0 && c.maker.channels != channels {
		return fmt.Errorf("type: %s: %d channels: want an operator of %d", c.Type, channels, c.maker.channels)
	}
	return nil
}

// Fill sets x to the state [channels,side,side] of a seed. It panics if x has another
// length.
func (c *Condition) Fill(seed uint64, channels, side int, x []float64) error {
	if len(x) != channels*side*side {
		panic(fmt.Sprintf("initial: %d numbers for a state [%d,%d,%d]", len(x), channels, side, side))
	}
	if err := c.Fits(channels, side); err != nil {
		return err
	}
	clear(x)
	f := newField(seed, channels, side, x)
	if err := c.maker.fill(f, c.args); err != nil {
		return err
	}
	fp16.Float32.RoundSlice(x, x)
	return nil
}
