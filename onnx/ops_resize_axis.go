package onnx

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// byAxis resizes along one axis after the other: nearest by taking numbers, else by a product
// with the matrix of weights, which are float32 numbers.
func (r *resize) byAxis(x int) int {
	for _, a := range r.axes {
		if r.mode == "nearest" {
			x = r.take(x, a)
		} else {
			x = r.weigh(x, a)
		}
	}
	if r.coordinates != "tf_crop_and_resize" {
		return x
	}
	for _, a := range r.axes {
		if !r.room(a.out) {
			return poison
		}
		outside := make([]int, a.out)
		for i := range outside {
			if p := r.position(a, i); p < 0 || p > float64(a.in-1) {
				outside[i] = 1
			}
		}
		shape := []int{a.out}
		for range r.rank(x) - 1 - a.axis {
			shape = append(shape, 1)
		}
		x = r.add(graph.Where{}, r.wholes(shape, outside...), r.number(x, r.extrapolation), x)
	}
	return x
}

// position returns where number i of an axis lies in the source, by ONNX's formulas.
func (r *resize) position(a resizedAxis, i int) float64 {
	in, x := float64(a.in), float64(i)
	out := float64(a.scale * in)
	middle := float64((x+0.5)/a.scale) - 0.5
	switch r.coordinates {
	case "align_corners":
		if out == 1 {
			return 0
		}
		return float64(x*(in-1)) / (out - 1)
	case "asymmetric":
		return x / a.scale
	case "tf_crop_and_resize":
		begin, span := float64(a.first*(in-1)), float64((a.last-a.first)*(in-1))
		if out == 1 {
			return begin + float64(span/2)
		}
		return begin + float64(float64(x*span)/(out-1))
	case "pytorch_half_pixel":
		if out == 1 {
			return -0.5
		}
	case "half_pixel_symmetric":
		return float64(in/2*(1-float64(float64(a.out)/out))) + middle
	}
	return middle
}

// take is nearest.
func (r *resize) take(x int, a resizedAxis) int {
	if !r.room(a.out) {
		return poison
	}
	at := make([]int, a.out)
	for i := range at {
		p := r.position(a, i)
		var n float64
		switch r.rounding {
		case "round_prefer_floor":
			n = math.Ceil(p - 0.5)
		case "round_prefer_ceil":
			n = math.Floor(p + 0.5)
		case "floor":
			n = math.Floor(p)
		case "ceil":
			n = math.Ceil(p)
		default:
			r.fail("nearest_mode %.40q: want round_prefer_floor, round_prefer_ceil, floor or ceil", r.rounding)
			return poison
		}
		at[i] = int(min(max(n, 0), float64(a.in-1)))
	}
	return r.add(graph.IndexSelect{Axis: a.axis}, x, r.wholes([]int{a.out}, at...))
}

// weigh is linear or cubic. Neighbours beyond the ends are the ends, or are left out.
func (r *resize) weigh(x int, a resizedAxis) int {
	if a.out > mostKnown || a.in > mostKnown || !r.room(a.in*a.out) {
		r.fail("sizes %d and %d: %w", a.in, a.out, errMemory)
		return poison
	}
	w := tensor.New(fp16.Float32, a.in, a.out)
	reach, narrow := 1.0, 1.0
	if r.mode == "cubic" {
		reach = 2
	}
	if r.antialias && a.scale < 1 {
		narrow = a.scale
	}
	for i := range a.out {
		p := r.position(a, i)
		lo, hi := math.Floor(p-reach/narrow), math.Ceil(p+reach/narrow)
		if hi-lo > float64(4*a.in+16) { // further than the source is long
			r.fail("a scale of %g: want a greater one", a.scale)
			return poison
		}
		sum, row := 0.0, make([]float64, a.in)
		for j := lo; j <= hi; j++ {
			v := r.kernel(math.Abs(j-p) * narrow)
			if r.exclude && (j < 0 || j > float64(a.in-1)) {
				continue
			}
			sum += v
			row[int(min(max(j, 0), float64(a.in-1)))] += v
		}
		for j, v := range row {
			if (r.exclude || r.antialias) && sum != 0 {
				v /= sum
			}
			w.Data[j*a.out+i] = fp16.Float32.Round(v)
		}
	}
	n := r.rank(x)
	last := graph.Transpose{A: a.axis, B: n - 1}
	if a.axis != n-1 {
		x = r.add(last, x)
	}
	x = r.add(graph.MatMul{}, x, r.constant("", w, Float32))
	if a.axis != n-1 {
		x = r.add(last, x)
	}
	return x
}

// kernel is the weight at a distance.
func (r *resize) kernel(d float64) float64 {
	if r.mode == "linear" {
		return max(1-d, 0)
	}
	polynomial := func(c3, c2, c1, c0 float64) float64 {
		y := float64(c3*d) + c2
		y = float64(y*d) + c1
		return float64(y*d) + c0
	}
	c := r.coefficient
	switch {
	case d <= 1:
		return polynomial(c+2, -(c + 3), 0, 1)
	case d < 2:
		return polynomial(c, float64(-5*c), float64(8*c), float64(-4*c))
	}
	return 0
}
