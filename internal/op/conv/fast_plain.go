package conv

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/single"
)

// plainTile makes the outputs of the tile at (y, x): the definition of fast arithmetic.
//
//	V = B^T d B for each channel's window d, of each pair of parts
//	M = the sum over the channels of U V at each point, by chains
//	Y = A^T M A + bias
func (g *fastConv) plainTile(n, y, x int) {
	form, parts, channels := g.form.form, g.form.parts, g.src.Blocks()*block
	v := make([][]float32, g.points) // by point, then by channel
	for q := range len(parts) * len(parts) {
		rows, cols := parts[q/len(parts)], parts[q%len(parts)]
		for c := range channels {
			d := make([]float32, 0, g.points)
			for i := range form.Side {
				for j := range form.Side {
					d = append(d, g.read(n, c, y-g.k.kh/2+rows.at+i, x-g.k.kw/2+cols.at+j))
				}
			}
			for p, z := range sandwich(d, form.Side, form.Side, func(d, r []float32) { fastInputLine(form, d, r) }) {
				v[p] = append(v[p], z)
			}
		}
	}
	m, u := make([]float32, g.points), make([]float32, len(v[0]))
	for o := range g.dst.C {
		for p := range m {
			panel := g.weights.panel(o/block, p)
			for c := range u {
				u[c] = panel[c*block+o%block]
			}
			m[p] = single.Dot(u, v[p], g.form.chain*block)
		}
		for ij, z := range sandwich(m, form.Side, form.Tile, func(d, r []float32) { fastOutputLine(form, d, r) }) {
			z += g.weights.bias[o]
			if z != z {
				z = canonicalNaN
			}
			if i, j := y+ij/form.Tile, x+ij%form.Tile; i < g.dst.H && j < g.dst.W {
				g.dst.data[g.dst.at(n, o/block, i, j)+o%block] = z
			}
		}
	}
}

// read returns a pixel of a channel, zero where no output reads it: beyond the padding of
// the last tile, or where the image ends.
func (g *fastConv) read(n, c, y, x int) float32 {
	m, f := g.form.form.Tile, g.src.Frame
	if y >= min(g.th*m+g.k.kh/2, up4(g.src.H)+f) || x >= min(g.tw*m+g.k.kw/2, up4(g.src.W)+f) {
		return 0
	}
	return g.src.data[g.src.at(n, c/block, y, x)+c%block]
}

// plainLine makes the outputs [o,o+8) of a line: the definition tap by tap. The products
// are added by blocks of channels, rows and columns of the window, and channels of the
// block, in sums of fastChain taps of a block. A block has 8 channels, or 4 if those are all.
func (g *fastTaps) plainLine(n, y, o int) {
	width := g.k.tapWidth()
	packed, bias := g.packed(o)
	u, v := make([]float32, len(packed)/block), make([]float32, 0, len(packed)/block)
	for x := range g.dst.W {
		v = v[:0]
		for _, tap := range g.taps {
			v = append(v, g.src.data[g.src.read(n, y, x, &g.window)+tap/4:][:width]...)
		}
		out := g.dst.data[g.dst.at(n, o/block, y, x):][:block]
		for c := range out {
			for i := range u {
				u[i] = packed[i*block+c]
			}
			if out[c] = single.Dot(u, v, fastChain*width) + bias[c]; out[c] != out[c] {
				out[c] = canonicalNaN
			}
		}
	}
}

var canonicalNaN = math.Float32frombits(0x7fc00000)

// sandwich applies a transform from n numbers to k to the columns of x, and then to the
// rows of what is left.
func sandwich(x []float32, n, k int, line func(d, r []float32)) []float32 {
	half, z := make([]float32, k*n), make([]float32, k*k)
	column, out := make([]float32, n), make([]float32, k)
	for c := range n {
		for r := range n {
			column[r] = x[r*n+c]
		}
		line(column, out)
		for r, v := range out {
			half[r*n+c] = v
		}
	}
	for r := range k {
		line(half[r*n:][:n], z[r*k:][:k])
	}
	return z
}

// fastInputLine is r = B^T d. With e and f_l the coefficients of the products of x - p^2
// over all points p > 0 and all but p_l, and sums from the leading coefficient, 1, down,
//
//	r_0 = sum of e_j d_2j        r_infinity = sum of e_j d_(2j+1)
//	r_+-l = sum of f_lj d_(2j+2) +- p_l sum of f_lj d_(2j+1);
//
// without the point 0 there is no r_0, and the others begin one number before.
func fastInputLine(f *asm.Form, d, r []float32) {
	sum := func(row []float64, from int) float32 { // the coefficients are every other one of a row of B
		last := len(row) - 1
		for row[last] == 0 {
			last--
		}
		s := d[from+last]
		for j := last - 2; j >= 0; j -= 2 {
			s = single.FMA(float32(row[j]), d[from+j], s)
		}
		return s
	}
	end, first := f.Side-1, f.First
	if first == 1 {
		r[0] = sum(f.B[0], 0)
	}
	r[end] = sum(f.B[end][first:], first)
	for l := first; l < end; l += 2 {
		p, row := float32(f.Points[l]), f.B[l][first+1:] // f_l at its even places
		low, high := sum(row, first), sum(row, first+1)
		r[l], r[l+1] = single.FMA(p, low, high), single.FMA(-p, low, high)
	}
}

// fastOutputLine is r = A^T d. With s_l = d_+l + d_-l and t_l = d_+l - d_-l,
//
//	r_0 = d_0 + sum of s_l         r_1 = sum of p_l t_l
//	r_2 = sum of p_l^2 s_l         r_3 = d_infinity + sum of p_l^3 t_l,
//
// r_0 from the first to the last, the others from the last to the first. Without the point
// 0 there is no d_0. Of three numbers r_2 has the d_infinity.
func fastOutputLine(f *asm.Form, d, r []float32) {
	end, top := f.Side-1, f.Tile-1
	r[0], r[top] = d[0], d[end]
	if f.First == 0 {
		r[0] += d[1]
	}
	for l := 2 - f.First; l < end; l += 2 {
		r[0] += d[l] + d[l+1]
	}
	for l := end - 2; l >= f.First; l -= 2 {
		p, s, t := float32(f.Points[l]), d[l]+d[l+1], d[l]-d[l+1]
		for k, v := range []float32{1: t, 2: s, 3: t}[:top+1] {
			c := [...]float32{1, p, p * p, p * p * p}[k]
			switch {
			case k == 0:
			case k < top && l == end-2:
				r[k] = c * v
			default:
				r[k] = single.FMA(c, v, r[k])
			}
		}
	}
}
