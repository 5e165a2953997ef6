package judge

import "github.com/refrun/refrun/graph"

// Some errors are one number for many results, and a small part of what each of these is off by. An error of a norm's
// 1/deviation is a factor of its group, where errors of the mean are larger. And a factor of all results hides where
// each addition is rounded to a half type, but is no error of such a kernel, which is simulated rounding by rounding.

// scaled are groups of results, and where they go if each group is twice what it is; nil where nothing is said of them.
type scaled struct {
	of     func(i int) int
	n      int
	double []float64
	name   string
}

// sharing returns those of a trial. Of sums that are claimed to be kept in a half type it says nothing: where terms
// have one sign these are off by a factor themselves, and simulated ones are not.
func (q *Question) sharing(types []graph.Type, t *trial) (*scaled, error) {
	if t.Atomic != "" {
		s := &scaled{of: func(int) int { return 0 }, n: 1, name: "the scale of all results"}
		for _, y := range t.y {
			s.double = append(s.double, 2*y)
		}
		return s, nil
	}
	if len(t.round) > 0 { // whose flips are not those of a sum
		return nil, nil
	}
	of, n, _, double, err := q.scaling(types, t)
	if double == nil || err != nil {
		return nil, err
	}
	return &scaled{of, n, double, "the scales of groups"}, nil
}

// scales compares what groups are off by together with those of simulated right kernels.
func (q *Question) scales(types []graph.Type, t *trial) error {
	s, err := q.sharing(types, t)
	if s == nil || err != nil {
		return err
	}
	w := t.weights(q.Output.Format)
	expected, x, kind := make([]float64, s.n), make([][]float64, len(t.right)), make([][]float64, t.kinds())
	for k := range kind {
		kind[k] = make([]float64, s.n)
	}
	for m, k := range t.right {
		squares := s.along(t.y, k, w)
		x[m] = []float64{sumAll(squares)}
		for g, v := range squares {
			kind[m%len(kind)][g] += v / float64(t.ofKind(m%len(kind)))
		}
	}
	for g := range expected {
		for _, mean := range kind {
			expected[g] = max(expected[g], mean[g])
		}
	}
	all, variance := sumAll(expected), 0.0
	for _, v := range expected {
		v = (v + all/float64(s.n)) / 2 // half what it is of all groups: of one it is known from a few kernels
		variance += 2 * v * v
	}
	if all > 0 {
		e, v := []float64{all}, []float64{variance}
		l := sumsLaw(usualSlack, simulatedSums{x, e, v}, e, v, []float64{0})(0)
		of := sumAll(s.along(t.y, q.Output.Data, w))
		t.ways["scale"] = farthest{law: l, of: of, at: s.name, chance: l.tail(of), count: 1}
	}
	return nil
}

// along is how far each group lies along its factor, in squares of a deviation.
func (s *scaled) along(y, out, w []float64) []float64 {
	ed, dd := make([]float64, s.n), make([]float64, s.n)
	for i, y := range y {
		if e, d := out[i]-y, s.double[i]-y; e-e == 0 && d-d == 0 {
			ed[s.of(i)] += float64(e*d) * w[i]
			dd[s.of(i)] += float64(d*d) * w[i]
		}
	}
	for k, v := range ed {
		if ed[k] = 0; dd[k] > 0 {
			ed[k] = v * v / dd[k]
		}
	}
	return ed
}

func sumAll(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}
