package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// mostTried bounds the contracts that are tried.
const mostTried = 6

// pairedNames is of how many steps all pairs are candidates.
const pairedNames = 6

// likely returns the contracts that explain an output best, those of the fewest roundings first: how far
// it is from what they store, squared, is about the least. A wrong contract has more than that, or it cannot be
// told from the right one here.
func (q *Question) likely(types []graph.Type) ([]Contract, error) {
	all := q.candidates(types)
	if len(all) < 3 {
		return all, nil
	}
	few := q.few(types)
	explain := func(c Contract) (float64, error) {
		y, err := few.made(c)
		return few.places(y), err
	}
	off, best := make([]float64, len(all)), 0
	for i, c := range all {
		var err error
		if off[i], err = explain(c); err != nil {
			return nil, err
		}
		if off[i] < off[best] {
			best = i
		}
	}
	if more, err := q.climb(types, all[best], off[best], explain); err != nil {
		return nil, err
	} else if more != nil {
		return []Contract{{Form: Form{written: q.Written}}, *more, all[best]}, nil // the fewest first
	}
	return nearest(all, off, fewPlaces/float64(max(1, len(few.Output.Data)))), nil
}

// few is the part of a question by which contracts are compared.
func (q *Question) few(types []graph.Type) *Question {
	if q.built.whole() {
		return q
	}
	if p := q.queries(mostScores); p != nil {
		return &p[len(p)-1] // which sees all keys
	}
	if q.built.id != "" { // which may mix rows
		return q
	}
	if p := q.cut(types, mostRanked); p != nil {
		return &p[0]
	}
	return q
}

// tf32 are the ways in which devices round operands to TF32, the one that explains the output best first.
func (q *Question) tf32(types []graph.Type) ([]Contract, error) {
	few, off, all := q.few(types), map[string]float64{}, []Contract(nil)
	for _, way := range []string{"tf32", "tf32 ties away", "tf32 truncated"} {
		c := *q.Claimed
		c.Operands = way
		y, err := few.made(c)
		if err != nil {
			return nil, err
		}
		off[way], all = few.places(y), append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Contract) int { return cmp.Compare(off[a.Operands], off[b.Operands]) })
	return all, nil
}

// fewPlaces is how many single places more a contract may have than one and a half times the least: the flips of
// right kernels, of which there may be none.
const fewPlaces = 16

// nearest are the contracts that are within a half of the least and few, mostTried of them, in their order.
func nearest(all []Contract, off []float64, few float64) (likely []Contract) {
	ranked := make([]int, len(all))
	for i := range ranked {
		ranked[i] = i
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(off[a], off[b]) })
	most := 1.5*off[ranked[0]] + few
	ranked = slices.DeleteFunc(ranked[:min(len(ranked), mostTried)], func(i int) bool { return off[i] > most })
	slices.Sort(ranked)
	for _, i := range ranked {
		likely = append(likely, all[i])
	}
	return likely
}

// moves are the contracts one rounding away from one, and in a written graph one form.
func (q *Question) moves(types []graph.Type, c Contract, names []string) (all []Contract) {
	for _, name := range names {
		with := Contract{c.Form, slices.Clone(c.Round)}
		if i := slices.Index(with.Round, name); i >= 0 {
			with.Round = slices.Delete(with.Round, i, i+1)
		} else {
			with.Round = append(with.Round, name)
		}
		all = append(all, with)
	}
	if !q.Written {
		return all
	}
	for _, f := range q.forms(types) {
		with := Contract{Form: c.Form.with(f)}
		if with.Form == c.Form {
			continue
		}
		steps := expand(q.Graph, types, with.Form, q.built).names()
		for _, name := range c.Round {
			if slices.Contains(steps, name) {
				with.Round = append(with.Round, name)
			}
		}
		all = append(all, with)
	}
	return all
}

const mostPlaces = 8

// climb adds and takes away the roundings of a chain, or of an operation of many steps, one at a time, as long as
// that explains an output plainly better; nil if nothing does.
func (q *Question) climb(types []graph.Type, c Contract, off float64, explain func(Contract) (float64, error)) (*Contract, error) {
	b := expand(q.Graph, types, c.Form, q.built)
	names := some(b.names(), len(b.Nodes))
	if len(q.Graph.Nodes) < 2 && len(names) <= pairedNames || q.Narrow == fp16.Float32 {
		return nil, nil
	}
	climbed := false
	for {
		if q.Written { // whose forms change
			names = expand(q.Graph, types, c.Form, q.built).names()
		}
		least, to := off, Contract{}
		for _, with := range q.moves(types, c, names) {
			o, err := explain(with)
			if err != nil {
				return nil, err
			}
			if o < least {
				least, to = o, with
			}
		}
		if least >= off || least > .9*off { // off may be 0
			break
		}
		off, c, climbed = least, to, true
	}
	if !climbed {
		return nil, nil
	}
	return &c, nil
}

// places is the mean square of how far an output is from what a contract stores, in places of its format and at most
// mostPlaces of them: where terms cancel, one rounding of a right kernel that goes the other way is many places.
// The storing itself is no part of it: it has 1/12 under every contract, which would hide what a rare rounding does.
func (q *Question) places(y []float64) (sum float64) {
	f := q.Output.Format
	for i, v := range y {
		stored := f.Round(v)
		ulp := f.Ulp(stored)
		if !(ulp > 0) {
			ulp = f.Smallest()
		}
		if d := math.Abs(q.Output.Data[i]-stored) / ulp; d == d {
			sum += min(d, mostPlaces) * min(d, mostPlaces)
		}
	}
	return sum / float64(max(1, len(y)))
}
