package layers

import (
	"iter"
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// An answer is what a device that computes a node in one certain right way may
// have just before it rounds the result to where it is stored. Rounding is
// monotone: what it stores lies between the rounded ends.
type answer struct {
	how string // in what it differs from the claim's contract, "" if in nothing

	mid    []float64 // the exact value
	lo, hi []float64 // where any right device is, by a proven bound
	sd     []float64 // expected standard deviation of a device from mid
	// flip is the chance that a rounding before the last one goes otherwise,
	// nil if there is no such rounding.
	flip []float64
	// wide is how many sd a right device's errors may have as their root mean
	// square: the slack between the model of sd and all legal algorithms.
	wide float64
	// unrounded says that a convolution's input is not rounded to operands.
	unrounded bool
	// follows says that such an answer, or one more, may be still to come.
	follows bool
}

// A layerValue is what is known of a node's output as the device has it: the
// numbers if they are recorded; otherwise numbers near them and how far the
// device may be from those, at most and in standard deviations.
type layerValue struct {
	*tensor.Tensor
	how       string
	bound, sd []float64 // nil if recorded
	manner    manner    // of what is not recorded
	// wide says that the last convolution before took its input unrounded, and turned that one before that did
	// otherwise. A device turns once at the most: with the state, or behind it.
	wide, turned bool
}

// A manner is how a device may have handed on a number that it did not record.
type manner int

const (
	isStored manner = iota // rounded as the contract rounds it
	isKept                 // not rounded
	isEither               // rounded or not
)

// Of the arithmetic that devices add up in. roundingSD is the standard
// deviation of a relative rounding error, over numbers whose leading digits are
// distributed as they are in products and sums: the relative error is u/m
// times a uniform one, for a mantissa m from 1 to 2 whose logarithm is
// uniform, and sqrt(mean(1/m^2)/3) = sqrt(0.541/3).
const roundingSD = 0.425

// usualSlack is the least [answer.wide]: F(4x4) of Winograd's method is at 4.4
// of the model of a sum, the mildest illegal one, three bfloat16 products for
// one, at 20.
const usualSlack = 8

// tiny is what flushing subnormal float32 numbers to zero may change.
const tiny = 0x1p-126

// answers returns the right ways to compute node i from inputs that are known
// like that, the claim's own first. got is what the device has, nil if unknown.
func (g *layerGate) answers(i int, in []layerValue, got *tensor.Tensor) iter.Seq[*answer] {
	n := &g.m.Nodes[i]
	switch n.Op {
	case operator.OpConv:
		return g.convAnswers(i, in[0])
	case operator.OpNorm:
		return g.normAnswers(i, in[0], got)
	case operator.OpAct:
		return g.actAnswers(n, in[0], got)
	case operator.OpAdd:
		return g.addAnswers(in[0], in[1])
	case operator.OpNoise:
		return g.noiseAnswers(n, in[0], g.of[i])
	case operator.OpOther:
		return g.otherAnswers(i, in)
	}
	panic("oracle: unknown operation")
}

// around returns an answer of those values, bounds and deviations.
func around(how string, mid, bound, sd []float64) *answer {
	a := &answer{
		how: how, mid: mid, sd: sd, lo: make([]float64, len(mid)), hi: make([]float64, len(mid)), wide: usualSlack,
	}
	for i, y := range mid {
		a.lo[i], a.hi[i] = y-bound[i], y+bound[i]
	}
	return a
}

// own adds to bound and sd of an elementwise operation what its one float32
// result always may be off.
func (g *layerGate) own(bound, sd, y []float64) {
	for i, v := range y {
		v = math.Abs(v)
		bound[i] += float64(g.u*v) + tiny
		sd[i] = measure.RootSum(sd[i], float64(roundingSD*g.u*v))
	}
}

// unrecorded returns what is known of a node that left no record, from its
// answers: rounded to f by the contract's answer, the first one; not rounded at
// all, by the answer that rounds least; or any of those between; and not rounded, of inputs
// that are not either, if that is another answer.
func unrecorded(answers iter.Seq[*answer], f fp16.Format, shape []int) []layerValue {
	var first, plain, wide *answer
	for a := range answers {
		if first == nil {
			first = a
		}
		if a.flip == nil && plain == nil {
			plain = a
		}
		if a.flip == nil && a.unrounded && a != plain {
			wide = a
		}
		if plain != nil && (wide != nil || !a.follows) {
			break
		}
	}
	if first == nil {
		return nil
	}
	if plain == nil {
		plain = first
	}
	n := len(first.mid)
	value := func(m manner, how string) layerValue {
		return layerValue{Tensor: tensor.New(fp16.Float64, shape...), how: how, bound: make([]float64, n),
			sd: make([]float64, n), manner: m}
	}
	bare := func(v layerValue, a *answer) {
		for i, y := range a.mid {
			v.Data[i], v.bound[i], v.sd[i] = y, max(a.hi[i]-y, y-a.lo[i]), a.sd[i]
		}
	}
	stored, kept, either := value(isStored, first.how), value(isKept, join(plain.how, "not rounded")),
		value(isEither, join(first.how, "rounded or not"))
	bare(kept, plain)
	for i, y := range plain.mid {
		m := first.mid[i]
		r, ulp := f.Round(m), 0.0
		if f != fp16.Float64 && measure.Finite(y) && measure.Finite(m) {
			ulp = f.Ulp(max(math.Abs(y), math.Abs(m)))
		}
		stored.Data[i], either.Data[i] = r, y
		stored.bound[i] = max(f.Round(first.hi[i])-r, r-f.Round(first.lo[i]))
		// A rounding goes otherwise with a chance of about 0.8 sd/ulp, and is
		// then an ulp away.
		s := first.sd[i]
		if first.flip != nil {
			s += float64(first.flip[i] * ulp)
		}
		stored.sd[i] = min(math.Sqrt(s*ulp), s+ulp)
		either.bound[i] = max(kept.bound[i], y-first.lo[i], first.hi[i]-y) + ulp/2
		either.sd[i] = measure.RootSum(max(s, plain.sd[i]), max(ulp/math.Sqrt(12), math.Abs(y-m)))
	}
	if f == fp16.Float64 {
		return []layerValue{kept}
	}
	all := []layerValue{stored, kept, either}
	if wide != nil {
		all = append(all, value(isKept, join(wide.how, "not rounded")))
		bare(all[3], wide)
		all[3].wide = true
	}
	return all
}
