package judge

import (
	"errors"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// A rounding of an inner result that goes to the other side is as large as the format is coarse, and may move a whole
// row of an output. Which numbers stand that near an edge is known. Where they are few, it is by chance that a
// simulated kernel has the flip that a right device has. So where such an output is off, each flip is tried, and what
// is judged is the output less what the flips move that explain it.

// flip is a number that is rounded to the other side of an edge.
type flip struct {
	value, at int
	to        float64
	far       float64 // from the edge, in deviations of right kernels
}

// nearEdges finds the flips of one evaluation.
type nearEdges struct {
	flips []flip
}

// errManyFlips says that there are more than mostFlips, of which simulated kernels have their part.
var errManyFlips = errors.New("many flips")

// look adds the flips of a step's results, which simulated kernels have before their rounding, and without any flip
// before.
func (n *nearEdges) look(f rounding, sims []simulation, v int, like ball) error {
	if f.some {
		return nil
	}
	for i, x := range like.v.Data {
		variance := 0.0
		if like.sigma != nil {
			variance = float64(like.sigma.Data[i] * like.sigma.Data[i])
		}
		squares := 0.0
		for _, s := range sims {
			d := s.of[v].Data[i] - x
			squares += float64(d * d)
		}
		s := math.Sqrt(max(variance, squares/float64(len(sims))))
		for _, side := range []float64{-s, s} {
			for last, far := f.Round(x), 1; far <= mostFlip; far++ {
				if to := f.Round(x + float64(float64(far)*side)); to != last && to-to == 0 && x-x == 0 {
					n.flips = append(n.flips, flip{v, i, to, math.Abs(x-(last/2+to/2)) / s})
					last = to
				}
			}
		}
		if len(n.flips) > mostFlips {
			return errManyFlips
		}
	}
	return nil
}

// turn sets the numbers of a rounded step that flips change; those of a kernel's own memory.
func turn(t *tensor.Tensor, v int, flips []flip, own bool) *tensor.Tensor {
	for _, f := range flips {
		if f.value != v {
			continue
		}
		if !own {
			t, own = tensor.Of(t.Format, slices.Clone(t.Data), t.Shape...), true
		}
		t.Data[f.at] = f.to
	}
	return t
}

// turn rounds the numbers of a kernel whose only errors are flips, beside those of all: wide is what has none, before
// its rounding, and like after it.
func (s simulation) turn(f rounding, v int, wide, like ball) {
	if t := s.of[v]; shared(t, wide.v) {
		s.of[v] = turn(like.v, v, s.turns, false)
	} else {
		s.of[v] = turn(roundTo(f, t, nil), v, s.turns, true)
	}
}

// withFlips judges an output less what flips move, those that explain the most; nil if it is wrong all the same.
func (q *Question) withFlips(types []graph.Type, t *trial) (*Question, *trial, error) {
	if len(q.blocks(types)) > 1 {
		return nil, nil, nil
	}
	less, right := *q, *t
	less.Output = tensor.Of(q.Output.Format, slices.Clone(q.Output.Data), q.Output.Shape...)
	right.turns, right.tally = nil, tally{}
	for {
		more, err := q.explaining(types, &right, less.Output.Data)
		if err != nil {
			return nil, nil, err
		}
		if len(more) == 0 {
			break
		}
		right.turns = append(right.turns, more...)
		if err := q.less(types, &right, &less); err != nil {
			return nil, nil, err
		}
	}
	if len(right.turns) == 0 {
		return nil, nil, nil
	}
	less.statistics(&right)
	less.count(&right)
	if !right.passes() {
		return nil, nil, nil
	}
	return &less, &right, nil
}

// explaining are the flips, beside those that a trial has, that explain the errors of an output.
func (q *Question) explaining(types []graph.Type, t *trial, out []float64) ([]flip, error) {
	near := &nearEdges{}
	_, err := q.turned(types, t, manyKernels, func(b *builder) { b.near = near })
	if errors.Is(err, errManyFlips) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	flips := slices.DeleteFunc(near.flips, func(f flip) bool {
		return slices.ContainsFunc(t.turns, func(o flip) bool { return o.value == f.value && o.at == f.at })
	})
	if len(flips)+len(t.turns) > mostFlips {
		return nil, nil
	}
	each := make([][]flip, len(flips))
	for k, f := range flips {
		each[k] = []flip{f}
	}
	o, err := q.turned(types, t, len(each), func(b *builder) { b.turns = each })
	if err != nil {
		return nil, err
	}
	for _, y := range o.right {
		for i := range y {
			y[i] -= o.y[i]
		}
	}
	return t.choose(q.Output.Format, out, flips, o.right), nil
}

// turned simulates kernels that have the flips of a trial, and what else is asked for.
func (q *Question) turned(types []graph.Type, t *trial, kernels int, ask func(b *builder)) (*trial, error) {
	b := *t.b
	b.turned = t.turns
	ask(&b)
	o := &trial{Contract: t.Contract, b: &b}
	if err := q.simulate(types, o, kernels, false); err != nil {
		return nil, err
	}
	o.store(q.Output.Format, o.y, o.y)
	return o, nil
}

// less sets the numbers of a question to its output less what flips move.
func (q *Question) less(types []graph.Type, t *trial, less *Question) error {
	o, err := q.turned(types, t, 0, func(*builder) {})
	if err != nil {
		return err
	}
	for i, v := range q.Output.Data {
		if less.Output.Data[i] = v; o.y[i] != t.stored[i] {
			less.Output.Data[i] = v - (o.y[i] - t.stored[i])
		}
	}
	return nil
}

// choose returns the flips that explain an output's errors, one after another: each must say more than it is unlikely.
func (t *trial) choose(f fp16.Format, out []float64, flips []flip, moved [][]float64) (chosen []flip) {
	left := make([]float64, len(out))
	for i, v := range out {
		left[i] = v - t.stored[i]
	}
	for {
		best, most := -1, 0.0
		for k, d := range moved {
			gain := -float64(flips[k].far * flips[k].far)
			for i, x := range d {
				if x != 0 && x-x == 0 && left[i]-left[i] == 0 {
					gain += x * (float64(2*left[i]) - x) / t.quantum(f, i)
				}
			}
			if gain > most && d != nil {
				best, most = k, gain
			}
		}
		if best < 0 {
			return chosen
		}
		chosen = append(chosen, flips[best])
		for i, x := range moved[best] {
			left[i] -= x
		}
		moved[best] = nil
	}
}
