package judge

import (
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// with judges all pieces under the contract that was found, or as many as there is time for, and returns the rows of a
// sample that it came to. If they fail where the first did not, the worst of them is searched: for another contract,
// under which all are judged once more, or for faults.
func (t *trial) with(all []Question) (_ *trial, judged []int, _ error) {
	if all == nil {
		return t, nil, nil
	}
	j, err := underOne(all, t.Contract)
	if err == nil && t.passes() && !j.passes() {
		j.worst.Brief = j.worst.Brief || j.worst.late()
		var p *trial
		if p, err = j.worst.search(); err != nil {
			return nil, nil, err
		}
		if p.passes() && !p.equal(t.Contract) {
			if j, err = underOne(all, p.Contract); err != nil {
				return nil, nil, err
			}
			t = p
		}
		if !j.passes() {
			p.Contract, t = t.Contract, p
		}
	}
	if err != nil {
		return nil, nil, err
	}
	t.tally, t.ways, t.excess, t.region = j.tally, j.ways, j.excess, j.region
	return t, j.rows, nil
}

// joint is what all pieces come to under one contract.
type joint struct {
	trial
	rows  []int // of a sample, which were judged
	worst *Question
}

// underOne judges all pieces under a contract.
func underOne(all []Question, c Contract) (*joint, error) {
	trials, failed := make([]*trial, len(all)), make([]error, len(all))
	par.For(len(all), func(i int) {
		if i > 0 && all[i].late() {
			return
		}
		types, err := all[i].types()
		var p *trial
		if err == nil {
			p, err = all[i].try(types, c, false)
		}
		if failed[i] = err; err == nil { // what was counted is all that is kept
			trials[i] = &trial{tally: p.tally, ways: p.ways, excess: p.excess}
		}
	})
	j := &joint{trial: trial{ways: ways{}}}
	most := -1.0
	for i, p := range trials {
		if failed[i] != nil {
			return nil, failed[i]
		}
		if p == nil {
			continue
		}
		if w := &all[i]; w.at != nil {
			row := tensor.Size(w.whole[1:])
			j.rows = append(j.rows, w.at[w.offset/row:w.offset/row+w.Output.Shape[0]]...)
		}
		j.tally.add(&p.tally)
		j.ways.add(p.ways)
		if bad := float64(p.violations) + p.excess; bad > most {
			j.worst, most = &all[i], bad
		}
	}
	j.ways[everywhere] = j.everywhere()
	j.excess, j.region = j.ways.excess()
	return j, nil
}
