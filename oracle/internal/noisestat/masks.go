package noisestat

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/facts"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// recovered is the name of a stream of masks that were read off a trajectory.
const recovered = "recovered"

// ReadMasks takes the masks of an unknown dropout from the trajectory itself:
// one factor per channel for thousands of pixels is a problem of least squares.
// With the masks known everything else can be checked as if they had been
// recorded; whether they are masks of the specified kind is tested later.
func ReadMasks(ev *evidence.Evidence, known *facts.Facts) ([]report.Finding, error) {
	e := facts.Begin(ev, known)
	m := NewModel(ev)
	if e.Stream != nil || m == nil || m.Kind != noise.Dropout {
		return nil, nil
	}
	s := e.States
	channels := len(m.W[0])
	if s.H*s.W*len(m.Rows) < 4*channels {
		e.Report.Notes = append(e.Report.Notes, "the dropout is unknown, and the states are too small to read its masks off them: nothing behind it was tested")
		return nil, nil
	}
	p := e.Machine.Nodes[m.Node].Noise.Scale
	k := &facts.Masks{Of: make([][]float64, s.M*(s.T-1)), Seen: make([][]bool, s.M*(s.T-1)), P: p}
	for t := 1; t < s.T; t++ {
		for batch := range e.Case.Rollout.EngineBatches() {
			st, err := e.StepOf(batch, t)
			if err != nil {
				return nil, err
			}
			once, err := e.Apply(&emulate.Device{Mode: e.Mode}, st.X, nil)
			if err != nil {
				return nil, err
			}
			rest := m.Without(ev, once, once.Out, once.Hidden())
			for r := st.Lo; r < st.Hi; r++ {
				mask, seen := make([]float64, channels), make([]bool, channels)
				factors, normal := m.solved(e.Case.Rollout, once.Hidden(), rest, st, r)
				for c, f := range factors {
					if 2*f.Value*(1-p) > 1 {
						mask[c] = 1
					}
					// Of 0 and 1/(1-p) it is one or the other, five deviations from the middle.
					seen[c] = f.deviation*(1-p) < 0.1
					if !seen[c] && f.alone*(1-p) < 0.1 && f.unexplained < 0.01 {
						e.Report.Notes = append(e.Report.Notes, "the dropout is unknown, and hidden channels are too much alike to read its masks off the states: nothing behind it was tested")
						return nil, nil
					}
				}
				if e.Case.Rollout.Normalization == "" { // of which a scale and an offset are unknown, too
					normal.refine(mask, p)
				}
				k.Of[r*(s.T-1)+t-1], k.Seen[r*(s.T-1)+t-1] = mask, seen
			}
		}
		e.Progress("masks", t, s.T-1)
	}
	known.Masks = k
	ev.Stream = rollout.NewStream(recovered, func(_, lo, hi, t int) (noise.Draws, error) {
		d := &emulate.Draws{Kinds: []noise.Kind{noise.Bernoulli}, Data: [][]float64{nil}}
		for r := lo; r < hi; r++ {
			d.Data[0] = append(d.Data[0], k.Of[r*(s.T-1)+t-1]...)
		}
		return d, nil
	})
	e.Report.Noise.Stream = recovered
	return nil, nil
}

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

// refine makes a mask one of those with factors 0 and 1/(1-p) that no other channel, and no two, would bring nearer to the
// states. What channels have much alike, rounded, may give factors that no deviation makes one expect.
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
func (m *Model) solved(c rollout.Config, part *tensor.Tensor, rest []float64, st *evidence.BatchStep, r int) ([]factor, normal) {
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
	f := make([]factor, channels)
	for ch := range f {
		own := a[ch*unknown+ch]
		f[ch] = factor{x[ch], math.Sqrt(left * inverse[ch]), math.Sqrt(left / own), unexplained}
		if !measure.Finite(x[ch]) || own == 0 || math.IsInf(inverse[ch], 1) {
			f[ch].Value, f[ch].deviation = 1, math.Inf(1)
		}
	}
	return f, normal{a, rhs}
}

// sparing returns of how many pixels one is taken for equations of so many unknowns: of all, unless that takes long, and of all
// columns of an image w wide. A channel may show in one column alone.
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
func (m *Model) Without(e *evidence.Evidence, p *evidence.Application, out *tensor.Tensor, hidden *tensor.Tensor) []float64 {
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

// maskTests tests masks that were read off: how many channels are dropped, and
// whether realizations and steps drop the same ones. Two independent masks agree
// in a channel with probability p^2 + (1-p)^2.
func (e *gate) maskTests() {
	k, s := e.Masks, e.States
	at := func(m, t int) ([]float64, []bool) { return k.Of[m*(s.T-1)+t], k.Seen[m*(s.T-1)+t] }
	dropped, n := 0.0, 0.0
	for i, v := range k.Of {
		for c, x := range v {
			if k.Seen[i][c] {
				dropped += 1 - x
				n++
			}
		}
	}
	if n == 0 {
		return
	}
	var kinds []alike
	for d := 1; d < s.M; d++ {
		kinds = append(kinds, alike{d, 0})
	}
	for d := 1; d < min(s.T-1, 33); d++ {
		kinds = append(kinds, alike{0, d})
	}
	for d := 1; d < min(s.T-1, 4) && s.M > 1; d++ {
		kinds = append(kinds, alike{1, d}, alike{-1, d})
	}
	limit := measure.ZLimit(float64(1 + len(kinds)*s.T))
	test := func(name string, value, want, z float64) bool {
		ok := math.Abs(z) <= limit
		e.Report.Noise.Tests = append(e.Report.Noise.Tests, report.NoiseTest{Name: name, Value: diff.Number(value), Want: diff.Number(want), Z: diff.Number(z), OK: ok})
		return ok
	}
	found := func(step int, id, text string, z float64) {
		e.Find(report.Finding{Verdict: report.FailRNG, Gate: "noise", Step: step, Realization: -1, ID: id, Excess: diff.Number(math.Abs(z) / limit), Text: text})
	}
	rate := dropped / n
	z := binomialZ(dropped, n, k.P)
	if !test("rate of dropout", rate, k.P, z) {
		name := "noise.dropout-rate-wrong"
		if math.Abs(rate-(1-k.P)) < 0.1 && math.Abs(rate-k.P) > 0.1 {
			name = "noise.dropout-with-p-and-1-p-swapped"
		}
		found(-1, name, fmt.Sprintf("%.3g of the channels are dropped, where %.3g should be (%.1f standard deviations)", rate, k.P, math.Abs(z)), z)
		return
	}
	chance := k.P*k.P + (1-k.P)*(1-k.P)
	var most alike
	mostZ, first, share, hidden := 0.0, -1, 0.0, 0.0
	for _, a := range kinds {
		var agree, count float64
		begins := -1
		for t := a.dt; t < s.T-1; t++ {
			var one, of float64
			for m := max(0, -a.dm); m < min(s.M, s.M-a.dm); m++ {
				_, lo, _ := evidence.BatchOf(e.Case.Rollout, m)
				if _, next, _ := evidence.BatchOf(e.Case.Rollout, m+a.dm); a.dm != 0 && next != lo && lo+t == next+t-a.dt {
					continue // seeds that engine batches share by design
				}
				x, seen := at(m, t)
				y, other := at(m+a.dm, t-a.dt)
				for c := range x {
					if !seen[c] || !other[c] {
						continue
					}
					if x[c] == y[c] {
						one++
					}
					of++
				}
			}
			if of > 0 && begins < 0 && binomialZ(one, of, chance) > limit {
				begins = t + 1
			}
			agree += one
			count += of
		}
		if count == 0 {
			continue
		}
		// Masks that are the same since two thirds of the run: all agree there.
		if seen := binomialZ(count*(chance+(1-chance)/3), count, chance); seen < limit {
			hidden = max(hidden, limit/seen)
		}
		z := binomialZ(agree, count, chance)
		if begins > 0 {
			z = max(z, limit+1e-9)
		}
		if z > mostZ {
			most, mostZ, first, share = a, z, begins, agree/count
		}
	}
	if hidden > 1 {
		e.Report.Blind = append(e.Report.Blind, report.Blind{Name: "masks that some realizations or steps have in common", Least: diff.Number(hidden)})
	}
	if !test("masks in common", share, chance, mostZ) {
		found(first, most.name(1), fmt.Sprintf("%s: %.3g of the channels have the same mask, where %.3g should (%.1f standard deviations)", most, share, chance, mostZ), mostZ)
	}
}

// binomialZ returns the normal deviate of k of n with probability p, whose tail
// is Chernoff's bound: sqrt(2 n KL(k/n | p)), of the sign of k/n - p.
func binomialZ(k, n, p float64) float64 {
	q := k / n
	part := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return a * (elem.Log(a) - elem.Log(b))
	}
	d := 2 * n * (part(q, p) + part(1-q, 1-p))
	return math.Copysign(math.Sqrt(max(d, 0)), q-p)
}
