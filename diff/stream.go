package diff

import "github.com/refrun/refrun/fp16"

// Stream is an array that need not be in memory.
type Stream interface {
	// Read sets v to the elements from index at on, counted in row-major order.
	Read(v []float64, at int) error
}

// block is of how many elements streams are read at a time.
const block = 1 << 16

// Trajectory is a shape [M,T,C,H,W]: M realizations, T steps, CHW = C*H*W numbers
// each. T is 0 for an array that is none.
type Trajectory struct{ M, T, CHW int }

// CompareStreams is [Compare] of two arrays of n elements, and [PerStep] if they are
// a trajectory: the same figures to the bit, in memory for one block of each array and
// for the figures of T steps. Std needs the reference three times, so what is larger
// than memory is read that often, and once more to be compared.
func CompareStreams(got, want Stream, n int, t Trajectory, f fp16.Format) (all Diff, perStep []Diff, err error) {
	if t.T > 0 && t.M*t.T*t.CHW != n {
		panic("diff: trajectory length does not match its shape")
	}
	g, w := make([]float64, min(n, block)), make([]float64, min(n, block))
	read := func(use func(at int, w []float64) error) error {
		for at := 0; at < n; at += block {
			w := w[:min(block, n-at)]
			if err := want.Read(w, at); err != nil {
				return err
			}
			if err := use(at, w); err != nil {
				return err
			}
		}
		return nil
	}

	var std deviation
	stds := make([]deviation, t.T)
	for pass := range stdPasses {
		if pass > 0 && std.greatest == 0 {
			break // nothing but zeros deviates by nothing
		}
		err := read(func(at int, w []float64) error {
			std.add(pass, w)
			t.cut(at, len(w), func(step, lo, hi int) { stds[step].add(pass, w[lo:hi]) })
			return nil
		})
		if err != nil {
			return Diff{}, nil, err
		}
	}

	whole, steps := NewAccumulator(f, std.std()), make([]*Accumulator, t.T)
	for s := range steps {
		steps[s] = NewAccumulator(f, stds[s].std())
	}
	err = read(func(at int, w []float64) error {
		g := g[:len(w)]
		if err := got.Read(g, at); err != nil {
			return err
		}
		whole.Add(g, w)
		t.cut(at, len(w), func(step, lo, hi int) { steps[step].Add(g[lo:hi], w[lo:hi]) })
		return nil
	})
	if err != nil {
		return Diff{}, nil, err
	}
	for _, s := range steps {
		perStep = append(perStep, s.Diff())
	}
	return whole.Diff(), perStep, nil
}

// cut calls use for each part of the n elements from at on that lies in one state:
// elements at+lo to at+hi-1 are of that step.
func (t Trajectory) cut(at, n int, use func(step, lo, hi int)) {
	if t.T == 0 {
		return
	}
	for lo := 0; lo < n; {
		i := at + lo
		hi := min(n, lo+t.CHW-i%t.CHW)
		use(i/t.CHW%t.T, lo, hi)
		lo = hi
	}
}
