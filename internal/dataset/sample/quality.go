package sample

import "math"

// Discrepancy returns the squared centred L2 discrepancy of points, n times dims numbers
// (F. Hickernell, "A generalized discrepancy and quadrature error bound", 1998), which
// scipy.stats.qmc.discrepancy returns too: about 0 for points that fill every box
// from the middle of the cube by its share. It takes time in the square of n.
func Discrepancy(x []float64, dims int) float64 {
	n := len(x) / dims
	pow, single, pairs := 1.0, 0.0, 0.0
	for range dims {
		pow *= 13. / 12
	}
	off := make([]float64, len(x))
	for i, v := range x {
		off[i] = math.Abs(v - 0.5)
	}
	for i := range n {
		xi, oi := x[i*dims:(i+1)*dims], off[i*dims:(i+1)*dims]
		one, same := 1.0, 1.0
		for _, o := range oi {
			one *= 1 + float64(0.5*o) - float64(0.5*float64(o*o))
			same *= 1 + o
		}
		single += one
		pairs += same
		row := 0.0
		for j := i + 1; j < n; j++ {
			xj, oj := x[j*dims:(j+1)*dims], off[j*dims:(j+1)*dims]
			p := 1.0
			for k, v := range xi {
				p *= 1 + float64(0.5*(oi[k]+oj[k]-math.Abs(v-xj[k])))
			}
			row += p
		}
		pairs += 2 * row
	}
	return pow - float64(2/float64(n)*single) + pairs/float64(n)/float64(n)
}

// Correlation returns the largest absolute value of Pearson's correlation of two axes of
// points, n times dims numbers, and the axes; an axis that does not vary has none.
func Correlation(x []float64, dims int) (most float64, a, b int) {
	n := len(x) / dims
	mean, norm := make([]float64, dims), make([]float64, dims)
	for i, v := range x {
		mean[i%dims] += v / float64(n)
	}
	products := make([]float64, dims*dims)
	for i := range n {
		p := x[i*dims : (i+1)*dims]
		for j := range p {
			for k := 0; k <= j; k++ {
				products[j*dims+k] += float64((p[j] - mean[j]) * (p[k] - mean[k]))
			}
		}
	}
	for j := range norm {
		norm[j] = math.Sqrt(products[j*dims+j])
	}
	for j := range dims {
		for k := range j {
			if c := math.Abs(products[j*dims+k]) / (norm[j] * norm[k]); c > most {
				most, a, b = c, k, j
			}
		}
	}
	return most, a, b
}
