package asm

import "math"

// Form is one of the minimal convolutions that there are kernels for, F(MxM,KxK):
// MxM outputs of KxK taps. Its n = K+M-1 interpolation points in one dimension are
// p and -p for k positive p, infinity, and, if n is even, 0 before them.
//
// Its methods are the transforms as plain Go: the same operations in the same
// order as the kernels, which are held to them bit for bit, and what the bounds
// of package conv are held to.
type Form struct {
	Taps   int       // K
	Tile   int       // M
	Side   int       // n
	Points []float64 // those that are finite, in the order of the rows: 0, p_1, -p_1, ...
	First  int       // the index of p_1: 1 after 0

	// A^T [M][n]: row i holds the powers of degree i of the points. B^T [n][n]:
	// row p holds the coefficients of the product of x-q over the finite points q
	// other than p. All are exact in float64.
	A, B [][]float64

	// What rounding makes of them, in units of u: inputLine is off by at most
	// InRoundings[r] u max|d| in r, all its roundings with what they are multiplied by
	// later, and a number d takes part in OutRoundings[r][d] roundings of outputLine's r.
	InRoundings  []float64
	OutRoundings [][]float64

	all    []float64   // coefficients of the product of x - p^2
	others [][]float64 // without p_l
}

// The forms. Small points, and fractions for the greater of two that differ
// little, keep the matrices small and so the bound; powers of two do well enough
// for 5x5.
var (
	form3 = newForm(3, 4, 5.0/8, 13.0/8)
	form5 = newForm(5, 4, 1.0/2, 1, 2)
	form7 = newForm(7, 4, 3.0/8, 3.0/4, 5.0/4, 3)
)

// form4 and fast5 are for float32 arithmetic only: of all seven points that are multiples of
// 1/8 up to 4 these lose the fewest digits of random numbers, half of what form5's eight lose.
var (
	form4 = newForm(4, 4, 1.0/4, 7.0/8, 7.0/4)
	fast5 = newForm(5, 3, 1.0/4, 7.0/8, 7.0/4)
)

// FastForm returns the form of float32 arithmetic for kernels of taps x taps, nil if there
// is none.
func FastForm(taps int) *Form {
	switch taps {
	case 3:
		return form3
	case 4:
		return form4
	case 5:
		return fast5
	}
	return nil
}

// WinogradForm returns the form for kernels of taps x taps, nil if there is none.
func WinogradForm(taps int) *Form {
	switch taps {
	case 3:
		return form3
	case 5:
		return form5
	case 7:
		return form7
	}
	return nil
}

// Kernels returns the form's kernels of the backend that runs, nil if it has
// none.
func (f *Form) Kernels() *Winograd { return current().form(f) }

func (b *backend) form(f *Form) *Winograd {
	switch f.Taps {
	case 3:
		return b.winograd
	case 5:
		return b.winograd5
	}
	return b.winograd7
}

func newForm(taps, tile int, points ...float64) *Form {
	n := taps + tile - 1
	f := &Form{Taps: taps, Tile: tile, Side: n, First: 1 - n%2, all: product(points, -1)}
	if f.First == 1 {
		f.Points = []float64{0}
	}
	for l, p := range points {
		f.Points = append(f.Points, p, -p)
		f.others = append(f.others, product(points, l))
	}
	for degree := range tile {
		row := make([]float64, n)
		for r, p := range f.Points {
			row[r] = 1
			for range degree {
				row[r] *= p
			}
		}
		if degree == tile-1 {
			row[n-1] = 1
		}
		f.A = append(f.A, row)
	}
	for r := range n {
		row := make([]float64, n)
		switch l := (r - f.First) / 2; {
		case r < f.First || r == n-1:
			for j, c := range f.all {
				row[2*j+min(r, f.First)] = c
			}
		default: // x + p times the others, and times x for the point 0
			for j, c := range f.others[l] {
				row[2*j+f.First], row[2*j+f.First+1] = c*f.Points[r], c
			}
		}
		f.B = append(f.B, row)
	}
	f.roundings()
	return f
}

// roundings follows inputLine and outputLine for |d| = 1.
func (f *Form) roundings() {
	n := f.Side
	sum := func(c []float64) (size, off float64) {
		size = 1 // the last coefficient: nothing is rounded
		for j := len(c) - 2; j >= 0; j-- {
			size += math.Abs(c[j])
			off += size
		}
		return size, off
	}
	_, ends := sum(f.all)
	for range f.First {
		f.InRoundings = append(f.InRoundings, ends)
	}
	for l, c := range f.others {
		p := f.Points[f.First+2*l]
		size, off := sum(c)
		both := float64((1+p)*off) + float64((1+p)*size)
		f.InRoundings = append(f.InRoundings, both, both)
	}
	f.InRoundings = append(f.InRoundings, ends)

	k := len(f.others)
	for r := range f.Tile {
		row := make([]float64, n)
		row[0], row[n-1] = float64(k), float64(k) // unless A is 0
		for l := range k {
			at := f.First + 2*l
			row[at] = float64(2 + l) // the sum or difference, then from here to the first
			if r == 0 {
				row[at] = float64(1 + min(k-l, k+f.First-1)) // or to the last
			}
			row[at+1] = row[at]
		}
		f.OutRoundings = append(f.OutRoundings, row)
	}
}

// product returns the coefficients of the product of x - p^2 over the points
// but that of index skip, from that of 1 upwards.
func product(points []float64, skip int) []float64 {
	c := []float64{1}
	for l, p := range points {
		if l == skip {
			continue
		}
		c = append(c, 0)
		for j := len(c) - 1; j > 0; j-- {
			c[j] = c[j-1] - float64(p*p*c[j])
		}
		c[0] *= -p * p
	}
	return c
}

// inputLine is r = B^T d.
func (f *Form) inputLine(d, r []float64) {
	sum := func(c []float64, from int) float64 {
		j := len(c) - 1
		s := d[from+2*j]
		for j--; j >= 0; j-- {
			s = math.FMA(c[j], d[from+2*j], s)
		}
		return s
	}
	if f.First == 1 {
		r[0] = sum(f.all, 0)
	}
	r[f.Side-1] = sum(f.all, f.First)
	for l, c := range f.others {
		at := f.First + 2*l
		p, low, high := f.Points[at], sum(c, f.First), sum(c, f.First+1)
		r[at], r[at+1] = math.FMA(p, low, high), math.FMA(-p, low, high)
	}
}

// outputLine is r = A^T d, at most k+1 roundings deep.
func (f *Form) outputLine(d, r []float64) {
	infinity, first, top := f.Side-1, f.First, f.Tile-1
	r[0], r[top] = d[0], d[infinity]
	if first == 0 {
		r[0] = d[0] + d[1]
	}
	for l := 2 - first; l < infinity; l += 2 {
		r[0] += d[l] + d[l+1]
	}
	for l := infinity - 2; l >= first; l -= 2 {
		s, t := d[l]+d[l+1], d[l]-d[l+1]
		for row := 1; row <= top; row++ {
			c, v := f.A[row][l], s
			if row%2 == 1 {
				v = t
			}
			if l == infinity-2 && row < top {
				r[row] = c * v
			} else {
				r[row] = math.FMA(c, v, r[row])
			}
		}
	}
}

// Input returns B^T d B [n*n] for a window [n*n] of one channel.
func (f *Form) Input(d []float64) []float64 { return twice(d, f.Side, f.Side, f.inputLine) }

// Output returns A^T m A [M*M] for the products [n*n] of one output channel.
func (f *Form) Output(m []float64) []float64 { return twice(m, f.Side, f.Tile, f.outputLine) }

// OutputByRows is Output with the rows first, as OutputRow and OutputColumns do.
func (f *Form) OutputByRows(m []float64) []float64 {
	n := f.Side
	turned, out := make([]float64, n*n), make([]float64, 16)
	for p, v := range m {
		turned[p%n*n+p/n] = v
	}
	for ij, v := range f.Output(turned) {
		out[ij%4*4+ij/4] = v
	}
	return out
}

// twice applies a transform from n numbers to k to the columns of x and then to
// the rows of what is left.
func twice(x []float64, n, k int, line func(d, r []float64)) []float64 {
	half, z := make([]float64, k*n), make([]float64, k*k)
	column, out := make([]float64, n), make([]float64, k)
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
