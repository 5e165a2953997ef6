package onnx

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/tensor"
)

// opConstant has its numbers in one of several attributes.
func opConstant(c *call) []int {
	if a := c.attribute("value"); a != nil && a.tensor != nil {
		v, err := c.initializer(a.tensor)
		if err != nil {
			c.fail("value: %w", err)
		}
		return one(v)
	}
	if a := c.attribute("value_float"); a != nil {
		return one(c.constant("", tensor.Of(fp16.Float32, []float64{a.float}), Float32))
	}
	if a := c.attribute("value_floats"); a != nil {
		return one(c.constant("", tensor.Of(fp16.Float32, a.floats, len(a.floats)), Float32))
	}
	if a := c.attribute("value_int"); a != nil {
		return one(c.wholes(nil, a.int))
	}
	if a := c.attribute("value_ints"); a != nil {
		return one(c.wholes([]int{len(a.ints)}, a.ints...))
	}
	c.fail("no value: want one of numbers, not sparse")
	return nil
}

// opConstantOfShape repeats one number, 0 unless it is given.
func opConstantOfShape(c *call) []int {
	shape := c.known(0, "shape")
	v := poison
	if a := c.attribute("value"); a != nil && a.tensor != nil {
		var err error
		if v, err = c.initializer(a.tensor); err != nil {
			c.fail("value: %w", err)
		}
		v = c.reshape(v, nil, true)
	} else {
		v = c.constant("", tensor.New(fp16.Float32), Float32)
	}
	for _, d := range shape {
		if d < 0 {
			c.fail("shape: %d: want 0 or more", d)
		}
	}
	if len(shape) == 0 {
		return one(v)
	}
	return one(c.add(graph.Expand{Size: graph.Ints(shape)}, v))
}

// opShape has a start and an end since opset 15.
func opShape(c *call) []int {
	s := c.shape(c.arg(0))
	n := len(s)
	bring := func(v int) int {
		if v < 0 {
			v += n
		}
		return min(max(v, 0), n)
	}
	lo, hi := bring(c.int("start", 0)), bring(c.int("end", math.MaxInt))
	if c.err != nil {
		return nil
	}
	s = s[lo:max(lo, hi)]
	return one(c.wholes([]int{len(s)}, s...))
}

func opSize(c *call) []int { return one(c.wholes(nil, elements(c.shape(c.arg(0))))) }

// opRange is known: so are start, limit and step.
func opRange(c *call) []int {
	var of [3]float64
	for i := range of {
		t := c.value(c.arg(i), []string{"start", "limit", "delta"}[i])
		if t != nil && len(t.Data) != 1 {
			c.fail("start, limit, delta: want numbers")
		}
		if c.err != nil {
			return nil
		}
		of[i] = t.Data[0]
	}
	n := steps(of[0], of[1], of[2])
	if n = max(n, 0); !(n <= mostKnown) || !c.room(int(n)) {
		c.fail("%.0f numbers: %w", n, errMemory)
		return nil
	}
	t := tensor.New(c.types[c.in[0]].Format, int(n))
	for i := range t.Data {
		along := float64(float64(i) * of[2]) // exact of 24 bits
		v := along + of[0]
		if odd, ok := exact.Words([]float64{along, of[0]}, 0); ok && t.Format != fp16.Float64 {
			v = odd
		}
		t.Data[i] = t.Format.Round(v)
	}
	return one(c.constant("", t, c.dtype(c.in[0])))
}

// steps returns how many steps of delta there are before limit.
func steps(start, limit, delta float64) float64 {
	n := math.Ceil((limit - start) / delta)
	if n-n != 0 || delta-delta != 0 {
		return n
	}
	of := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	q := of(start)
	q.Sub(q, of(limit)).Quo(q, of(delta))
	down, _ := new(big.Float).SetInt(new(big.Int).Div(q.Num(), q.Denom())).Float64() // of -(limit-start)/delta
	return -down
}

// opEyeLike is 1 on a diagonal.
func opEyeLike(c *call) []int {
	x := c.arg(0)
	d := DType(c.int("dtype", int(c.dtype(x))))
	s, k := c.shape(x), c.int("k", 0)
	f, ok := d.Format()
	if c.err == nil && (!ok || len(s) != 2) {
		c.fail("shape %v of %v: want a matrix of numbers that a graph holds", s, d)
	}
	if !c.room(elements(s)) {
		return nil
	}
	for _, of := range []DType{c.dtype(x), d} { // ONNX Runtime has it of these
		if !slices.Contains([]DType{Float32, Float64, Int32, Int64, Uint64}, of) {
			c.m.NoKernel = append(c.m.NoKernel, fmt.Sprintf("EyeLike %.80q of %v", c.node.name, of))
			break
		}
	}
	t := tensor.New(f, s...)
	for i := range s[0] {
		if j := i + k; j >= 0 && j < s[1] {
			t.Data[i*s[1]+j] = 1
		}
	}
	return one(c.constant("", t, d))
}

// opNonZero has as many columns as its input has numbers that are not 0: they must be
// known.
func opNonZero(c *call) []int {
	t := c.value(c.arg(0), "input")
	if t == nil {
		return nil
	}
	rank := len(t.Shape)
	var places []int
	for i, v := range t.Data {
		if v != 0 {
			places = append(places, i)
		}
	}
	if !c.room(rank * len(places)) {
		return nil
	}
	out := tensor.New(fp16.Int64, rank, len(places))
	for j, i := range places {
		for a := rank - 1; a >= 0; a-- {
			out.Data[a*len(places)+j] = float64(i % t.Shape[a])
			i /= t.Shape[a]
		}
	}
	return one(c.constant("", out, Int64))
}
