package noisestat

import (
	"math"
	"slices"

	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/tensor"
)

// Field is what a model of the noise makes of the residual of one engine
// batch and step: at every pixel k numbers of variance 1.
type Field struct {
	n, h, w, K int
	Z          []float64 // [n,h*w,k], 0 where a pixel says nothing
	ok         []bool    // [n,h*w]
	l          []float64 // the whiteners' L, [k,k] or [n,h*w,k,k]
	mean       []float64 // [n,h*w,k]: what xi = sigma in all channels makes of z
	Sums       []Sums
	basis      [][][]float64 // see means
}

// Sums are moments of a field over the pixels of one sample.
type Sums struct {
	pixels  float64
	square  float64   // of |z|^2
	raw     float64   // of |z|^2 before draws were made normal
	gain    float64   // of |v|^2 over the channels: what square is without roundings
	share   []float64 // of v_i v_j, [hidden,k,k]: what each channel gives cov
	self    float64   // of |v|^4 over the channels, which gives square its variance
	mean    []float64 // of z
	cov     []float64 // of z_i z_j, [k,k]
	drift   float64   // of z.u, u being what xi = sigma in all channels makes of z
	drifts  float64   // of |u|^2
	fourth  float64   // of (v.z)^4 over the channels, see kurtosis
	second  float64   // of |v|^2 (v.z)^2
	norm    float64   // of |v|^4
	quad    float64   // of (v.v')^4 over pairs of channels
	within  float64   // of scores, see scores
	largest float64   // |z|
	lags    []lagSums
}

// lagSums are products of z at pixels that far apart.
type lagSums struct {
	dy, dx     int
	sum, count float64
}

// noiseLags are the distances at which neighbours are compared.
var noiseLags = [][2]int{{0, 1}, {1, 0}, {1, 1}, {1, -1}, {0, 2}, {2, 0}}

// Add adds the sums of another sample.
func (s *Sums) Add(o *Sums) {
	if o.mean == nil {
		return
	}
	if s.mean == nil {
		s.mean, s.cov, s.lags = make([]float64, len(o.mean)), make([]float64, len(o.cov)), make([]lagSums, len(o.lags))
		s.share = make([]float64, len(o.share))
	}
	for i, l := range o.lags {
		l.sum += s.lags[i].sum
		l.count += s.lags[i].count
		s.lags[i] = l
	}
	s.pixels += o.pixels
	s.square += o.square
	s.raw += o.raw
	s.gain += o.gain
	s.self += o.self
	s.drift += o.drift
	s.drifts += o.drifts
	s.fourth += o.fourth
	s.second += o.second
	s.norm += o.norm
	s.quad += o.quad
	s.within += o.within
	s.largest = max(s.largest, o.largest)
	for i, v := range o.mean {
		s.mean[i] += v
	}
	for i, v := range o.cov {
		s.cov[i] += v
	}
	for i, v := range o.share {
		s.share[i] += v
	}
}

// Field whitens a residual r [n,outputs,h,w]. hidden is what the noise is added
// to, ok says which pixels count (nil for all), rounding is a variance per row.
func (m *Model) Field(hidden *tensor.Tensor, r []float64, ok []bool, rounding []float64) *Field {
	k, hw, outs, hid := len(m.Rows), hidden.H()*hidden.W(), len(m.W), len(m.W[0])
	f := &Field{n: hidden.N(), h: hidden.H(), w: hidden.W(), K: k, Z: make([]float64, hidden.N()*hw*k),
		ok: make([]bool, hidden.N()*hw), mean: make([]float64, hidden.N()*hw*k)}
	own := m.Kind == noise.Multiplicative || m.Kind == noise.Dropout
	var w *whitener
	if own {
		f.l = make([]float64, hidden.N()*hw*k*k)
	} else if w = m.whitener(nil, rounding, true); w != nil {
		f.l = w.l
	}
	g, seen := make([]float64, hid), m.seen()
	for n := range hidden.N() {
		s := Sums{mean: make([]float64, k), cov: make([]float64, k*k), share: make([]float64, hid*k*k)}
		for p := range hw {
			at := n*hw + p
			if ok != nil && !ok[at] {
				continue
			}
			if own {
				for c := range g {
					g[c] = hidden.Data[(n*hid+c)*hw+p]
				}
				if w = m.whitener(g, rounding, true); w != nil {
					copy(f.l[at*k*k:], w.l)
				}
			}
			if w == nil {
				continue
			}
			z := f.Z[at*k : (at+1)*k]
			for i, o := range m.Rows {
				z[i] = r[(n*outs+o)*hw+p]
			}
			w.solve(z)
			s.raw += measure.Dot(z, z)
			if seen {
				w.straighten(z)
			}
			f.ok[at] = true
			copy(f.mean[at*k:], w.sum)
			s.pixel(w, z)
			if m.few != nil {
				s.within += m.few.within(w.score(z))
			}
		}
		f.Sums = append(f.Sums, s)
	}
	for n := range f.Sums {
		for _, d := range noiseLags {
			sum, count := f.lag(n, d[0], d[1])
			f.Sums[n].lags = append(f.Sums[n].lags, lagSums{d[0], d[1], sum, count})
		}
	}
	return f
}

// pixel adds the whitened numbers of a pixel.
func (s *Sums) pixel(w *whitener, z []float64) {
	k := len(z)
	n2 := measure.Dot(z, z)
	s.pixels++
	s.square += n2
	s.self += w.self
	s.quad += w.quad
	s.drift += measure.Dot(z, w.sum)
	s.drifts += measure.Dot(w.sum, w.sum)
	s.largest = max(s.largest, math.Sqrt(n2))
	for i, v := range z {
		s.mean[i] += v
		for j, u := range z {
			s.cov[i*k+j] += float64(v * u)
		}
	}
	for c := 0; c < len(w.v); c += k {
		v := w.v[c : c+k]
		p, n := measure.Dot(v, z), measure.Dot(v, v)
		p *= p
		for i, a := range v {
			for j, b := range v {
				s.share[(c+i)*k+j] += float64(a * b)
			}
		}
		s.gain += n
		s.fourth += float64(p * p)
		s.second += float64(n * p)
		s.norm += float64(n * n)
	}
}

// kurtosis returns the excess kurtosis of xi, with the standard deviation of
// that number for normal xi, from sums whose z have the variance c.
//
// One output is a sum over many channels and nearly normal whatever xi is. But
// the mixture is known: the fourth cumulants of z are kappa times sum_c v_c v_c
// v_c v_c, and the best estimate of kappa projects the Hermite polynomials of z
// on them,
//
//	score = sum_c (v.z)^4 - 6 |v|^2 (v.z)^2 + 3 |v|^4
//
// whose mean is kappa Q and whose variance is 24 Q, Q = sum over c, c' of (v_c.v_c')^4.
func (s *Sums) kurtosis(c float64) (kappa, std float64) {
	score := s.fourth/(c*c) - 6*s.second/c + 3*s.norm
	return score / s.quad, math.Sqrt(24 / s.quad)
}

// solve replaces r by what the whitener of a pixel makes of it.
func (f *Field) solve(at int, r []float64) {
	l := f.l
	if len(l) > f.K*f.K {
		l = l[at*f.K*f.K : (at+1)*f.K*f.K]
	}
	(&whitener{k: f.K, l: l}).solve(r)
}

// lag returns the sum of z(p).z(p + (dy,dx)) over the pixels of sample n that
// have such a neighbour, and the number of products.
func (f *Field) lag(n, dy, dx int) (sum, count float64) {
	f.pairs(n, dy, dx, func(a, b int) {
		sum += measure.Dot(f.Z[a*f.K:(a+1)*f.K], f.Z[b*f.K:(b+1)*f.K])
		count += float64(f.K)
	})
	return sum, count
}

// pairs gives pixels p and p + (dy,dx) of sample n that both say something.
func (f *Field) pairs(n, dy, dx int, use func(a, b int)) {
	for y := 0; y+dy < f.h; y++ {
		for x := max(0, -dx); x < f.w && x+dx < f.w; x++ {
			a := n*f.h*f.w + y*f.w + x
			if b := a + dy*f.w + dx; f.ok[a] && f.ok[b] {
				use(a, b)
			}
		}
	}
}

// Coloured reports whether neighbouring pixels are more alike, or less, than independent ones are by chance, whatever
// their means and deviations: of products of independent numbers with no mean, the sum has the squares of all as
// variance.
func (f *Field) Coloured() bool {
	mean, count := make([]float64, f.K), 0.0
	for at, ok := range f.ok {
		if ok {
			count++
			for k := range mean {
				mean[k] += f.Z[at*f.K+k]
			}
		}
	}
	centred := slices.Clone(f.Z)
	for at, ok := range f.ok {
		for k := range mean {
			if ok {
				centred[at*f.K+k] -= mean[k] / count
			}
		}
	}
	return slices.ContainsFunc(noiseLags, func(d [2]int) bool {
		var sum, squares float64
		for n := range f.n {
			f.pairs(n, d[0], d[1], func(a, b int) {
				p := measure.Dot(centred[a*f.K:(a+1)*f.K], centred[b*f.K:(b+1)*f.K])
				sum, squares = sum+p, squares+float64(p*p)
			})
		}
		return math.Abs(sum) > measure.ZLimit(float64(len(noiseLags)))*math.Sqrt(squares)
	})
}

// chiZ returns the standard normal deviate of a chi-square variable (Wilson and
// Hilferty).
func chiZ(x, dof float64) float64 {
	if !(dof > 0) {
		return 0
	}
	root := 0.0
	if x > 0 {
		root = elem.Exp(elem.Log(x/dof) / 3)
	}
	v := 2 / (9 * dof)
	return (root - (1 - v)) / math.Sqrt(v)
}
