package noisestat

import (
	"math"

	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// factor is what a hidden channel is multiplied by, as the device's step has it.
type factor struct {
	Value     float64
	deviation float64 // expected of the value, infinite where the channel does not show
	alone     float64 // the same, were the other channels' factors known

	// unexplained is the share of what the hidden channels give the state that no factors
	// explain: next to nothing, unless this is no dropout of channels.
	unexplained float64
}

// Shown returns the factor, NaN where the channel does not show.
func (f factor) Shown() float64 {
	if math.IsInf(f.deviation, 1) {
		return math.NaN()
	}
	return f.Value
}

// Factors returns by how much each hidden channel of realization r is multiplied
// in the device's step: the f_c for which
//
//	state = rest + sum_c b W_c f_c part_c
//
// comes nearest to it; part is what the channels hold, rest the state without
// them. Where the state was normalized, its scale and offset are unknown too, and
// where it was clamped, those numbers are left out. A channel that does not show
// has factor 1. What is left of the state gives the deviations, by the theory of
// least squares: those of A^-1, and of 1/A_cc.
func (m *Model) Factors(c rollout.Config, part *tensor.Tensor, rest []float64, st *evidence.BatchStep, r int) []factor {
	f, _ := m.solved(c, part, rest, st, r)
	return f
}

// normal are the normal equations A f = b of factors f, A by its lower triangle.
type normal struct{ a, b []float64 }

// refine makes a mask one of those with factors 0 and 1/(1-p) that no other channel, and no two, would bring nearer to
// the states. What channels have much alike, rounded, may give factors that no deviation makes one expect.
func (n normal) refine(mask []float64, p float64) {
	count, scale := len(n.b), 1/(1-p)
	at := func(i, j int) float64 { return n.a[max(i, j)*count+min(i, j)] }
	slope := make([]float64, len(mask)) // half the derivative of the squared residual
	for i := range mask {
		slope[i] = -n.b[i]
		for j, kept := range mask {
			slope[i] += float64(at(i, j)*kept) * scale
		}
	}
	step := func(i int) float64 { return (1 - 2*mask[i]) * scale }
	for range mask {
		best, first, second := 0.0, -1, -1
		for i := range mask {
			d := step(i)
			one := 2*float64(d*slope[i]) + float64(d*d)*at(i, i)
			if one < best {
				best, first, second = one, i, -1
			}
			for j := range i {
				w := step(j)
				if two := one + 2*float64(w*slope[j]) + float64(w*w)*at(j, j) + 2*float64(d*w)*at(i, j); two < best {
					best, first, second = two, i, j
				}
			}
		}
		if first < 0 {
			return
		}
		for _, i := range []int{first, second} {
			if i >= 0 {
				d := step(i)
				for j := range slope {
					slope[j] += float64(at(i, j) * d)
				}
				mask[i] = 1 - mask[i]
			}
		}
	}
}

// solved is Factors, and the equations.
func (m *Model) solved(
	c rollout.Config, part *tensor.Tensor, rest []float64, st *evidence.BatchStep, r int,
) ([]factor, normal) {
	channels, hw, outs := part.C(), part.H()*part.W(), len(m.W)
	n := r - st.Lo
	unknown := channels
	if c.Normalization != "" {
		unknown += 2
	}
	a := make([]float64, unknown*unknown)
	rhs := make([]float64, unknown)
	row := make([]float64, unknown)
	every := sparing(hw*outs, unknown, part.W())
	equations := func(use func(y float64)) {
		for at := 0; at < hw; at += every {
			for o := range outs {
				i := (n*outs+o)*hw + at
				got := st.Got[i]
				if !measure.Finite(got) || c.Clamp != nil && (got <= c.Clamp[0] || got >= c.Clamp[1]) {
					continue
				}
				y := got - rest[i]
				if c.Normalization != "" {
					row[channels], row[channels+1] = -got, -1
					y = -rest[i]
				}
				for ch := range channels {
					row[ch] = m.W[o][ch] * part.Data[(n*channels+ch)*hw+at]
				}
				use(y)
			}
		}
	}
	equations(func(y float64) {
		for j, v := range row {
			rhs[j] += float64(v * y)
			for l := range j + 1 {
				a[j*unknown+l] += float64(v * row[l])
			}
		}
	})
	x, inverse := solvePositive(a, rhs)
	left, whole, degrees := 0.0, 0.0, -float64(unknown)
	equations(func(y float64) {
		whole += float64(y * y)
		for j, v := range row {
			y -= float64(v * x[j])
		}
		left += float64(y * y)
		degrees++
	})
	unexplained := left / whole
	left /= max(degrees, 1)
	return factorsOf(channels, x, inverse, a, left, unexplained), normal{a, rhs}
}

// factorsOf are the factors x of the channels, with the deviations that the errors left over give them.
func factorsOf(channels int, x, inverse, a []float64, left, unexplained float64) []factor {
	f, unknown := make([]factor, channels), len(x)
	for ch := range f {
		own := a[ch*unknown+ch]
		f[ch] = factor{x[ch], math.Sqrt(left * inverse[ch]), math.Sqrt(left / own), unexplained}
		if !measure.Finite(x[ch]) || own == 0 || math.IsInf(inverse[ch], 1) {
			f[ch].Value, f[ch].deviation = 1, math.Inf(1)
		}
	}
	return f
}

// sparing returns of how many pixels one is taken for equations of so many unknowns: of all, unless that takes long,
// and of all columns of an image w wide. A channel may show in one column alone.
func sparing(all, unknown, w int) int {
	every := 1
	if all*unknown*unknown > mostEquations {
		every = max(1, all/(64*unknown))
	}
	for ; every > 1; every-- {
		a, b := every, w
		for b > 0 {
			a, b = b, a%b
		}
		if a == 1 {
			break
		}
	}
	return every
}

// mostEquations is the work, in multiplications, up to which all pixels are taken.
const mostEquations = 1 << 24

// Without returns the state before post-processing without what the hidden
// channels of an application give it.
func (m *Model) Without(
	e *evidence.Evidence, p *evidence.Application, out *tensor.Tensor, hidden *tensor.Tensor,
) []float64 {
	rest := e.Raw(p.D, p.X, out).Data
	hw, outs := hidden.H()*hidden.W(), len(m.W)
	for i := range rest {
		n, o, at := i/(outs*hw), i/hw%outs, i%hw
		for ch, w := range m.W[o] {
			rest[i] -= float64(w * hidden.Data[(n*hidden.C()+ch)*hw+at])
		}
	}
	return rest
}

// solvePositive returns the x with A x = b for a positive definite A, given by
// its lower triangle, and the diagonal of A^-1. A pivot below 1e-12 of the diagonal
// leaves its unknown at 0, and its place of the diagonal infinite.
func solvePositive(a, b []float64) (x, inverse []float64) {
	n := len(b)
	l := append([]float64(nil), a...)
	for i := range n {
		diagonal := l[i*n+i]
		for j := range i + 1 {
			s := l[i*n+j]
			for k := range j {
				s -= float64(l[i*n+k] * l[j*n+k])
			}
			switch {
			case i != j:
				l[i*n+j] = s / l[j*n+j]
			case s > 1e-12*diagonal:
				l[i*n+i] = math.Sqrt(s)
			default:
				l[i*n+i] = math.Inf(1)
			}
		}
	}
	forward := func(x []float64, from int) {
		for i := from; i < n; i++ {
			for j := from; j < i; j++ {
				x[i] -= float64(l[i*n+j] * x[j])
			}
			x[i] /= l[i*n+i]
		}
	}
	x = append([]float64(nil), b...)
	forward(x, 0)
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j < n; j++ {
			x[i] -= float64(l[j*n+i] * x[j])
		}
		x[i] /= l[i*n+i]
	}
	// With A = L L^T, A^-1_cc is the square of column c of L^-1.
	inverse = make([]float64, n)
	column := make([]float64, n)
	for c := range n {
		if math.IsInf(l[c*n+c], 1) {
			inverse[c] = math.Inf(1)
			continue
		}
		clear(column)
		column[c] = 1
		forward(column, c)
		for _, v := range column[c:] {
			inverse[c] += float64(v * v)
		}
	}
	return x, inverse
}
