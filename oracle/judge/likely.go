package judge

import (
	"math"

	"github.com/refrun/refrun/graph"
)

// mostTried bounds the contracts that are tried.
const mostTried = 6

// likely returns the contracts that explain an output best, those of the fewest roundings first: its
// squared errors, in places of its format, are within a half of the least. A wrong contract has more than
// that, or it cannot be told from the right one here.
func (q *Question) likely(types []graph.Type) ([]Contract, error) {
	all := q.candidates(types)
	if len(all) < 3 {
		return all, nil
	}
	few := q
	if p := q.cut(types, mostRanked); p != nil {
		few = &p[0]
		var err error
		if types, err = few.types(); err != nil {
			return nil, err
		}
	}
	off, least := make([]float64, len(all)), math.Inf(1)
	for i, c := range all {
		b := expand(few.Graph, types, c.Form, "", "")
		values, err := b.values(c.Round)
		if err != nil {
			return nil, err
		}
		out, err := exactly(b, few.Inputs, b.rounds(values, q.Narrow))
		if err != nil {
			return nil, err
		}
		off[i] = few.places(out[0].Data)
		least = min(least, off[i])
	}
	var likely []Contract
	for i, c := range all {
		if off[i] <= 1.5*least && len(likely) < mostTried {
			likely = append(likely, c)
		}
	}
	return likely, nil
}

// places is the mean square of an output's errors, each in places of its format and at most 100 of them.
func (q *Question) places(y []float64) (sum float64) {
	f := q.Output.Format
	for i, v := range y {
		ulp := f.Ulp(f.Round(v))
		if !(ulp > 0) {
			ulp = f.Smallest()
		}
		if d := math.Abs(q.Output.Data[i]-v) / ulp; d == d {
			sum += min(d, 100) * min(d, 100)
		}
	}
	return sum / float64(max(1, len(y)))
}
