package noise

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Type is the way in which a block's noise enters its input.
type Type uint8

// The types, after the noise_type of Spinlock's StochasticBlock. See
// [Block.Apply] for their formulas.
const (
	Gaussian Type = iota
	Laplace
	Dropout
	Multiplicative
)

var typeNames = []string{"gaussian", "laplace", "dropout", "multiplicative"}

// String returns the name used in configurations.
func (t Type) String() string { return nameOf(typeNames, int(t), "Type") }

// ParseType returns the type of that name: gaussian, laplace, dropout or
// multiplicative. Any other name is an error that lists them.
func ParseType(name string) (Type, error) {
	i, err := parseName(typeNames, "noise type", name)
	return Type(i), err
}

func nameOf(names []string, i int, kind string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

func parseName(names []string, what, name string) (int, error) {
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("unknown %s %.60q: want one of %s", what, name, strings.Join(names, ", "))
}

// Block is Spinlock's StochasticBlock: noise of one type, its scale and
// schedule, and the spatial correlation of its field. A Block holds no state;
// it may be copied and used by several goroutines.
type Block struct {
	Type     Type
	Scale    float64 // s0, a float32 number; anything else is rounded to float32
	Schedule Schedule
	// Period of the Periodic schedule, in steps; Spinlock's is 100.
	Period int
	// Correlation is rho, the correlation length as a fraction of the image
	// height; 0 means white noise. Dropout ignores it.
	Correlation float64
	// NarrowScale rounds the scheduled scale to the format of the output before
	// it is used, as PyTorch 1.13's CPU does beside tensors of a half type.
	// Dropout ignores it.
	NarrowScale bool
	// Scope of the correlated field's normalisation. With WholeBatch, Apply
	// must be given the whole engine batch at once.
	Scope Scope
}

// Format returns the type PyTorch gives the block's output for an input of
// format in: in itself, except that a correlated field is float32 and promotes
// a narrower input.
func (b *Block) Format(in fp16.Format) fp16.Format {
	if b.Type != Dropout && b.Correlation != 0 && in != fp16.Float64 {
		return fp16.Float32
	}
	return in
}

// Apply writes the block's output for src to dst, which has the same shape
// [N,C,H,W] and may be src itself. The scale s is that of [Schedule.Scale] at
// the given time. With rn for dst.Format.Round, and draws taken from d in the
// order of writing:
//
//	gaussian        rn(x + rn(n*s))           n normal
//	laplace         rn(x + rn(n*s))           n = e*sign(m), e exponential, m normal
//	multiplicative  rn(x * rn(1 + rn(n*s)))   n normal
//	dropout         rn(x * k) or rn(x * 0)    one Bernoulli(1-p) draw of shape
//	                                          [N,C,1,1] keeps or drops whole
//	                                          channels; k = 1/(1-p), p = s
//
// If Correlation is not 0, the first normal or exponential draw is replaced by
// the correlated field (one ComplexNormal draw).
//
// Draws are rounded to dst.Format before use (float32 draws already are
// float32 numbers), the sign included, and sign(0) = 0. The scale is used as
// the float32 number it is, in narrower formats too (unless NarrowScale says
// otherwise). For dropout p is the
// float32 scale also in Float64 mode, so that runs of different precision
// share their masks; k is rounded once from the exact real 1/(1-p), or
// evaluated in plain float64 for Float64; p = 0 returns x and p = 1 returns
// x*0, both without a draw.
//
// Every written operation is IEEE 754's: Inf*0 and Inf-Inf are NaN, a dropped
// channel is x*0 and keeps signs and NaNs, -0 + -0 = -0, other exact zero sums
// are +0. NaN results are [fp16.NaN].
//
// A negative or non-finite Correlation, a p outside [0,1], a schedule that
// cannot be evaluated and any error of d is an error; dst is then undefined. It
// panics if the shapes differ or if dst's format does not hold all numbers of
// src's.
func (b *Block) Apply(dst, src *tensor.Tensor, at Time, d Draws) error {
	tensor.Require("noise", 4, dst, src)
	if !dst.SameShape(src) {
		panic("noise: dst and src have different shapes")
	}
	if !widens(src.Format, dst.Format) {
		panic("noise: dst's format does not hold src's numbers")
	}
	if d == nil {
		d = nothing{}
	}
	switch b.Type {
	case Gaussian, Laplace, Multiplicative:
		return b.applyNoise(dst, src, at, d)
	case Dropout:
		return b.dropout(dst, src, at, d)
	}
	return fmt.Errorf("noise type: %v: want one of %s", b.Type, strings.Join(typeNames, ", "))
}

// nothing is the draws of who gave none.
type nothing struct{}

func (nothing) Draw(Kind, float64, []int, []float64) error {
	return errors.New("noise: no draws: want a stream or a tape")
}

// widens reports whether every number of format from is one of format to.
func widens(from, to fp16.Format) bool {
	switch to {
	case fp16.Float64:
		return true
	case fp16.Float32:
		return from != fp16.Float64
	case fp16.TF32:
		return from != fp16.Float64 && from != fp16.Float32
	}
	return from == to
}

// applyNoise is every type but dropout.
//
// Each operation is evaluated in float64 and rounded to the format, which is
// the exact result rounded once. Float64: it is the operation itself. Others
// have p <= 24 bits and exponents of -149 and more: a product of two numbers
// has at most 48 bits and is at least 2^-298, so it is exact in float64. A sum
// of two is rounded twice, to 53 bits and to p, which is innocuous since
// 53 >= 2p+2 (S. Figueroa, "When is double rounding innocuous?", SIGNUM
// Newsletter 30(3), 1995) if the sum is normal in the format; a smaller sum is
// a multiple of the format's least subnormal and exact in both.
func (b *Block) applyNoise(dst, src *tensor.Tensor, at Time, d Draws) error {
	f := dst.Format
	s, err := b.Schedule.Scale(b.Scale, at, b.Period, f)
	if err != nil {
		return err
	}
	if b.NarrowScale {
		s = f.Round(s)
	}
	n, err := b.draw(dst, src, d)
	if err != nil {
		return err
	}
	var m []float64
	if b.Type == Laplace {
		space := borrow(len(src.Data))
		defer giveBack(space)
		m = *space
		if err := d.Draw(Normal, 0, shapeOf(src), m); err != nil {
			return err
		}
	}
	r := newRounder(f)
	pieces(len(n), func(lo, hi int) {
		n, x, y := n[lo:hi], src.Data[lo:hi], dst.Data[lo:hi]
		if m != nil {
			r.sign(n, m[lo:hi])
		}
		if b.Type == Multiplicative {
			r.modulate(y, x, n, s)
		} else {
			r.add(y, x, n, s)
		}
	})
	return nil
}

// draw returns the numbers that are scaled: the correlated field or the
// block's first draw. They are the caller's, and lie in dst where that is
// memory of its own.
func (b *Block) draw(dst, x *tensor.Tensor, d Draws) ([]float64, error) {
	if b.Correlation != 0 {
		return correlated(x.N(), x.C(), x.H(), x.W(), b.Correlation, b.Scope, d)
	}
	kind := Normal
	if b.Type == Laplace {
		kind = Exponential
	}
	n := dst.Data
	if len(n) > 0 && &n[0] == &x.Data[0] {
		n = make([]float64, len(n))
	}
	return n, d.Draw(kind, 0, shapeOf(x), n)
}

func (b *Block) dropout(dst, src *tensor.Tensor, at Time, d Draws) error {
	factor := make([]float64, src.N()*src.C())
	if err := b.factors(factor, at, dst.Format, []int{src.N(), src.C(), 1, 1}, d); err != nil {
		return err
	}
	hw := src.H() * src.W()
	r := newRounder(dst.Format)
	par.For(len(factor), func(plane int) {
		for lo, end := plane*hw, (plane+1)*hw; lo < end; lo += piece {
			hi := min(lo+piece, end)
			r.scale(dst.Data[lo:hi], src.Data[lo:hi], factor[plane])
		}
	})
	return nil
}

// factors sets factor to those of dropout in format f, which is k, 0 or 1 for each
// channel; shape is that of the draw.
func (b *Block) factors(factor []float64, at Time, f fp16.Format, shape []int, d Draws) error {
	p, err := b.Schedule.Scale(b.Scale, at, b.Period, fp16.Float32)
	if err != nil {
		return err
	}
	if !(p >= 0 && p <= 1) {
		return fmt.Errorf("noise_scale: %v: want a probability from 0 to 1 for dropout", p)
	}
	switch p {
	case 0:
		for i := range factor {
			factor[i] = 1
		}
	case 1:
		clear(factor)
	default:
		if err := d.Draw(Bernoulli, 1-p, shape, factor); err != nil {
			return err
		}
		k := survivor(p, f)
		for i, keep := range factor {
			if keep != 0 { // not keep*k: k may be infinite
				factor[i] = k
			}
		}
	}
	return nil
}

// survivor returns 1/(1-p) in format f for 0 < p < 1, a float32 number.
func survivor(p float64, f fp16.Format) float64 {
	if f == fp16.Float64 {
		return 1 / (1 - p)
	}
	q := new(big.Rat).SetFloat64(p)
	q.Inv(q.Sub(big.NewRat(1, 1), q))
	return f.Round(exact.Quotient(q.Num(), 0, q.Denom()))
}

func shapeOf(t *tensor.Tensor) []int { return []int{t.N(), t.C(), t.H(), t.W()} }

// Primitives returns the kinds of the draws that Apply takes, in order. (It
// takes none of them for dropout with p = 0 or 1.) They have the shape of the
// input, [N,C,H,W], except that Bernoulli is [N,C,1,1].
func (b *Block) Primitives() []Kind {
	if b.Type == Dropout {
		return []Kind{Bernoulli}
	}
	first, laplace := Normal, b.Type == Laplace
	switch {
	case b.Correlation != 0:
		first = ComplexNormal
	case laplace:
		first = Exponential
	}
	if laplace {
		return []Kind{first, Normal}
	}
	return []Kind{first}
}
