package onnx

import (
	"strings"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// sums are weights and biases of some gates, side by side, so that the sum under the gates is one product.
type sums struct {
	*call
	weight, bias, ones int // absent without biases; ones are what the second bias is multiplied with
}

// joined returns those of the gates from lo to before hi, for what comes in and the state.
func (d *direction) joined(lo, hi int) *sums {
	s := &sums{d.call, absent, absent, absent}
	sides := []int{d.gates(d.w, lo, hi), d.gates(d.r, lo, hi)}
	if d.rb >= 0 {
		s.bias, s.ones = d.gates(d.wb, lo, hi), d.filled(d.in[0], 1, d.batch, 1)
		sides = append(sides, d.reshape(d.gates(d.rb, lo, hi), []int{(hi - lo) * d.hidden, 1}, true))
	}
	s.weight = d.settled(d.add(graph.Cat{Axis: 1}, sides...))
	return s
}

// apart returns those for what comes in, and those for the state.
func (d *direction) apart(lo, hi int) (x, h *sums) {
	x, h = &sums{d.call, d.gates(d.w, lo, hi), absent, absent}, &sums{d.call, d.gates(d.r, lo, hi), absent, absent}
	if d.rb >= 0 {
		x.bias, h.bias = d.gates(d.wb, lo, hi), d.gates(d.rb, lo, hi)
	}
	return x, h
}

// gates returns the rows of the gates from lo to before hi.
func (d *direction) gates(v, lo, hi int) int {
	rows := graph.Slice{Axes: graph.Ints{0}, Start: graph.Ints{lo * d.hidden}, End: graph.Ints{hi * d.hidden}}
	return d.settled(d.add(rows, v))
}

// sum returns the product of the parts, side by side, and the weights, and the biases.
func (s *sums) sum(parts ...int) int {
	if s.ones >= 0 {
		parts = append(parts, s.ones)
	}
	a := parts[0]
	if len(parts) > 1 {
		a = s.add(graph.Cat{Axis: 1}, parts...)
	}
	in := []int{a, s.weight}
	if s.bias >= 0 {
		in = append(in, s.bias)
	}
	return s.add(graph.Gemm{Alpha: 1, Beta: 1, TransB: true}, in...)
}

// parts cuts a value along its last axis into n equal parts.
func (c *call) parts(v, n int) []int {
	at := c.rank(v) - 1
	if c.err == nil {
		if out := c.addAll(graph.Split{Sizes: graph.Ints{c.shape(v)[at] / n}, Axis: at}, n, v); out != nil {
			return out
		}
	}
	return make([]int, n)
}

func (c *call) plus(a, b int) int  { return c.add(graph.Addition, a, b) }
func (c *call) times(a, b int) int { return c.add(graph.Binary{Of: pointwise.Mul}, a, b) }

// oneMinus returns 1 - v.
func (c *call) oneMinus(v int) int {
	one := 1.0
	return c.add(graph.Binary{Of: pointwise.Sub, Self: &one}, v)
}

// peep adds what a gate sees of the cell.
func (d *direction) peep(gate, v, cell int) int {
	if d.peepholes == nil {
		return v
	}
	return d.plus(v, d.times(d.peepholes[gate], cell))
}

// squash is one of the activations that gates have, by its name in small letters.
type squash struct {
	name        string
	alpha, beta float64
}

// squashing are the parameters that an activation takes, and their defaults: of alpha, and of beta.
var squashing = map[string][]float64{"relu": nil, "tanh": nil, "sigmoid": nil, "softsign": nil, "softplus": nil,
	"leakyrelu": {0.01}, "thresholdedrelu": {1}, "elu": {1},
	"hardsigmoid": {0.2, 0.5}, "scaledtanh": {1, 1}, "affine": {1, 0}}

// squashes reads the activations of all directions. Parameters are given to those that take them, in order.
func (r *recurrent) squashes(functions []string, directions int) (all []squash) {
	var names []string
	if a := r.attribute("activations"); a != nil {
		names = a.texts
	}
	parameters := [][]float64{r.list("activation_alpha"), r.list("activation_beta")}
	if names == nil {
		for range directions {
			names = append(names, functions...)
		}
	}
	if want := len(functions) * directions; len(names) != want {
		r.fail("activations: %d of them: want %d", len(names), want)
	}
	for _, name := range names {
		f := squash{name: strings.ToLower(name)}
		defaults, known := squashing[f.name]
		if !known {
			r.fail("activations: %.40q: want %s",
				fault.Printable(name), "Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, "+
					"ScaledTanh, HardSigmoid, Elu, Softsign or Softplus")
			return nil
		}
		for k, v := range defaults {
			v = float32Number(v)
			if given := parameters[k]; len(given) > 0 {
				v, parameters[k] = given[0], given[1:]
			}
			*[]*float64{&f.alpha, &f.beta}[k] = v
		}
		all = append(all, f)
	}
	return all
}

// list returns an attribute's numbers.
func (c *call) list(name string) []float64 {
	if a := c.attribute(name); a != nil {
		return a.floats
	}
	return nil
}

// gate applies a direction's activation to the sum under a gate, which clip bounds.
func (d *direction) gate(k, v int) int {
	if d.clip > 0 {
		v = d.function("clip", map[string]float64{"min": -d.clip, "max": d.clip}, v)
	}
	return d.squash(k, v)
}

// squash applies a direction's activation.
func (d *direction) squash(k, v int) int {
	f := d.functions[k]
	switch f.name {
	case "relu":
		return d.add(graph.Act{Func: act.ReLU}, v)
	case "tanh":
		return d.add(graph.Act{Func: act.Tanh}, v)
	case "leakyrelu":
		return d.function("leaky_relu", map[string]float64{"negative_slope": f.alpha}, v)
	case "thresholdedrelu":
		return d.thresholded(v, f.alpha)
	case "elu":
		return d.function("elu", map[string]float64{"alpha": f.alpha}, v)
	case "hardsigmoid":
		return d.function("hard_sigmoid", map[string]float64{"alpha": f.alpha, "beta": f.beta}, v)
	case "softplus":
		return d.softplus(v)
	case "scaledtanh":
		inner := d.add(graph.Act{Func: act.Tanh}, d.add(graph.Binary{Of: pointwise.Mul, Other: &f.beta}, v))
		return d.add(graph.Binary{Of: pointwise.Mul, Other: &f.alpha}, inner)
	case "affine":
		scaled := d.add(graph.Binary{Of: pointwise.Mul, Other: &f.alpha}, v)
		return d.add(graph.Binary{Of: pointwise.Add, Other: &f.beta}, scaled)
	}
	return d.function(f.name, nil, v) // sigmoid, softsign
}
