package judge

import (
	"math"

	"github.com/refrun/refrun/graph"
)

// date finds the evaluation at which the cause begins. Before the one at which it was found there may be others that
// have it, and in which it shows by its name alone: as long as it is more likely there, by as much as it takes to be
// found, than that it is not.
func (s *search) date() error {
	c := s.j.Cause
	if c == nil || s.made == nil {
		return nil
	}
	amount := float64(1)
	if s.any {
		amount = c.Amount
	}
	found, sum, most := c.First, float64(0), float64(0)
	for i := c.First - s.series(); i >= 0 && i >= c.First-mostDated*s.series(); i -= s.series() {
		p, err := s.probe(i, func(q *Question, types []graph.Type) (*trial, error) {
			return q.tryBetween(types, s.j.Contract, s.j.of.scale(i))
		})
		if err != nil {
			return err
		}
		faulty, err := s.made(&p)
		if err != nil {
			return err
		}
		if len(faulty) != len(p.t.y) {
			break
		}
		a, power := p.q.amount(p.t, p.w, faulty, p.q.Output.Data)
		sum += power * power * amount * (2*a - amount)
		if sum > most+s.limit {
			most, found = sum, i
		}
		if sum < most-s.limit {
			break
		}
	}
	c.First = found
	return nil
}

// onset is the evaluation from which on a fault explains the most.
func (s *search) onset(any bool) (from int) {
	best, ed, dd := math.Inf(-1), 0.0, 0.0
	for k := len(s.at) - 1; k >= 0; k-- {
		ed, dd = ed+s.at[k].ed, dd+s.at[k].dd
		gain := 2*ed - dd
		if any && dd > 0 {
			gain = ed * ed / dd
		}
		if gain > best && s.at[k].dd > 0 {
			best, from = gain, k
		}
	}
	return from
}
