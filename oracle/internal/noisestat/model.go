package noisestat

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// Model says how the noise of a hidden layer of C channels shows in a
// state. Behind it is one 1x1 convolution with weights W, so at every pixel
//
//	state = what it is without noise + b W (g * xi)
//
// with the policy's share b, independent xi of variance sigma^2, and g = 1, or
// the hidden numbers themselves where the noise multiplies them.
type Model struct {
	Node  int
	Kind  noise.Type
	sigma float64
	kappa float64     // excess kurtosis of xi; 0 for dropout
	W     [][]float64 // b W, [outputs][hidden]
	Rows  []int       // outputs whose noise is independent of those before: at most C
	// floor is the least variance multiplicative noise must have for a pixel to count:
	// where hidden numbers are near zero, roundings are all that there is.
	floor float64
	few   *scores // for Laplace draws, with fewer outputs than channels; else nil
}

// NewModel returns the model of the operator's noise; nil if it has none, or if
// anything but one 1x1 convolution follows it (and activations that do nothing).
func NewModel(e *evidence.Evidence) *Model {
	i := e.NoiseNode()
	nodes := e.Machine.Nodes
	end := len(nodes) - 1
	for end > 0 && nodes[end].Op == operator.OpAct && nodes[end].Act == act.Identity && nodes[end].In[0] == end-1 {
		end-- // which hands its input on
	}
	if i < 0 || i != end-1 {
		return nil
	}
	last := &nodes[i+1]
	if last.Op != operator.OpConv || len(last.In) != 1 || last.In[0] != i || last.Weight.Shape[2] != 1 ||
		last.Weight.Shape[3] != 1 || last.Geometry.Stride[0] > 1 {
		return nil
	}
	b := nodes[i].Noise
	m := &Model{Node: i, Kind: b.Type, sigma: math.Abs(fp16.Float32.Round(b.Scale))}
	switch b.Type {
	case noise.Laplace: // an exponential with a sign: variance 2, fourth moment 24
		m.sigma *= math.Sqrt2
		m.kappa = 3
	case noise.Dropout:
		p := m.sigma
		m.sigma = math.Sqrt(p / (1 - p))
	}
	s := last.Weight.Shape
	f, _, err := last.Formats(e.Mode, fp16.Float32)
	if err != nil {
		return nil
	}
	w := emulate.Operand(e.Mode, tensor.Of(fp16.Float64, last.Weight.Data, s[0], s[1], 1, 1), f).Data
	for o := range s[0] {
		m.W = append(m.W, measure.Scaled(w[o*s[1]:(o+1)*s[1]], e.OutputShare()))
	}
	m.Rows = independent(m.W)
	if !(m.sigma > 0) || !measure.Finite(m.sigma) || len(m.Rows) == 0 {
		return nil
	}
	return m
}

// independent returns the rows of w, in their order, that do not lie within a
// thousandth of their length in the span of those before (Gram-Schmidt).
func independent(w [][]float64) []int {
	var rows []int
	var basis [][]float64
	for o, row := range w {
		r := append([]float64(nil), row...)
		for _, b := range basis {
			c := measure.Dot(r, b)
			for i := range r {
				r[i] -= float64(c * b[i])
			}
		}
		if n := math.Sqrt(measure.Dot(r, r)); n > 1e-3*math.Sqrt(measure.Dot(row, row)) {
			rows, basis = append(rows, o), append(basis, measure.Scaled(r, 1/n))
		}
	}
	return rows
}

// whitener turns the residual of a pixel into numbers of variance 1 that do not
// depend on each other: z = L^-1 r, with L L^T the covariance of the noise and of
// rounding.
type whitener struct {
	k    int
	l    []float64 // [k,k], lower triangle
	v    []float64 // [hidden,k]: what xi of one channel and variance 1 makes of z
	sum  []float64 // [k]: what xi = 1 in all channels, in units of sigma, makes of z
	self float64   // sum over channels of |v|^4: the variance of |z|^2 is 2k + kappa times it
	quad float64   // sum over pairs of channels of (v.v')^4, see kurtosis
}

// whitener returns the whitener for hidden numbers g (nil for 1) and a variance
// of rounding per row; nil if the covariance is singular, or for numbers g that
// leave it below what roundings have. full asks for quad.
func (m *Model) whitener(g []float64, rounding []float64, full bool) *whitener {
	k, c := len(m.Rows), len(m.W[0])
	w := &whitener{k: k, l: make([]float64, k*k), v: make([]float64, c*k), sum: make([]float64, k)}
	for i, o := range m.Rows {
		for j := range c {
			v := m.W[o][j] * m.sigma
			if g != nil {
				v *= g[j]
			}
			w.v[j*k+i] = v
		}
	}
	for i := range k {
		for j := range i + 1 {
			sum := 0.0
			for ch := range c {
				sum += float64(w.v[ch*k+i] * w.v[ch*k+j])
			}
			for a := range j {
				sum -= float64(w.l[i*k+a] * w.l[j*k+a])
			}
			if i == j {
				if g != nil && !(sum > max(m.floor, rounding[i]/4)) || !(sum+rounding[i] > 0) {
					return nil
				}
				w.l[i*k+i] = math.Sqrt(sum + rounding[i])
			} else {
				w.l[i*k+j] = sum / w.l[j*k+j]
			}
		}
	}
	for ch := range c {
		v := w.v[ch*k : (ch+1)*k]
		w.solve(v)
		n := measure.Dot(v, v)
		w.self += float64(n * n)
		for i, x := range v {
			w.sum[i] += x
		}
	}
	if full {
		for a := range c {
			for b := range a + 1 {
				d := measure.Dot(w.v[a*k:(a+1)*k], w.v[b*k:(b+1)*k])
				d *= d
				d *= d
				if a != b {
					d *= 2
				}
				w.quad += d
			}
		}
	}
	return w
}

// solve replaces r by L^-1 r.
func (w *whitener) solve(r []float64) {
	for i := range r {
		s := r[i]
		for j := range i {
			s -= float64(w.l[i*w.k+j] * r[j])
		}
		r[i] = s / w.l[i*w.k+i]
	}
}
