package rollout

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// pairSink is a sink that is told of two realizations at once, and holds what it is given to that.
type pairSink struct {
	t    *testing.T
	at   int // the first of the two
	x, p [2][]float64
	seen []int
}

func (s *pairSink) ahead(_, m int, x, prev [2][]float64) { s.at, s.x, s.p = m, x, prev }

func (s *pairSink) State(_, m int, x, prev []float64) error {
	s.seen = append(s.seen, m)
	if k := m - s.at; k >= 0 && k < 2 {
		if !slices.Equal(x, s.x[k]) || !slices.Equal(prev, s.p[k]) {
			s.t.Errorf("realization %d: %v and %v, told of %v and %v", m, x, prev, s.x[k], s.p[k])
		}
		return nil
	}
	if m != 14 { // the last, which has none beside it
		s.t.Errorf("realization %d was not told of", m)
	}
	return nil
}

// TestAhead: realizations come in pairs, under the numbers that their states have.
func TestAhead(t *testing.T) {
	x, prev := tensor.New(fp16.Float32, 5, 1, 1, 2), tensor.New(fp16.Float32, 5, 1, 1, 2)
	for i := range x.Data {
		x.Data[i], prev.Data[i] = float64(i), -float64(i)
	}
	s := &pairSink{t: t, at: -2}
	if err := (emission{t: 3, lo: 10, x: x, prev: prev}).to([]Sink{s}); err != nil ||
		!slices.Equal(s.seen, []int{10, 11, 12, 13, 14}) {
		t.Errorf("%v, %v", s.seen, err)
	}
}
