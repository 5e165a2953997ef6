package conv

import (
	"sync"

	"github.com/refrun/refrun/internal/ground/par"
)

// images is memory for a convolution of tensors, kept between convolutions.
type images struct {
	src, dst     []float32
	expanded     []float64
	pixels, rows []float64 // of windows, on the way to their norms
	norms        []float64
	whole        []int16
	space        Space
}

var imagePool = sync.Pool{New: func() any { return new(images) }}

// blocks convolves as images if kernels of this CPU can, and reports whether it
// did: the source, padding included, becomes an image of the size of the result
// with a frame.
func (j *job) blocks() bool {
	d := j.dst
	e, ok := j.k.engine(d.Format, 1, d.N()*d.H()*d.W())
	ok = ok && j.rows.plain() && j.cols.plain()
	if !ok || d.N() == 0 {
		return false
	}
	frame := j.k.kh / 2
	src := NewImage(j.src.Format, j.src.N(), j.src.C(), d.H(), d.W(), frame,
		aligned(&j.memory.src, ImageSize(j.src.N(), j.src.C(), d.H(), d.W(), frame)))
	dst := NewImage(d.Format, d.N(), d.C(), d.H(), d.W(), 0,
		aligned(&j.memory.dst, ImageSize(d.N(), d.C(), d.H(), d.W(), 0)))
	j.pack(src)
	e.run(j.k, dst, src, &j.memory.space)
	dst.To(d)
	return true
}

// pack makes an image, frame included, of the source seen through the axes.
func (j *job) pack(m *Image) {
	s, f := j.src, m.Frame
	zeros := make([]float64, max(s.W(), 1)) // what a last block lacks
	height, width := up4(m.H)+2*f, up4(m.W)+2*f
	cols := j.cols.at[:min(len(j.cols.at), width)]
	from, to := straight(cols)
	par.For(s.N()*height, func(i int) {
		n, y := i/height, i%height
		for b := range m.Blocks() {
			line := m.data[m.at(n, b, y-f, -f):][:m.line]
			if y >= len(j.rows.at) || j.rows.at[y] < 0 {
				clear(line)
				continue
			}
			var in, run [block][]float64
			for c := range block {
				in[c] = zeros
				if b*block+c < s.C() {
					in[c] = s.Plane(n, b*block+c)[j.rows.at[y]*s.W():][:s.W()]
				}
				if from < to {
					run[c] = in[c][cols[from]:][:to-from]
				}
			}
			packLine(line[from*block:], &run)
			packPixels(line, cols, 0, from, &in)
			packPixels(line, cols, to, width, &in)
		}
	})
}

// straight returns the longest run of columns [from,to) that read neighbours.
func straight(cols []int) (from, to int) {
	for x := 0; x < len(cols); {
		end := x + 1
		for end < len(cols) && cols[x] >= 0 && cols[end] == cols[end-1]+1 {
			end++
		}
		if cols[x] >= 0 && end-x > to-from {
			from, to = x, end
		}
		x = end
	}
	return from, to
}

// packPixels is packLine for pixels [from,to) that read any columns, or nothing.
func packPixels(line []float32, cols []int, from, to int, in *[block][]float64) {
	for x := from; x < to; x++ {
		out := line[x*block:][:block]
		if x >= len(cols) || cols[x] < 0 {
			clear(out)
			continue
		}
		for c := range block {
			out[c] = float32(in[c][cols[x]])
		}
	}
}
