package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/refrun/refrun/graph"
)

// tf32 are contracts of a claim of TF32 in all ways to round operands, of all products or of some operations' alone.
// Those that explain the output best are tried, the best first.
func (q *Question) tf32(types []graph.Type, claimed []Contract) (all []Contract, err error) {
	few, off := q.few(types), map[Form]float64{}
	for _, way := range q.operandWays() {
		for _, c := range claimed {
			if wide := way == "" || strings.HasPrefix(way, "3x"); wide && (c.BlockKeys > 0 || c.Scaled != "") {
				continue // which change next to nothing
			}
			c.Operands = way
			y, err := few.made(c)
			if err != nil {
				return nil, err
			}
			off[c.Form], all = few.distance(y).Mean, append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Contract) int { return cmp.Compare(off[a.Form], off[b.Form]) })
	return all[:min(len(all), mostTried)], nil
}

// operandWays are [tf32Ways], and those that leave out some of the operations that multiply.
func (q *Question) operandWays() (ways []string) {
	names := q.multiplying()
	ways = slices.Clone(tf32Ways)
	if slices.Contains(names, scores) {
		ways = append(ways, q.attentionInParts())
	}
	for of := 1; of < 1<<len(names); of++ {
		left := set(names, of)
		if !slices.ContainsFunc(besides(names, left), func(n string) bool { return n != probabilities }) {
			continue // all are
		}
		if slices.Contains(left, weighted) && slices.Contains(left, probabilities) {
			continue // which are a part of it
		}
		for _, way := range tf32Ways {
			if way == "" {
				continue // which leaves out all of them
			}
			for _, name := range left {
				way = but(way, name)
			}
			ways = append(ways, way)
		}
	}
	return ways
}

// set are the names whose bits are set.
func set(names []string, bits int) (of []string) {
	for k, name := range names {
		if bits>>k&1 == 1 {
			of = append(of, name)
		}
	}
	return of
}

// multiplying are the names of operations that have products with operands that devices round, and of probabilities.
func (q *Question) multiplying() (names []string) {
	for i := range q.Graph.Nodes {
		op := q.Graph.Nodes[i].Op
		if products[op.Name()] {
			names = append(names, op.Name())
		} else if _, attends := op.(graph.Attention); attends {
			names = append(names, scores, weighted, probabilities)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
