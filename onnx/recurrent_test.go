package onnx_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

// recurrentCase is a random recurrent node.
type recurrentCase struct {
	op                           string
	steps, batch, inputs, hidden int
	direction                    string
	directions                   int
	functions                    []string
	alpha, beta                  []float32
	clip                         float32
	layout                       int
	flag                         bool // linear_before_reset of a GRU, input_forget of an LSTM
	in                           []*tensor.Tensor
}

var recurrentGates = map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}

// newRecurrent returns a case with numbers.
func newRecurrent(r *rand.Rand) *recurrentCase {
	c := &recurrentCase{op: []string{"RNN", "GRU", "LSTM"}[r.IntN(3)],
		steps: 1 + r.IntN(4), batch: 1 + r.IntN(3), inputs: 1 + r.IntN(4), hidden: 1 + r.IntN(4),
		direction: []string{"forward", "reverse", "bidirectional"}[r.IntN(3)], layout: r.IntN(2), flag: r.IntN(2) == 0}
	c.directions = 1 + len(c.direction)/10
	numbers := func(shape ...int) *tensor.Tensor {
		x := tensor.New(fp16.Float32, shape...)
		for i := range x.Data {
			x.Data[i] = float64(float32(r.NormFloat64()))
		}
		return x
	}
	maybe := func(shape ...int) *tensor.Tensor {
		if r.IntN(2) == 0 {
			return nil
		}
		return numbers(shape...)
	}
	g, x, start := recurrentGates[c.op], []int{c.steps, c.batch, c.inputs}, []int{c.directions, c.batch, c.hidden}
	if c.layout == 1 {
		x, start = []int{c.batch, c.steps, c.inputs}, []int{c.batch, c.directions, c.hidden}
	}
	c.in = []*tensor.Tensor{numbers(x...), numbers(c.directions, g*c.hidden, c.inputs),
		numbers(c.directions, g*c.hidden, c.hidden), maybe(c.directions, 2*g*c.hidden), nil, maybe(start...)}
	if r.IntN(2) == 0 {
		c.in[4] = tensor.New(fp16.Int64, c.batch)
		for i := range c.in[4].Data {
			c.in[4].Data[i] = float64(r.IntN(c.steps + 1))
		}
	}
	if c.op == "LSTM" {
		c.in = append(c.in, maybe(start...), maybe(c.directions, 3*c.hidden))
	}
	if r.IntN(3) == 0 {
		c.clip = 0.5
	}
	if r.IntN(2) == 0 {
		all := []string{"Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh",
			"HardSigmoid", "Elu", "Softsign", "Softplus"}
		for range map[string]int{"RNN": 1, "GRU": 2, "LSTM": 3}[c.op] * c.directions {
			c.functions = append(c.functions, all[r.IntN(len(all))])
		}
		for range c.functions { // more or fewer than there are
			c.alpha, c.beta = append(c.alpha, float32(r.Float64())), append(c.beta, float32(r.Float64()))
		}
		c.alpha, c.beta = c.alpha[:r.IntN(len(c.alpha)+1)], c.beta[:r.IntN(len(c.beta)+1)]
	}
	return c
}

// model is the file of the case, of which the weights are constants or inputs.
func (c *recurrentCase) model(constants bool) []byte {
	name := names("X", "W", "R", "B", "lens", "h", "c", "P")
	var in []string
	var values, weights []message
	for k, x := range c.in {
		if x == nil {
			in = append(in, "")
			continue
		}
		in = append(in, name[k])
		switch {
		case x.Format == fp16.Int64:
			values = append(values, valueOf(name[k], onnx.Int32, c.batch))
		case constants && k > 0 && k < 4:
			var of []float32
			for _, v := range x.Data {
				of = append(of, float32(v))
			}
			weights = append(weights, floatsOf(name[k], x.Shape, of...))
		default:
			var sizes []any
			for _, d := range x.Shape {
				sizes = append(sizes, d)
			}
			values = append(values, valueOf(name[k], onnx.Float32, sizes...))
		}
	}
	a := all(intOf("hidden_size", c.hidden), textOf("direction", c.direction), intOf("layout", c.layout))
	if c.clip > 0 {
		a = append(a, floatOf("clip", c.clip))
	}
	if c.functions != nil {
		a = append(a, textsOf("activations", c.functions...))
		a = append(a, listOf("activation_alpha", c.alpha), listOf("activation_beta", c.beta))
	}
	flag := map[string]string{"GRU": "linear_before_reset", "LSTM": "input_forget"}[c.op]
	out := names("Y", "Yh", "Yc")[:2]
	if c.op == "LSTM" {
		out = append(out, "Yc")
	}
	if flag != "" && c.flag {
		a = append(a, intOf(flag, 1))
	}
	var outs []message
	for _, o := range out {
		outs = append(outs, valueOf(o, onnx.Float32))
	}
	return modelOf(14, graphIs(all(nodeOf(c.op, in, out, a...)), weights, values, outs))
}

// listOf is an attribute of numbers.
func listOf(name string, of []float32) message {
	m := message{}.text(1, name).num(20, 6)
	for _, v := range of {
		m = protowire.AppendFixed32(protowire.AppendTag(m, 7, protowire.Fixed32Type), math.Float32bits(v))
	}
	return m
}

// given are the inputs of the model.
func (c *recurrentCase) given(constants bool) (in []*tensor.Tensor, types []graph.Type) {
	for k, x := range c.in {
		if x != nil && !(constants && k > 0 && k < 4) {
			in, types = append(in, x), append(types, graph.Type{Shape: x.Shape, Format: x.Format})
		}
	}
	return in, types
}

func round32(v float64) float64 { return float64(float32(v)) }

// recurrentFunction is an activation of a case with its parameters.
type recurrentFunction struct {
	name        string
	alpha, beta float64
}

func (f recurrentFunction) of(x float64) float64 {
	unary := func(name string, p map[string]float64) float64 { return bigref.Unary(name, x, p, fp16.Float32) }
	switch f.name {
	case "Relu":
		return max(x, 0)
	case "Tanh":
		return bigref.RoundTanh(x, fp16.Float32)
	case "Affine":
		return round32(round32(f.alpha*x) + f.beta)
	case "LeakyRelu":
		return unary("leaky_relu", map[string]float64{"negative_slope": f.alpha})
	case "ThresholdedRelu":
		if x > f.alpha {
			return x
		}
		return 0
	case "ScaledTanh":
		return round32(f.alpha * bigref.RoundTanh(round32(f.beta*x), fp16.Float32))
	case "HardSigmoid":
		return unary("hard_sigmoid", map[string]float64{"alpha": f.alpha, "beta": f.beta})
	case "Elu":
		return unary("elu", map[string]float64{"alpha": f.alpha, "scale": 1})
	case "Softplus":
		return unary("softplus", map[string]float64{"beta": 1, "threshold": math.Inf(1)})
	}
	return unary(strings.ToLower(f.name), nil)
}

// activations returns those of all directions.
func (c *recurrentCase) activations() (all []recurrentFunction) {
	of := c.functions
	for range c.directions {
		if c.functions == nil {
			of = append(of, map[string][]string{
				"RNN": {"Tanh"}, "GRU": {"Sigmoid", "Tanh"}, "LSTM": {"Sigmoid", "Tanh", "Tanh"},
			}[c.op]...)
		}
	}
	alpha, beta := c.alpha, c.beta
	next := func(from *[]float32, otherwise float64) float64 {
		if len(*from) == 0 {
			return round32(otherwise)
		}
		v := (*from)[0]
		*from = (*from)[1:]
		return float64(v)
	}
	for _, name := range of {
		f := recurrentFunction{name: name}
		switch name {
		case "LeakyRelu":
			f.alpha = next(&alpha, 0.01)
		case "Elu", "ThresholdedRelu":
			f.alpha = next(&alpha, 1)
		case "HardSigmoid":
			f.alpha, f.beta = next(&alpha, 0.2), next(&beta, 0.5)
		case "Affine":
			f.alpha, f.beta = next(&alpha, 1), next(&beta, 0)
		case "ScaledTanh":
			f.alpha, f.beta = next(&alpha, 1), next(&beta, 1)
		}
		all = append(all, f)
	}
	return all
}

// wanted evaluates the case number by number, as docs/NUMERICS.md defines it: the sum under a gate by exact
// fractions.
func (c *recurrentCase) wanted() (y, yh, yc *tensor.Tensor) {
	g, functions := recurrentGates[c.op], c.activations()
	per := len(functions) / c.directions
	y, yh, yc = tensor.New(fp16.Float32, c.steps, c.directions, c.batch, c.hidden), tensor.New(fp16.Float32,
		c.directions, c.batch, c.hidden), tensor.New(fp16.Float32, c.directions, c.batch, c.hidden)
	place := func(t, d, b int) int { return ((t*c.directions+d)*c.batch + b) * c.hidden }
	start := func(d, b int) int { return (d*c.batch + b) * c.hidden }
	at := func(t, b int) int { return (t*c.batch + b) * c.inputs }
	if c.layout == 1 {
		y.Shape, yh.Shape, yc.Shape = []int{c.batch, c.steps, c.directions, c.hidden},
			[]int{c.batch, c.directions, c.hidden}, []int{c.batch, c.directions, c.hidden}
		place = func(t, d, b int) int { return ((b*c.steps+t)*c.directions + d) * c.hidden }
		start = func(d, b int) int { return (b*c.directions + d) * c.hidden }
		at = func(t, b int) int { return (b*c.steps + t) * c.inputs }
	}
	for d := range c.directions {
		f := functions[d*per : (d+1)*per]
		bound := func(k int, v float64) float64 {
			if c.clip > 0 {
				v = max(min(v, float64(c.clip)), -float64(c.clip))
			}
			return f[k].of(v)
		}
		row := func(k, of, size int) []float64 { return c.in[k].Data[(d*g*c.hidden+of)*size:][:size] }
		bias := func(of int) float64 {
			if c.in[3] == nil {
				return 0
			}
			return c.in[3].Data[d*2*g*c.hidden+of]
		}
		// product is the rounded sum of x and h, one or both, times a row of weights, and biases.
		product := func(of int, x, h []float64) float64 {
			var a, b []float64
			add := 0.0
			if x != nil {
				a, b, add = append(a, x...), append(b, row(1, of, c.inputs)...), bias(of)
			}
			switch {
			case h != nil && x == nil:
				add = bias(g*c.hidden + of)
			case h != nil:
				a, b = append(a, 1), append(b, bias(g*c.hidden+of))
			}
			if h != nil {
				a, b = append(a, h...), append(b, row(2, of, c.hidden)...)
			}
			return bigref.Matmul(fp16.Float32, a, b, []float64{add}, 1, 1, len(a), 1, 1)[0]
		}
		for b := range c.batch {
			h, cell := make([]float64, c.hidden), make([]float64, c.hidden)
			if c.in[5] != nil {
				copy(h, c.in[5].Data[start(d, b):])
			}
			if len(c.in) > 6 && c.in[6] != nil {
				copy(cell, c.in[6].Data[start(d, b):])
			}
			last := c.steps
			if c.in[4] != nil {
				last = int(c.in[4].Data[b])
			}
			for k := range last {
				t := k
				if c.direction == "reverse" || d == 1 {
					t = last - 1 - k
				}
				x, next := c.in[0].Data[at(t, b):][:c.inputs], make([]float64, c.hidden)
				peep := func(gate, j int, v float64) float64 {
					if p := c.in[7]; p != nil {
						v = round32(v + round32(p.Data[(d*3+gate)*c.hidden+j]*cell[j]))
					}
					return v
				}
				switch c.op {
				case "RNN":
					for j := range next {
						next[j] = bound(0, product(j, x, h))
					}
				case "GRU":
					reset := make([]float64, c.hidden)
					for j := range reset {
						reset[j] = bound(0, product(c.hidden+j, x, h))
					}
					scaled := make([]float64, c.hidden)
					for j := range scaled {
						scaled[j] = round32(reset[j] * h[j])
					}
					for j := range next {
						z := bound(0, product(j, x, h))
						n := 0.0
						if c.flag {
							n = round32(product(2*c.hidden+j, x, nil) + round32(reset[j]*product(2*c.hidden+j, nil, h)))
						} else {
							n = product(2*c.hidden+j, x, scaled)
						}
						next[j] = round32(round32(round32(1-z)*bound(1, n)) + round32(z*h[j]))
					}
				case "LSTM":
					cells := make([]float64, c.hidden)
					for j := range next {
						i := bound(0, peep(0, j, product(j, x, h)))
						forget := round32(1 - i)
						if !c.flag {
							forget = bound(0, peep(2, j, product(2*c.hidden+j, x, h)))
						}
						cells[j] = round32(round32(forget*cell[j]) + round32(i*bound(1, product(3*c.hidden+j, x, h))))
					}
					cell = cells
					for j := range next {
						next[j] = round32(bound(0, peep(1, j, product(c.hidden+j, x, h))) * f[2].of(cell[j]))
					}
				}
				h = next
				copy(y.Data[place(t, d, b):], h)
			}
			copy(yh.Data[start(d, b):], h)
			copy(yc.Data[start(d, b):], cell)
		}
	}
	return y, yh, yc
}

// TestRecurrent: RNN, GRU and LSTM with every attribute have the bits of their definition, which another program
// evaluates by exact fractions, and plans have the same.
func TestRecurrent(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	for k := range 300 {
		c, constants := newRecurrent(r), r.IntN(2) == 0
		about := fmt.Sprintf("case %d, %s %s of %d steps, batch %d, %d to %d, %v, layout %d",
			k, c.op, c.direction, c.steps, c.batch, c.inputs, c.hidden, c.functions, c.layout)
		m, err := read(c.model(constants))
		if err != nil {
			t.Fatal(about, err)
		}
		g, _, err := m.Graph(nil)
		if err != nil {
			t.Fatal(about, err)
		}
		in, types := c.given(constants)
		p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, types...)
		if err != nil {
			t.Fatal(about, err)
		}
		got, err := p.Run(new(graph.Run), in...)
		if err != nil {
			t.Fatal(about, err)
		}
		if err := planned(g, types, in, got); err != nil {
			t.Errorf("%s: %v", about, err)
		}
		y, yh, yc := c.wanted()
		for n, want := range []*tensor.Tensor{y, yh, yc}[:len(got)] {
			if !slices.Equal(got[n].Shape, want.Shape) {
				t.Fatalf("%s: output %d of shape %v, want %v", about, n, got[n].Shape, want.Shape)
			}
			for i, w := range want.Data {
				if v := got[n].Data[i]; v != w {
					t.Fatalf("%s: output %d: number %d is %v, want %v", about, n, i, v, w)
				}
			}
		}
	}
}
