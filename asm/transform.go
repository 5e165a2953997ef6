package asm

import "math"

// The transforms as plain Go: the same operations in the same order as the
// kernels, which are held to them bit for bit, and what the bounds of package
// conv are held to.

// inputLine is B^T d, two roundings deep.
func inputLine(d [6]float64) [6]float64 {
	const s, q = pointA*pointA + pointB*pointB, pointA * pointA * pointB * pointB
	fma := math.FMA
	e, o := fma(-pointB*pointB, d[2], d[4]), fma(-pointB*pointB, d[1], d[3])
	f, p := fma(-pointA*pointA, d[2], d[4]), fma(-pointA*pointA, d[1], d[3])
	return [6]float64{
		fma(q, d[0], fma(-s, d[2], d[4])),
		fma(pointA, o, e), fma(-pointA, o, e),
		fma(pointB, p, f), fma(-pointB, p, f),
		fma(q, d[1], fma(-s, d[3], d[5])),
	}
}

// WinogradInput returns B^T d B for a window of one channel.
func WinogradInput(d [6][6]float64) (z [6][6]float64) {
	var half [6][6]float64
	for x := range 6 {
		var column [6]float64
		for y := range 6 {
			column[y] = d[y][x]
		}
		for y, v := range inputLine(column) {
			half[y][x] = v
		}
	}
	for y := range 6 {
		z[y] = inputLine(half[y])
	}
	return z
}

// outputLine is A^T d, three roundings deep.
func outputLine(d [6]float64) [4]float64 {
	fma := math.FMA
	s, e := d[1]+d[2], d[1]-d[2]
	t, f := d[3]+d[4], d[3]-d[4]
	return [4]float64{
		(d[0] + s) + t,
		fma(pointA, e, float64(pointB*f)),
		fma(pointA*pointA, s, float64(pointB*pointB*t)),
		fma(pointA*pointA*pointA, e, fma(pointB*pointB*pointB, f, d[5])),
	}
}

// WinogradOutput returns A^T m A for the products of one output channel.
func WinogradOutput(m [6][6]float64) (y [4][4]float64) {
	var half [4][6]float64
	for x := range 6 {
		var column [6]float64
		for r := range 6 {
			column[r] = m[r][x]
		}
		for r, v := range outputLine(column) {
			half[r][x] = v
		}
	}
	for r := range 4 {
		y[r] = outputLine(half[r])
	}
	return y
}
