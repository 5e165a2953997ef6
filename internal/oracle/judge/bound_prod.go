package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// prod bounds products of all numbers along axes, as [cumprod] does, but for what stands between: a kernel may multiply
// any of them first. If the greatest product of some of them is beyond the range of sums, right kernels have anything;
// if the least is below its normal numbers they may have lost the product. A factor that is 1 rounds nothing.
func prod(op graph.Op, x ball, v *tensor.Tensor, acc accumulator) ([]ball, error) {
	if v.Format == fp16.Int64 {
		return []ball{{v: v}}, nil
	}
	count := op.(graph.Reduction)
	count.Of = "sum"
	size := magnitudes(x)
	large, small, rounds := tensor.Like(size), tensor.Like(size), tensor.Like(size)
	for i, b := range size.Data {
		large.Data[i], small.Data[i] = max(b, 1), min(b, 1)
		if b == 0 { // whatever else there is, the product is 0
			small.Data[i] = 1
		}
		if b != 1 {
			rounds.Data[i] = 1
		}
	}
	var all [4]*tensor.Tensor
	for k, of := range []*tensor.Tensor{size, large, small, rounds} {
		by := op
		if of == rounds {
			by = count
		}
		var err error
		if all[k], err = one(by, of); err != nil {
			return nil, err
		}
	}
	greatest, least := acc.within()
	r, sigma := tensor.New(fp16.Float64, v.Shape...), tensor.New(fp16.Float64, v.Shape...)
	for i, y := range v.Data {
		size, k := all[0].Data[i], all[3].Data[i]
		off := float64(k*acc.u*size*1.01) + (size - math.Abs(y))
		switch {
		case all[1].Data[i] > greatest:
			off = math.Inf(1)
		case all[2].Data[i] < least:
			off += size
		}
		r.Data[i] = off + acc.least(1)
		sigma.Data[i] = acc.u / 2 * math.Sqrt(max(0, k-1)) * math.Abs(y)
	}
	return []ball{{v: v, r: r, sigma: sigma, sum: true}}, nil
}
