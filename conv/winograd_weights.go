package conv

import (
	"math"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/internal/par"
)

// winogradWeights are a kernel's transformed weights and the bounds of its
// outputs, laid out for kernels of a number of outputs.
type winogradWeights struct {
	panels []float64 // U [outputs/Outputs][36][blocks*8][Outputs]
	size   int       // of one panel
	tables []float64 // of each 8 outputs: N [16][8], bias [8], u|bias| [8]
	direct []float32 // the weights as they are, [oc][blocks][9][8]
}

// panel returns the weights of a group of outputs at point p.
func (w *winogradWeights) panel(group, p int) *float64 { return &w.panels[(group*36+p)*w.size] }

// winograd returns the weights for w, made at their first use.
func (k *Kernel) winograd(w *asm.Winograd) *winogradWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.transformed[w.Outputs] == nil {
		if k.transformed == nil {
			k.transformed = map[int]*winogradWeights{}
		}
		k.transformed[w.Outputs] = k.transform(w.Outputs)
	}
	return k.transformed[w.Outputs]
}

// transform computes U = G g G^T for every pair of channels, and the tables.
//
// Row p of G is (1, q, q^2)/D_p for the point q = q_p, where D_p is the product
// of q-r over the other finite points r; that of infinity is (0, 0, 1). The
// numerators, sums of nine products of a float32 number and a power of points
// (at most 16 bits), are taken in double-double, the denominators, products of
// two rationals, as quotients of exact integers; so U is rounded once, up to
// 2^-90 of the sum of magnitudes, which the norms below carry.
func (k *Kernel) transform(outputs int) *winogradWeights {
	blocks := (k.ic + block - 1) / block
	groups := (k.oc + outputs - 1) / outputs
	w := &winogradWeights{size: blocks * block * outputs}
	w.panels = aligned(new([]float64), groups*36*w.size)
	w.tables = aligned(new([]float64), (k.oc+block-1)/block*18*block)
	w.direct = make([]float32, k.oc*blocks*9*block)
	den := denominators()
	par.For(k.oc, func(o int) {
		var prefix, norm [36]float64 // squares of the norm so far; sum of prefix norms
		for c := range k.ic {
			var g [9]float64
			for i := range g {
				g[i] = k.packed[k.at(o, c*9+i)]
				w.direct[((o*blocks+c/block)*9+i)*block+c%block] = float32(g[i])
			}
			t := k.scale[c]
			for p := range 36 {
				u, size := transformed(&g, p/6, p%6, den)
				w.panels[((o/outputs*36)+p)*w.size+c*outputs+o%outputs] = u
				v := (math.Abs(u) + 0x1p-40*size) / t
				prefix[p] += float64(v * v)
				norm[p] += math.Sqrt(prefix[p])
			}
		}
		table := w.tables[o/block*18*block+o%block:]
		for ij := range 16 {
			var sum float64
			for p := range 36 {
				a := math.Abs(asm.WinogradA[ij/4][p/6] * asm.WinogradA[ij%4][p%6])
				sum += float64(a * float64(rowSum(p/6)*rowSum(p%6)) * (norm[p] + float64(16*math.Sqrt(prefix[p]))))
			}
			table[ij*block] = 1.001 * 0x1p-53 * sum
		}
		table[16*block] = k.bias[o]
		table[17*block] = 2.001 * 0x1p-53 * math.Abs(k.bias[o])
	})
	return w
}

// rowSum returns the sum of the magnitudes of row p of B^T.
func rowSum(p int) float64 {
	var sum float64
	for _, v := range asm.WinogradB[p] {
		sum += math.Abs(v)
	}
	return sum
}

// denominators returns D_p, exact in float64, 1 for infinity.
func denominators() [6]float64 {
	d := [6]float64{1, 1, 1, 1, 1, 1}
	for p, q := range asm.WinogradPoints {
		for r, s := range asm.WinogradPoints {
			if r != p {
				d[p] *= q - s
			}
		}
	}
	return d
}

// transformed returns element (p,q) of G g G^T, rounded once, and the same of
// magnitudes.
func transformed(g *[9]float64, p, q int, den [6]float64) (u, size float64) {
	var s, l float64
	for i := range 3 {
		for j := range 3 {
			f := power(p, i) * power(q, j)
			term := g[3*i+j] * f
			var e float64
			s, e = twoSum(s, term)
			l += e
			size += math.Abs(term)
		}
	}
	// (s+l)/d with d exact: the quotient, and the remainder's share.
	d := den[p] * den[q]
	u = s / d
	rest := (math.FMA(-u, d, s) + l) / d
	return u + rest, size / math.Abs(d)
}

// power returns the power i of point p as it stands in G without denominator.
func power(p, i int) float64 {
	switch {
	case p == 5 && i == 2:
		return 1
	case p == 5:
		return 0
	}
	v := 1.0
	for range i {
		v *= asm.WinogradPoints[p]
	}
	return v
}
