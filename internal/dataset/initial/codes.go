package initial

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// mixed is a Gaussian random field or structures, one as often as the other.
func mixed(f *field, a args) error {
	if f.uniform() < 0.5 {
		return f.grf(a.n["length_scale"], a.n["variance"])
	}
	return structured(f, args{n: a.n, s: map[string]string{"structure": "any"}})
}

// entropy is a random field of variance 1/2 and normals times e^h, whose entropy is h more
// than theirs: h rises along x, or is another number in each patch of so many pixels.
func entropy(f *field, a args) error {
	lo, hi, patch := a.n["min_entropy"], a.n["max_entropy"], int(a.n["patch_size"])
	side := (f.n + patch - 1) / patch
	levels := make([]float64, side*side)
	for i := range levels {
		levels[i] = f.between(lo, max(lo, hi))
	}
	if err := f.grf(.2, .5); err != nil {
		return err
	}
	for i := range f.x {
		x, y := i%f.n, i/f.n%f.n
		h := levels[y/patch*side+x/patch]
		if a.s["pattern"] == "gradient" {
			h = lo + float64((hi-lo)*float64(x)/f.size)
		}
		v, err := f.normal()
		if err != nil {
			return err
		}
		f.x[i] += float64(v * elem.Exp(h))
	}
	return nil
}

// genes are, one in each channel, a random field that all share and a pattern of its own,
// weighted so that the shared part has the share of the variance that is asked for, and
// normals of a tenth; then each is taken to its range.
func genes(f *field, a args) error {
	share, lo, hi := a.n["correlation"], a.n["min_expression"], a.n["max_expression"]
	common := newField(0, 1, f.n, make([]float64, f.n*f.n))
	common.draws = f.draws
	if err := common.grf(.1, 1); err != nil {
		return err
	}
	own, all := math.Sqrt(1-share), math.Sqrt(share)
	area := f.n * f.n
	for c := range f.c {
		kind, angle, cx, cy, cycles := f.pick(5), f.between(0, tau), f.place(), f.place(), f.between(2, 6)
		k := cycles * tau / f.size
		f.each(c, c+1, func(x, y float64) float64 {
			switch kind {
			case 0: // a gradient
				return 2 * float64(own*turned(x/f.size-.5, y/f.size-.5, angle))
			case 1: // spots
				return own * elem.Cos(k*x) * elem.Cos(k*y)
			case 2: // stripes
				return own * elem.Cos(k*turned(x, y, angle))
			case 3: // around a place
				return own * gauss(sq(x-cx)+sq(y-cy), f.size/5)
			}
			return 0 // the same everywhere
		})
		part := f.x[c*area : (c+1)*area]
		for i := range part {
			v, err := f.normal()
			if err != nil {
				return err
			}
			part[i] += float64(all*common.x[i]) + float64(.1*v)
		}
		one := &field{x: part}
		one.rescale()
		for i, v := range part {
			part[i] = lo + float64((hi-lo)*v)
		}
	}
	return nil
}

// network is a net of nodes with random weights, of which five steps are taken from random
// states, s <- (1-decay) s + tanh(W s), a state for each channel; each node is a blob of a
// tenth of the side. In a scale-free net a node is joined to two that
// are the likelier the more they are joined to others, in a random one to any with a
// probability.
func network(f *field, a args) error {
	n := int(a.n["num_nodes"])
	w := make([]float64, n*n)
	join := func(i, j int) error {
		for _, at := range []int{i*n + j, j*n + i} {
			v, err := f.normal()
			if err != nil {
				return err
			}
			w[at] = v
		}
		return nil
	}
	ends := []int{0} // a node for each of its joints, and once more
	for i := 1; i < n; i++ {
		ends = append(ends, i)
		for j := range i {
			u, e := f.uniform(), ends[f.pick(len(ends))]
			if a.s["topology"] == "random" && u < a.n["probability"] {
				if err := join(i, j); err != nil {
					return err
				}
			}
			if a.s["topology"] == "scale_free" && j < 2 && e != i {
				if err := join(i, e); err != nil {
					return err
				}
				ends = append(ends, i, e)
			}
		}
	}
	return f.activity(n, w, a.n["decay"])
}

// activity lets n nodes at random places act on each other by the weights w, and sets each channel to what they
// come to.
func (f *field) activity(n int, w []float64, decay float64) error {
	at := make([][2]float64, n)
	for i := range at {
		at[i] = [2]float64{f.place(), f.place()}
	}
	for c := range f.c {
		s, next := make([]float64, n), make([]float64, n)
		for i := range s {
			v, err := f.normal()
			if err != nil {
				return err
			}
			s[i] = v
		}
		for range 5 {
			for i := range next {
				sum := 0.0
				for j, v := range s {
					sum += float64(w[i*n+j] * v)
				}
				next[i] = float64((1-decay)*s[i]) + elem.Tanh(sum)
			}
			s, next = next, s
		}
		f.each(c, c+1, func(x, y float64) float64 {
			sum := 0.0
			for i, v := range s {
				sum += float64(v * gauss(sq(x-at[i][0])+sq(y-at[i][1]), f.size/10))
			}
			return sum
		})
	}
	f.normalize()
	return nil
}

// code is the word of a repetition code, or of one with a bit of parity for each three, whose
// bits are blocks of 1 and -1, row by row, some of which are turned over; each channel has
// a word of its own.
func code(f *field, a args) error {
	block := int(a.n["block_size"])
	side := (f.n + block - 1) / block
	repeat := max(int(math.RoundToEven(1/a.n["rate"])), 1)
	for c := range f.c {
		bits := make([]float64, side*side)
		product := 1.0
		for i := range bits {
			u := f.uniform()
			v := math.Copysign(1, u-0.5)
			if a.s["code"] == "repetition" && i%repeat != 0 {
				v = bits[i-i%repeat]
			}
			if a.s["code"] == "parity" {
				if i%4 == 3 {
					v = product
				}
				product *= v
				if i%4 == 3 {
					product = 1
				}
			}
			bits[i] = v
		}
		for i := range bits {
			if f.uniform() < a.n["error_rate"] {
				bits[i] = -bits[i]
			}
		}
		f.each(c, c+1, func(x, y float64) float64 { return bits[int(y)/block*side+int(x)/block] })
	}
	return nil
}
