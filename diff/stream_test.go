package diff

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// stored is a [Stream] of numbers in memory that fails from some element on.
type stored struct {
	v    []float64
	end  int
	read int // elements that were read
}

var errStored = errors.New("no more")

func (s *stored) Read(v []float64, at int) error {
	if at+len(v) > s.end {
		return errStored
	}
	s.read += copy(v, s.v[at:])
	return nil
}

// TestCompareStreams: figures of what is read block by block are those of arrays in
// memory, to the bit, wherever states end within blocks.
func TestCompareStreams(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][3]int{{1, 1, 1}, {2, 3, 5}, {3, 2, 1 << 16}, {2, 5, 30011}, {1, 2, 100003}, {7, 11, 1009}} {
		m, steps, chw := s[0], s[1], s[2]
		n := m * steps * chw
		got, want := make([]float64, n), make([]float64, n)
		for i := range want {
			want[i] = math.Ldexp(r.NormFloat64(), r.IntN(40)-20) + 1e3
			got[i] = want[i] + math.Ldexp(r.NormFloat64(), -r.IntN(60))
			switch r.IntN(5000) {
			case 0:
				got[i] = math.NaN()
			case 1:
				want[i] = math.Inf(1)
			case 2:
				got[i], want[i] = math.NaN(), math.NaN()
			case 3:
				want[i] *= 1e300
			}
		}
		g, w := &stored{v: got, end: n}, &stored{v: want, end: n}
		all, perStep, err := CompareStreams(g, w, n, Trajectory{m, steps, chw}, fp16.Float32)
		if err != nil {
			t.Fatal(err)
		}
		if is := Compare(got, want, fp16.Float32); !reflect.DeepEqual(all, is) {
			t.Errorf("%v: %+v, want %+v", s, all, is)
		}
		if is := PerStep(got, want, m, steps, chw, fp16.Float32); !reflect.DeepEqual(perStep, is) {
			t.Errorf("%v step by step: %+v, want %+v", s, perStep, is)
		}
		if g.read != n || w.read != 4*n {
			t.Errorf("%v: %d and %d elements read, want %d and %d", s, g.read, w.read, n, 4*n)
		}
		all, perStep, err = CompareStreams(g, w, n, Trajectory{}, fp16.Float32)
		if err != nil || perStep != nil || !reflect.DeepEqual(all, Compare(got, want, fp16.Float32)) {
			t.Errorf("%v without steps: %+v, %v, %v", s, all, perStep, err)
		}
		for _, side := range []*stored{g, w} {
			side.end--
			if _, _, err := CompareStreams(g, w, n, Trajectory{m, steps, chw}, fp16.Float32); err != errStored {
				t.Errorf("%v: error %v, want that of reading", s, err)
			}
			side.end++
		}
	}
}
