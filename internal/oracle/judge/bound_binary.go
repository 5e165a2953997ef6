package judge

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// binary bounds arithmetic on two numbers.
func binary(op graph.Binary, in []ball, v *tensor.Tensor, acc accumulator) ([]ball, error) {
	var of [2]ball
	k := 0
	for i, given := range []*float64{op.Self, op.Other} {
		if given != nil {
			of[i] = scalar(*given)
			continue
		}
		of[i] = in[k]
		k++
	}
	var a, b, ra, rb []float64
	var full []*tensor.Tensor // that are this function's own
	spread := func(t *tensor.Tensor) ([]float64, error) {
		s, err := spreadTo(t, v.Shape)
		if err != nil {
			return nil, err
		}
		if s != t {
			full = append(full, s)
		}
		return s.Data, nil
	}
	defer func() { release(full...) }()
	every := [2]int{1, 1} // 0 for one number that all have
	for i, to := range []struct{ v, r *[]float64 }{{&a, &ra}, {&b, &rb}} {
		if len(of[i].v.Data) == 1 {
			if *to.v, every[i] = of[i].v.Data, 0; of[i].r != nil {
				*to.r = of[i].r.Data
			}
			continue
		}
		var err error
		if *to.v, err = spread(of[i].v); err != nil {
			return nil, err
		}
		if of[i].r != nil {
			if *to.r, err = spread(of[i].r); err != nil {
				return nil, err
			}
		}
	}
	r, any := fresh(fp16.Float64, v.Shape...), false
	var sigma *tensor.Tensor
	for i, y := range v.Data {
		x, z, rx, rz := a[i*every[0]], b[i*every[1]], 0.0, 0.0
		if ra != nil {
			rx = ra[i*every[0]]
		}
		if rb != nil {
			rz = rb[i*every[1]]
		}
		var e float64
		open := false // whether right kernels may be anywhere, though y is not finite
		switch op.Of {
		case pointwise.Add, pointwise.Sub:
			e = rx + rz
		case pointwise.Mul:
			e = times(x, rz) + times(z, rx) + times(rx, rz)
		case pointwise.Div: // GPUs' fast division is within 2 ulp, and a product with a reciprocal within 1.5
			exact := powerOfTwo(z) && float64(float32(y)) == y
			if y-y == 0 && !exact && v.Format != fp16.Int64 {
				e = 4 * u * math.Abs(y)
				sigma = deviation(sigma, v, i, typical*e)
			}
			if rx == 0 && rz == 0 {
				break
			}
			if rz >= math.Abs(z) {
				e, open = math.Inf(1), true
				break
			}
			e += (rx + math.Abs(y)*rz) / (math.Abs(z) - rz)
		case pointwise.Pow:
			e, open = powerMoves(x, rx, z, rz, y)
			if off := powerOff(z); y-y == 0 && off > 0 {
				e += off * u * (math.Abs(y) + e)
				sigma = deviation(sigma, v, i, typical*8*u*math.Abs(y))
			}
		case pointwise.Atan2:
			e = turned(x, rx, z, rz)
			if y-y == 0 && float64(float32(y)) != y {
				off := kernels["atan2"].off(0, y)
				e += off
				sigma = deviation(sigma, v, i, typical*off)
			}
		case pointwise.PReLU: // x above 0 and x z below
			if e = rx; x-rx < 0 {
				e = max(rx, times(rx, math.Abs(z)+rz)) + times(min(x, 0), rz)
			}
		case pointwise.Maximum, pointwise.Minimum, pointwise.FMax, pointwise.FMin:
			e = max(rx, rz)
		case pointwise.FloorDivide:
			e, open = wholeMoves(math.Floor, x, rx, z, rz, y)
		case pointwise.TruncDivide:
			e, open = wholeMoves(math.Trunc, x, rx, z, rz, y)
		case pointwise.Remainder:
			e, open = remainderMoves(math.Floor, x, rx, z, rz)
		case pointwise.FMod:
			e, open = remainderMoves(math.Trunc, x, rx, z, rz)
		default:
			if op.Of >= pointwise.Equal { // truths
				if math.Abs(x-z) <= rx+rz && rx+rz > 0 {
					e = 1
				}
				r.Data[i] = e
				any = any || e > 0
				continue
			}
			if rx+rz > 0 {
				return nil, fmt.Errorf("%s: %w", op.Name(), errNotJudged)
			}
		}
		if y-y == 0 && v.Format != fp16.Int64 && (e > 0 || float64(float32(y)) != y) {
			most := math.Abs(y) + e
			e += float64(u*most) + acc.loses(most) // in float32
		}
		if y-y != 0 && !open {
			e = 0
		}
		r.Data[i] = e
		any = any || e > 0
	}
	if !any {
		r = nil
	}
	if op.Of >= pointwise.Equal {
		r = nil // which side of an edge a number is on is not followed
	}
	return []ball{{v: v, r: r, sigma: sigma}}, nil
}

// turned bounds the angle by which a point (z, x) turns where it moves by up to rz and rx: all of a turn beside
// the half axis where angles jump, and where 0 is near; elsewhere the arc sine of a share t, up to pi/2 t.
func turned(x, rx, z, rz float64) float64 {
	// the one no less than how far it moves, the other no more than it is away
	r, rho := rx+rz, max(math.Abs(x), math.Abs(z))
	switch {
	case r == 0:
		return 0
	case r >= rho || z-rz < 0 && math.Abs(x) <= rx:
		return 2 * math.Pi
	}
	return math.Pi / 2 * (r / rho)
}

// scalar is a number that is written in a graph, which a kernel has in float32, or in float64 as here.
func scalar(c float64) ball {
	b := ball{v: tensor.Of(fp16.Float64, []float64{c}, 1)}
	if off := math.Abs(float64(float32(c)) - c); off > 0 && off-off == 0 {
		b.r = tensor.Of(fp16.Float64, []float64{off}, 1)
	}
	return b
}

// deviation notes that of one element, in a tensor that is made for the first.
func deviation(sigma, v *tensor.Tensor, i int, of float64) *tensor.Tensor {
	if sigma == nil {
		sigma = fresh(fp16.Float64, v.Shape...)
	}
	sigma.Data[i] = of
	return sigma
}

// times is a product of which 0 times infinity is 0.
func times(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return math.Abs(a * b)
}

// powerOfTwo reports whether a number's reciprocal is exact, and so any quotient by it. Of 7 it is not: 7k times 1/7,
// as PyTorch's GPU kernels divide by a number, may be next to k.
func powerOfTwo(x float64) bool {
	f, _ := math.Frexp(math.Abs(x))
	return f == .5
}
