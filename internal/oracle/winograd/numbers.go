package winograd

// Smooth images have small differences, and the windows that B^T makes of them are small in most places; few numbers
// that are large make large ones. So errors of given numbers are of their own mean squares.

// Windows are the mean squares of the numbers of one channel, and of its windows B^T d B.
type Windows struct {
	Plain float64
	Of    [][]float64
}

// WindowsOf returns them for an image of h x w results, whose window of a tile at (y, x) begins at the number (y-1,
// x-1).
func (f *Form) WindowsOf(at func(y, x int) float64, h, w int) Windows {
	n := len(f.Data)
	s, count := Windows{Of: room(n)}, 0.0
	d, rows := room(n), room(n)
	for ty := 0; ty < h; ty += f.Tile {
		for tx := 0; tx < w; tx += f.Tile {
			for i := range n {
				for j := range n {
					d[i][j] = at(ty+i-1, tx+j-1)
					s.Plain += d[i][j] * d[i][j]
				}
			}
			for k, row := range f.Data {
				clear(rows[k])
				for i, v := range row {
					if v != 0 {
						for j, w := range d[i] {
							rows[k][j] += v * w
						}
					}
				}
			}
			for k := range n {
				for l, row := range f.Data {
					sum := 0.0
					for j, v := range row {
						sum += v * rows[k][j]
					}
					s.Of[k][l] += sum * sum
				}
			}
			count++
		}
	}
	s.Plain /= count * float64(n*n)
	for k := range n {
		for l := range n {
			s.Of[k][l] /= count
		}
	}
	return s
}

// Squares returns the mean square errors of a result at each place of a tile, in units of that of a rounding, which has
// the variance 0.18 u^2 of its number's square, for one output channel, with the [Form.Kernel] of each input channel. C
// products are added up one after the other, on top of the roundings of both transforms, of which those of the data are
// no smaller where the data cancel.
func (f *Form) Squares(x []Windows, kernels [][][]float64) [][]float64 {
	n, c := len(f.Data), float64(len(x))
	of, data, weights, size := room(n), make([]float64, n), make([]float64, n), make([]float64, n)
	for k := range n {
		data[k], weights[k], size[k] = roundings(f.Data[k]), roundings(f.Weights[k]), square(f.Data[k])
	}
	for channel, s := range x {
		for k, row := range kernels[channel] {
			for l, u := range row {
				of[k][l] += u * u * (s.Of[k][l]*(c+3+2*(weights[k]+weights[l]))/2 + (data[k]+data[l])*size[k]*size[l]*s.Plain)
			}
		}
	}
	out := room(f.Tile)
	for i := range f.Tile {
		for j := range f.Tile {
			for k, a := range f.Out[i] {
				for l, b := range f.Out[j] {
					out[i][j] += a * a * b * b * of[k][l]
				}
			}
		}
	}
	return out
}

// Kernel returns G g G^T of the 3 x 3 weights g.
func (f *Form) Kernel(g []float64) [][]float64 {
	n := len(f.Weights)
	rows, out := room(n), room(n)
	for k, row := range f.Weights {
		for j := range 3 {
			for i, v := range row {
				rows[k][j] += v * g[3*i+j]
			}
		}
	}
	for k := range n {
		for l, row := range f.Weights {
			for j, v := range row {
				out[k][l] += v * rows[k][j]
			}
		}
	}
	return out
}

// room returns room for n x n numbers.
func room(n int) [][]float64 {
	m, all := make([][]float64, n), make([]float64, n*n)
	for i := range m {
		m[i] = all[i*n : (i+1)*n]
	}
	return m
}
