package conv

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// winogradWeights are a kernel's transformed weights and the bounds of its
// outputs, laid out for kernels of a number of outputs.
type winogradWeights struct {
	points   int       // n*n
	groups   int       // of outputs
	panels   []float64 // U [n*n][outputs/Outputs][blocks*8][Outputs]
	chain    int       // blocks whose channels are added one after another
	size     int       // of one panel
	tables   []float64 // of each 8 outputs: N [16][8] for 4x4, bias [8], u|bias| [8]
	measured *measured // what K is, nil for the greatest norm of a pixel
	direct   []float32 // the weights as they are, [oc][blocks][K*K][8]
	sizes    []float64 // the sum over the taps of ||w/t||, [oc]
}

// panel returns the weights of a group of outputs at point p.
func (w *winogradWeights) panel(group, p int) *float64 { return &w.panels[(p*w.groups+group)*w.size] }

// winograd returns the weights for w, made at their first use.
func (k *Kernel) winograd(f *asm.Form, w *asm.Winograd) *winogradWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.transformed[w.Outputs] == nil {
		if k.transformed == nil {
			k.transformed = map[int]*winogradWeights{}
		}
		k.transformed[w.Outputs] = k.transform(f, w)
	}
	return k.transformed[w.Outputs]
}

// transform computes U = G g G^T for every pair of channels, and the tables.
//
// Row p of G is (1, q, ..., q^(K-1))/D_p for the point q = q_p, where D_p is the
// product of q-r over the other finite points r; that of infinity is (0, ..., 0,
// 1). The numerators, sums of K*K products of a float32 number and powers of
// points (at most 28 bits, so that each product is exact), are taken in
// double-double, the denominators, products of two rationals, as quotients of
// exact integers; so U is rounded once, up to 2^-93 of the sum of magnitudes,
// which the norms below carry.
//
// The bound of an output is u sum over p of a_p ((S_p + c_p ||U_p/t||) ||t Z_p|| +
// kappa_p ||U_p/t|| nu) + 2u|b|, nu the greatest norm of a pixel. kappa_p are the
// roundings of the input's transform, of columns and then of rows, and c_p are 1 of
// U, those of the output's, 1 with the bias and 1 of the guard. S_p are those of the
// channels' sums: with U in parts of chain blocks, and the norms of U up to a
// channel within its part, part by part the sum of those norms, and the root of the
// squares of these sums; and the norms of U up to the end of each part but the
// first. The norm of Z is either at most beta_p nu, and K = nu; or measured.
func (k *Kernel) transform(f *asm.Form, kernels *asm.Winograd) *winogradWeights {
	n, taps, outputs := f.Side, f.Taps*f.Taps, kernels.Outputs
	points := n * n
	blocks := (k.ic + block - 1) / block
	groups := (k.oc + outputs - 1) / outputs
	w := &winogradWeights{points: points, groups: groups, size: blocks * block * outputs, chain: chains[f.Taps]}
	w.panels = asm.Aligned[float64](groups * points * w.size)
	w.tables = asm.Aligned[float64]((k.oc + block - 1) / block * 18 * block)
	if kernels.Weigh != nil && f.Taps > 3 { // of 3x3 kernels it costs more than it spares
		w.measured = k.measured(f)
	}
	w.direct = make([]float32, k.oc*blocks*taps*block)
	w.sizes = make([]float64, k.oc)
	t := newTransform(f)
	par.For(k.oc, func(o int) {
		sums := make([]channelSums, points)
		g, tap := make([]float64, taps), make([]float64, taps) // and squares of the norms
		for c := range k.ic {
			for i := range g {
				g[i] = k.packed[k.at(o, c*taps+i)]
				w.direct[((o*blocks+c/block)*taps+i)*block+c%block] = float32(g[i])
				v := g[i] / k.scale[c]
				tap[i] += float64(v * v)
			}
			for p := range points {
				u, size := t.weight(g, p)
				w.panels[(p*groups+o/outputs)*w.size+c*outputs+o%outputs] = u
				if c > 0 && c%(w.chain*block) == 0 {
					sums[p].next()
				}
				sums[p].add((math.Abs(u) + float64(0x1p-40*size)) / k.scale[c])
			}
		}
		for p := range sums {
			sums[p].next()
		}
		for _, squares := range tap {
			w.sizes[o] += math.Sqrt(squares)
		}
		table := w.tables[o/block*18*block+o%block:]
		for ij := range f.Tile * f.Tile {
			var sum, squares float64
			for p := range points {
				i, j, y, x := ij/f.Tile, ij%f.Tile, p/n, p%n
				a := math.Abs(f.A[i][y] * f.A[j][x])
				size, off := sums[p].norms()
				input := float64(size * (float64(f.InRoundings[y]*rowSum(f.B[x])) + float64(rowSum(f.B[y])*f.InRoundings[x])))
				rest := off + float64((3+f.OutRoundings[i][y]+f.OutRoundings[j][x])*size)
				if m := w.measured; m != nil {
					sum += float64(a*input) / m.rho
					squares += float64(a*rest*a*rest) / m.weights[p]
				} else {
					beta := float64(rowSum(f.B[y]) * rowSum(f.B[x]))
					sum += float64(a * (input + float64(beta*rest)))
				}
			}
			sum += math.Sqrt(squares)
			table[ij*block] = 1.001 * 0x1p-53 * sum
		}
		table[16*block] = k.bias[o]
		table[17*block] = 2.001 * 0x1p-53 * math.Abs(k.bias[o])
	})
	return w
}

// channelSums are the norms of the sums over channels at one point: see transform.
type channelSums struct {
	all, part   float64 // squares of the norm so far, and within the part
	inner       float64 // sum of the norms within the part
	outer, ends float64 // squares of those sums; norms at the ends of the parts but the first
	parts       int
}

func (s *channelSums) add(v float64) {
	s.all += float64(v * v)
	s.part += float64(v * v)
	s.inner += math.Sqrt(s.part)
}

// next ends a part.
func (s *channelSums) next() {
	s.outer += float64(s.inner * s.inner)
	if s.parts > 0 {
		s.ends += math.Sqrt(s.all)
	}
	s.part, s.inner, s.parts = 0, 0, s.parts+1
}

// norms returns the norm of U and S.
func (s *channelSums) norms() (size, off float64) {
	return math.Sqrt(s.all), math.Sqrt(s.outer) + s.ends
}

// chains are the blocks of channels of a sum in Multiply, by taps. Sums of fewer
// channels that are then added take a little time, and leave fewer outputs open: the
// more it costs to settle one, the shorter they are.
var chains = map[int]int{3: 8, 5: 4, 7: 2}

// measured is how a tile's transformed window itself takes part in the bound. By
// Cauchy and Schwarz, for any positive weights v_p,
//
//	sum over p of x_p ||t Z_p|| <= sqrt(sum of x_p^2 / v_p) sqrt(sum of v_p ||t Z_p||^2),
//
// with x_p = a_p (S_p + c_p ||U_p/t||). With K the greater of the last root and
// rho nu, the bound is u K (sqrt(sum of x_p^2 / v_p) + sum of a_p kappa_p
// ||U_p/t|| / rho). For large kernels, whose B has large rows, this is several
// times less than beta_p nu gives.
type measured struct {
	weights []float64 // v_p, [n*n]
	scale   []float64 // t_c, [blocks][8]
	rho     float64
}

// measured chooses v_p = v_p1 v_p2, v_p1 the sum of column p1 of |A| times
// ||G_p1||/||B_p1||, and rho as half of what K/nu is for independent random
// pixels.
func (k *Kernel) measured(f *asm.Form) *measured {
	n := f.Side
	m := &measured{weights: make([]float64, n*n), scale: make([]float64, (k.ic+block-1)/block*block)}
	copy(m.scale, k.scale)
	den := denominators(f)
	v := make([]float64, n)
	for p := range v {
		var a, g, b float64
		for i := range 4 {
			a += math.Abs(f.A[i][p])
		}
		for i := range f.Taps {
			c := power(f, p, i) / den[p]
			g += float64(c * c)
		}
		for _, c := range f.B[p] {
			b += float64(c * c)
		}
		v[p] = a * math.Sqrt(g/b)
		m.rho += float64(float64(v[p]*b) / 2)
	}
	for p := range m.weights {
		m.weights[p] = v[p/n] * v[p%n]
	}
	return m
}

// rowSum returns the sum of the magnitudes of a row.
func rowSum(row []float64) float64 {
	var sum float64
	for _, v := range row {
		sum += math.Abs(v)
	}
	return sum
}
