package emulate

import (
	"math"
	"math/bits"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// other disturbs an operation that is none of the CNN's five, by its kind: sums of
// products as those of a convolution; weighted means of a few inputs by their four
// roundings; a Fourier transform by an error of each number that goes with the root mean
// square of all, 0.6 u sqrt(log2 n) of it (Gentleman and Sande, "Fast Fourier transforms:
// for fun and profit", 1966); other arithmetic by one rounding. What only moves numbers
// has no errors.
func (l *Legal) other(i int, n *operator.Node, y *tensor.Tensor, in []*tensor.Tensor) {
	var sd func(k int, v float64) float64
	switch KindOf(n.Other) {
	case Moves:
		return
	case Products, Mixes:
		squares, err := l.Machine.Each(i, in, Square)
		if err != nil {
			return // the operation itself has failed, too
		}
		terms, size := 4, Rounding
		if KindOf(n.Other) == Products {
			if terms, err = l.Machine.Terms(i, in); err != nil {
				return
			}
			size *= l.Lambda
		}
		sd = func(k int, v float64) float64 {
			return size * math.Sqrt(float64(terms)*(float64(v*v)/3+squares.Data[k]/6))
		}
	case Transform:
		whole := Transforms(n.Other.(graph.FFT), y)
		sd = func(k int, _ float64) float64 { return whole[k*len(whole)/len(y.Data)] }
	default:
		if l.Half {
			return
		}
		sd = func(_ int, v float64) float64 { return Rounding * math.Abs(v) }
	}
	salt := l.Salt(i, 0)
	for k, v := range y.Data {
		y.Data[k] = v + float64(float64(l.U*sd(k, v))*Deviate(salt, v))
	}
}

// Transforms returns of each transform of y, one after the other in memory, the expected
// deviation of its numbers in units of u. Axes are the last ones of the numbers.
func Transforms(op graph.FFT, y *tensor.Tensor) []float64 {
	shape := y.Shape
	if op.Kind != "irfft" {
		shape = shape[:len(shape)-1] // of real and imaginary parts
	}
	size := 1
	for _, d := range shape[len(shape)-len(op.Axes):] {
		size *= d
	}
	each := size * (tensor.Size(y.Shape) / max(1, tensor.Size(shape)))
	all := make([]float64, len(y.Data)/max(1, each))
	for t := range all {
		all[t] = 0.6 * math.Sqrt(float64(bits.Len(uint(size)))*measure.MeanSquare(y.Data[t*each:(t+1)*each]))
	}
	return all
}
