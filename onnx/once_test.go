package onnx_test

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/tensor"
)

var onceOutputs = flag.Int("onnx.once", 600, "outputs of each node that the judge sees at least")

// big400 is a number of 400 bits: the sums and quotients of a few float32 numbers in it are
// within 2^-390 of themselves where nothing cancels, and never at the middle of two float32
// numbers by accident.
func big400(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }

func plus(of ...*big.Float) *big.Float {
	s := big400(0)
	for _, v := range of {
		s.Add(s, v)
	}
	return s
}
func times(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(400).Mul(a, b) }
func over(a, b *big.Float) *big.Float  { return new(big.Float).SetPrec(400).Quo(a, b) }
func root(a *big.Float) *big.Float     { return new(big.Float).SetPrec(400).Sqrt(a) }

// exponential is e^v by Taylor's series of v/2^20.
func exponential(v *big.Float) *big.Float {
	t, term, sum := new(big.Float).SetMantExp(v, -20), big400(1), big400(1)
	for n := 1.0; n < 40; n++ {
		term = over(times(term, t), big400(n))
		sum = plus(sum, term)
	}
	for range 20 {
		sum = times(sum, sum)
	}
	return sum
}

// moments are the mean and the biased variance.
func moments(line []float64) (mean, variance *big.Float) {
	mean, variance = big400(0), big400(0)
	n := big400(float64(len(line)))
	for _, v := range line {
		mean = plus(mean, big400(v))
	}
	mean = over(mean, n)
	for _, v := range line {
		d := new(big.Float).SetPrec(400).Sub(big400(v), mean)
		variance = plus(variance, times(d, d))
	}
	return mean, over(variance, n)
}

// TestOnce: what a node of ONNX computes is one function, rounded once, also where it is made of
// several operations elsewhere: of random float32 numbers, by 400 bits.
func TestOnce(t *testing.T) {
	const alpha, momentum = float32(1.702), float32(0.9)
	o := hashed.New(t, *onceOutputs)
	share := float64(momentum)
	rest := new(big.Float).SetPrec(400).Sub(big400(1), big400(share))
	line := func(x [][]float64, i int) []float64 { return x[0][5*i : 5*i+5] }
	column := func(x [][]float64, i int) (of []float64) {
		for k := range 6 {
			of = append(of, x[0][5*k+i])
		}
		return of
	}
	norm := func(l []float64, p int) *big.Float {
		s := big400(0)
		for _, v := range l {
			q := big400(math.Abs(v))
			for range p - 1 {
				q = times(q, big400(math.Abs(v)))
			}
			s = plus(s, q)
		}
		if p == 2 {
			return root(s)
		}
		return s
	}
	for _, k := range []struct {
		name    string
		node    message
		inputs  [][]any // their shapes
		outputs int
		// value is number i of the last output.
		value func(x [][]float64, i int) *big.Float
	}{
		{"ReduceSumSquare", nodeOf("ReduceSumSquare", names("a"), names("y0"), intsOf("axes", 1)), [][]any{{6, 5}}, 1,
			func(x [][]float64, i int) *big.Float { n := norm(line(x, i), 2); return times(n, n) }},
		{"Mean", nodeOf("Mean", names("a", "b", "c"), names("y0")), [][]any{{6, 5}, {6, 5}, {5}}, 1,
			func(x [][]float64, i int) *big.Float {
				return over(plus(big400(x[0][i]), big400(x[1][i]), big400(x[2][i%5])), big400(3))
			}},
		{"Swish", nodeOf("Swish", names("a"), names("y0"), floatOf("alpha", alpha)), [][]any{{6, 5}}, 1,
			func(x [][]float64, i int) *big.Float {
				e := exponential(times(big400(-float64(alpha)), big400(x[0][i])))
				return over(big400(x[0][i]), plus(big400(1), e))
			}},
		{"LayerNormalization", nodeOf("LayerNormalization", names("a", "w"), names("y0", "y1", "y2")),
			[][]any{{6, 5}, {5}}, 3,
			func(x [][]float64, i int) *big.Float {
				_, v := moments(line(x, i))
				return over(big400(1), root(plus(v, big400(float64(float32(1e-5))))))
			}},
		{"LayerNormalization, mean", nodeOf("LayerNormalization", names("a", "w"), names("y0", "y1")),
			[][]any{{6, 5}, {5}}, 2,
			func(x [][]float64, i int) *big.Float { m, _ := moments(line(x, i)); return m }},
		{"BatchNormalization", nodeOf("BatchNormalization", names("a", "w", "b", "m", "v"), names("y0", "y1", "y2"),
			intOf("training_mode", 1), floatOf("momentum", momentum)),
			[][]any{{6, 5}, {5}, {5}, {5}, {5}}, 3,
			func(x [][]float64, i int) *big.Float {
				_, v := moments(column(x, i))
				return plus(times(big400(share), big400(x[4][i])), times(rest, v))
			}},
		{"BatchNormalization, mean", nodeOf("BatchNormalization", names("a", "w", "b", "m", "v"), names("y0", "y1"),
			intOf("training_mode", 1), floatOf("momentum", momentum)),
			[][]any{{6, 5}, {5}, {5}, {5}, {5}}, 2,
			func(x [][]float64, i int) *big.Float {
				m, _ := moments(column(x, i))
				return plus(times(big400(share), big400(x[3][i])), times(rest, m))
			}},
		{"LpNormalization", nodeOf("LpNormalization", names("a"), names("y0")), [][]any{{6, 5}}, 1,
			func(x [][]float64, i int) *big.Float { return over(big400(x[0][i]), norm(line(x, i/5), 2)) }},
		{"LpNormalization, 1", nodeOf("LpNormalization", names("a"), names("y0"), intOf("p", 1)), [][]any{{6, 5}}, 1,
			func(x [][]float64, i int) *big.Float { return over(big400(x[0][i]), norm(line(x, i/5), 1)) }},
		{"GlobalLpPool", nodeOf("GlobalLpPool", names("a"), names("y0")), [][]any{{2, 3, 5}}, 1,
			func(x [][]float64, i int) *big.Float { return norm(line(x, i), 2) }},
		{"LpPool", nodeOf("LpPool", names("a"), names("y0"), intsOf("kernel_shape", 5), intsOf("strides", 5),
			intOf("p", 1)), [][]any{{2, 3, 5}}, 1,
			func(x [][]float64, i int) *big.Float { return norm(line(x, i), 1) }},
		{"MeanVarianceNormalization", nodeOf("MeanVarianceNormalization", names("a"), names("y0"), intsOf("axes", 1)),
			[][]any{{6, 5}}, 1,
			func(x [][]float64, i int) *big.Float {
				m, v := moments(line(x, i/5))
				return over(new(big.Float).SetPrec(400).Sub(big400(x[0][i]), m), plus(root(v), big400(float64(float32(1e-9)))))
			}},
	} {
		in := names("a", "b", "c", "d", "e")
		if k.outputs > 1 {
			in = names("a", "w", "b", "m", "v")
		}
		var values, outs []message
		for n, s := range k.inputs {
			values = append(values, valueOf(in[n], onnx.Float32, s...))
		}
		for n := range k.outputs {
			outs = append(outs, valueOf(names("y0", "y1", "y2")[n], onnx.Float32))
		}
		opset := uint64(17)
		switch k.name {
		case "Swish":
			opset = 24
		case "LpPool", "GlobalLpPool", "LpNormalization", "LpNormalization, 1":
			opset = 22
		}
		m, err := read(modelOf(opset, graphIs(all(k.node), nil, values, outs)))
		if err != nil {
			t.Fatal(k.name, err)
		}
		g, _, err := m.Graph(nil)
		if err != nil {
			t.Fatal(k.name, err)
		}
		r := rand.New(rand.NewPCG(51, 52))
		for seen := 0; seen < *onceOutputs; {
			var x []*tensor.Tensor
			var numbers [][]float64
			var types []graph.Type
			for _, s := range k.inputs {
				var shape []int
				for _, d := range s {
					shape = append(shape, d.(int))
				}
				v := tensor.New(fp16.Float32, shape...)
				for i := range v.Data {
					v.Data[i] = float64(float32(3 * r.NormFloat64()))
				}
				x, numbers, types = append(x, v), append(numbers, v.Data),
					append(types, graph.Type{Shape: shape, Format: fp16.Float32})
			}
			p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, types...)
			if err != nil {
				t.Fatal(k.name, err)
			}
			y, err := p.Run(new(graph.Run), x...)
			if err != nil {
				t.Fatal(k.name, err)
			}
			last := y[k.outputs-1].Data
			o.Add(k.name, last...)
			seen += len(last)
			if !o.Judge {
				continue
			}
			for i, got := range last {
				if want, _ := k.value(numbers, i).Float32(); float64(want) != got {
					t.Errorf("%s: number %d is %v, want %v", k.name, i, got, want)
				}
			}
		}
	}
}

// TestOnceGreat: what overflows on the way to a result does not do so in the result.
func TestOnceGreat(t *testing.T) {
	const great = float32(2.5e38)
	for name, node := range map[string]message{
		"ReduceLogSum":    nodeOf("ReduceLogSum", names("x"), names("y"), intsOf("axes", 0)),
		"Mean":            nodeOf("Mean", names("x", "x", "x"), names("y")),
		"LpNormalization": nodeOf("LpNormalization", names("x"), names("y"), intOf("p", 1)),
	} {
		y := evaluate(t, modelOf(
			17, graphIs(all(node), nil, all(valueOf("x", onnx.Float32, 2)), all(valueOf("y", onnx.Float32))),
		), tensor.Of(fp16.Float32, []float64{float64(great), float64(great)}, 2))
		want := map[string]float64{"ReduceLogSum": float64(float32(math.Log(2 * float64(great)))),
			"Mean": float64(great), "LpNormalization": 0.5}[name]
		for _, v := range y.Data {
			if v != want {
				t.Errorf("%s of two %v: %v, want %v", name, great, v, want)
			}
		}
	}
}

// TestOnceDequantize: the product is rounded to the type that is asked for, not to the scale's
// first.
func TestOnceDequantize(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	wrong := 0
	for range 200 {
		x, scale := r.IntN(255)-127, float32(1+r.Float64())
		if r.IntN(2) == 0 { // beside the middle of two float16 numbers
			product := 1 + (2*float64(r.IntN(1<<10))+1)/(1<<11)
			scale = float32(product * float64(int(1)<<7) / float64(max(x, 1)))
		}
		y := evaluate(t, modelOf(23, graphIs(all(
			nodeOf("DequantizeLinear", names("x", "s"), names("y"), intOf("output_dtype", int(onnx.Float16))),
		), all(floatsOf("s", nil, scale), tensorOf("x", onnx.Int8, []byte{byte(int8(x))}, 1)), nil,
			all(valueOf("y", onnx.Float16)))))
		want := fp16.Float16.Round(float64(x) * float64(scale)) // the product of 32 bits is exact
		if y.Data[0] != want {
			t.Errorf("%d times %v: %v, want %v", x, scale, y.Data[0], want)
		}
		if fp16.Float16.Round(float64(x)*fp16.Float16.Round(float64(scale))) != want {
			wrong++
		}
	}
	if wrong < 20 {
		t.Errorf("only %d results need the scale as it is", wrong)
	}
}

// TestOnceRange: a number of a Range is start + i delta rounded once, and their count that of the
// exact quotient.
func TestOnceRange(t *testing.T) {
	r := rand.New(rand.NewPCG(55, 56))
	for range 300 {
		start, delta, n := float32(r.NormFloat64()*100), float32(math.Ldexp(r.NormFloat64(), -r.IntN(40))), 1+r.IntN(40)
		limit := start + float32(n)*delta
		y := evaluate(t, modelOf(17, graphIs(all(nodeOf("Range", names("s", "l", "d"), names("y"))),
			all(floatsOf("s", nil, start), floatsOf("l", nil, limit), floatsOf("d", nil, delta)), nil,
			all(valueOf("y", onnx.Float32)))))
		of := func(v float32) *big.Rat { return new(big.Rat).SetFloat64(float64(v)) }
		at, left := of(start), 0
		for ; at.Cmp(of(limit)) == -of(delta).Sign(); left++ {
			if want, _ := at.Float32(); left < len(y.Data) && y.Data[left] != float64(want) {
				t.Fatalf("%v to %v by %v: number %d is %v, want %v", start, limit, delta, left, y.Data[left], want)
			}
			at.Add(at, of(delta))
		}
		if left != len(y.Data) {
			t.Fatalf("%v to %v by %v: %d numbers, want %d", start, limit, delta, len(y.Data), left)
		}
	}
}
