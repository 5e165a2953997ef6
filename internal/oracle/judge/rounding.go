package judge

import (
	"maps"
	"math"
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// rounded are the values of steps that are rounded.
type rounded map[int]rounding

// rounding is the format of one step's results; if some, not of all elements.
type rounding struct {
	fp16.Format
	some bool
	tf32 fp16.Rounding // to TF32: in which of the ways of devices
	// flushes is set of units that take subnormal operands for 0, as MI200's do.
	flushes bool
}

// Round returns v, rounded.
func (r rounding) Round(v float64) float64 {
	if r.Format == fp16.TF32 {
		return fp16.RoundTF32(v, r.tf32)
	}
	y := r.Format.Round(v)
	if r.flushes && math.Abs(y) < leastHalf {
		return 0
	}
	return y
}

// RoundSlice rounds src into dst.
func (r rounding) RoundSlice(dst, src []float64) {
	if r.tf32 == fp16.NearestEven && !r.flushes {
		r.Format.RoundSlice(dst, src)
		return
	}
	for i, v := range src {
		dst[i] = r.Round(v)
	}
}

// rounds returns what the steps of a contract round: its operands, and those steps.
func (b *builder) rounds(values []int, f fp16.Format) rounded {
	r, some := maps.Clone(b.round), map[int]bool{}
	for _, p := range b.points {
		some[p.value] = some[p.value] || p.some
	}
	for _, v := range values {
		r[v] = rounding{Format: f, some: some[v]}
	}
	return r
}

// somewhere are the roundings of a contract, those of some elements as the question takes them.
func (q *Question) somewhere(r rounded) rounded {
	if q.everywhere {
		for v, f := range r {
			f.some = false
			r[v] = f
		}
	}
	return r
}

// round is a ball whose numbers are rounded to a format: each side of it has a number there.
func (b ball) round(f rounding) ball {
	if f.some {
		r := fresh(fp16.Float64, b.v.Shape...)
		for i, v := range b.v.Data {
			e := 0.0
			if b.r != nil {
				e = b.r.Data[i]
			}
			if r.Data[i] = max(e, max(math.Abs(f.Round(v+e)-v), math.Abs(f.Round(v-e)-v))); v-v != 0 {
				r.Data[i] = 0
			}
		}
		return ball{v: b.v, r: r}
	}
	out := ball{v: fresh(fp16.Float64, b.v.Shape...)}
	f.RoundSlice(out.v.Data, b.v.Data)
	if b.r == nil {
		return out
	}
	out.r = fresh(fp16.Float64, b.v.Shape...)
	for i, v := range b.v.Data {
		if r := b.r.Data[i]; r > 0 {
			y := out.v.Data[i]
			if out.r.Data[i] = max(f.Round(v+r)-y, y-f.Round(v-r)); out.r.Data[i] != out.r.Data[i] {
				out.r.Data[i] = math.Inf(1)
			}
		}
	}
	return out
}

// roundTo returns a tensor's numbers rounded to a format: if only some are, those that r chooses, or
// none.
func roundTo(f rounding, t *tensor.Tensor, r *rand.Rand) *tensor.Tensor {
	if f.some && r == nil {
		return t
	}
	out := fresh(fp16.Float64, t.Shape...)
	if f.some {
		for i, v := range t.Data {
			if out.Data[i] = v; r.IntN(2) == 0 {
				out.Data[i] = f.Round(v)
			}
		}
		return out
	}
	f.RoundSlice(out.Data, t.Data)
	return out
}
