package sample

import "math/bits"

// sobol is a Sobol sequence: coordinate d of point i is the sum modulo 2 of the direction
// numbers v[d][l] over the bits l of i's Gray code, and of a shift.
type sobol struct {
	checked
	v     [][]uint64
	shift []uint64
	scale float64 // 2^-bits
}

func newSobol(of checked, c Config) *sobol {
	n := c.Bits
	if n == 0 {
		n = 30
	}
	s := &sobol{checked: of, shift: make([]uint64, c.Dims), scale: 1}
	for range n {
		s.scale /= 2
	}
	for d := range c.Dims {
		s.v = append(s.v, directionsOf(d, n))
	}
	if c.Scramble {
		s.scramble(newPCG(c.Seed, c.Legacy), n)
	}
	return s
}

// At implements [Sampler].
func (s *sobol) At(i int, x []float64) {
	s.check(i, x)
	for d := range x {
		n := s.shift[d]
		for g := uint64(i ^ i>>1); g != 0; g &= g - 1 {
			n ^= s.v[d][bits.TrailingZeros64(g)]
		}
		x[d] = min(float64(n)*s.scale, 1-0x1p-53) // of 64 bits the largest would be 1
	}
}

// directionsOf returns the direction numbers of a dimension, each of n bits. Those of
// dimension d > 0 follow from the first few by the recurrence of its polynomial
// (P. Bratley, B. Fox, "Algorithm 659", TOMS 14, 1988).
func directionsOf(d, n int) []uint64 {
	v := make([]uint64, n)
	if d == 0 {
		for j := range v {
			v[j] = 1
		}
	} else {
		row := directions[d-1]
		s := len(row.first)
		for j := range v {
			if j < s {
				v[j] = uint64(row.first[j])
				continue
			}
			v[j] = v[j-s]
			for k := range s {
				if row.polynomial>>(s-1-k)&1 == 1 {
					v[j] ^= v[j-k-1] << (k + 1)
				}
			}
		}
	}
	for j := range v {
		v[j] <<= n - 1 - j
	}
	return v
}

// scramble does J. Matousek's linear scramble and digital shift with the draws of scipy:
// first the bits of the shifts, then a lower triangular matrix of bits for each
// dimension, of which all is drawn.
func (s *sobol) scramble(r *pcg, n int) {
	for d := range s.shift {
		for i := range n {
			s.shift[d] |= r.bit() << i
		}
	}
	for d := range s.v {
		rows := make([]uint64, n) // of the matrix: its column c is bit n-1-c
		for p := range rows {
			for c := range n {
				b := r.bit()
				switch {
				case c == p:
					b = 1
				case c > p:
					b = 0
				}
				rows[p] |= b << (n - 1 - c)
			}
		}
		for j, v := range s.v[d] {
			to := uint64(0)
			for p, row := range rows {
				to |= uint64(bits.OnesCount64(row&v)&1) << (n - 1 - p)
			}
			s.v[d][j] = to
		}
	}
}
