package conv

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/tensor"
)

// Image is a tensor between the operations of a compiled plan: float32 numbers
// in blocks of 8 channels, [N][ceil(C/8)][rows][cols][8], lanes beyond the last
// channel zero. Every format but Float64 fits.
//
// Around the H x W pixels lies a frame of Frame pixels, which holds the padding
// of the convolution that reads the image. On the right and below, the rows and
// columns that fill up the last tile of 4x4 lie between the two: there
// convolutions leave what they like. Whoever makes an image that a convolution
// with a window of more than one pixel reads calls FillFrame in the end.
type Image struct {
	Format     fp16.Format
	N, C, H, W int
	Frame      int

	data                 []float32
	line, plane, samples int // numbers from a line, block and sample to the next
}

// imageStrides returns the numbers from a line to the next and from a block to the
// next, for n x c x h x w numbers and a frame.
func imageStrides(c, h, w, frame int) (line, plane, sample int) {
	line = (up4(w) + 2*frame) * block
	// A stride of an odd number of cache lines spreads the planes over the sets
	// of a cache.
	plane = line*(up4(h)+2*frame) + 15
	plane = plane/16*16 + (1-plane/16%2)*16
	return line, plane, plane * ((c + block - 1) / block)
}

func up4(n int) int { return (n + 3) / 4 * 4 }

// ImageSize returns how many numbers an image takes.
func ImageSize(n, c, h, w, frame int) int {
	_, _, sample := imageStrides(c, h, w, frame)
	return n * sample
}

// NewImage returns an image in memory, ImageSize numbers of any contents, which
// best begin with a cache line. It panics if there are fewer.
func NewImage(f fp16.Format, n, c, h, w, frame int, memory []float32) *Image {
	if min(n, c, h, w, frame) < 0 || f == fp16.Float64 {
		panic("conv: an image has no negative dimension and no float64 numbers")
	}
	m := &Image{Format: f, N: n, C: c, H: h, W: w, Frame: frame}
	m.line, m.plane, m.samples = imageStrides(c, h, w, frame)
	if len(memory) < n*m.samples {
		panic("conv: too little memory for an image")
	}
	m.data = memory[:n*m.samples]
	return m
}

// part returns channels from first on, whole blocks of them, as an image that shares
// m's memory.
func (m *Image) part(first, channels int) Image {
	p := *m
	p.C, p.data = channels, m.data[first/block*m.plane:]
	return p
}

// Blocks returns the blocks of 8 channels of a sample.
func (m *Image) Blocks() int { return (m.C + block - 1) / block }

// Row returns the W pixels of line y of a block of channels, [W][8].
func (m *Image) Row(n, b, y int) []float32 {
	at := m.at(n, b, y, 0)
	return m.data[at : at+m.W*block : at+m.W*block]
}

// Plane returns a block of channels from its first pixel to its last one: line
// y begins at y*Stride. Between the lines lies what is not of the H x W pixels.
func (m *Image) Plane(n, b int) []float32 {
	if m.H == 0 || m.W == 0 {
		return nil
	}
	lo, hi := m.at(n, b, 0, 0), m.at(n, b, m.H-1, m.W)
	return m.data[lo:hi:hi]
}

// Stride returns the numbers from a line of a plane to the next.
func (m *Image) Stride() int { return m.line }

// at returns where a pixel lies; y and x may be in the frame.
func (m *Image) at(n, b, y, x int) int {
	return n*m.samples + b*m.plane + (y+m.Frame)*m.line + (x+m.Frame)*block
}

// FillFrame makes what lies around the pixels: padding next to them, as wide as
// the frame, zeros beyond. It panics if the image is too small for the padding.
func (m *Image) FillFrame(p Padding) {
	par.For(m.N*m.Blocks(), func(i int) { m.FillFrameOf(i/m.Blocks(), i%m.Blocks(), p) })
}

// FillFrameOf is FillFrame of one block of channels.
func (m *Image) FillFrameOf(n, b int, p Padding) {
	if m.H == 0 || m.W == 0 {
		return
	}
	f := m.Frame
	rows, cols := up4(m.H)+2*f, up4(m.W)+2*f
	base := n*m.samples + b*m.plane
	line := func(y int) []float32 { return m.data[base+y*m.line:][:m.line] }
	for y := range m.H {
		l := line(y + f)
		if p == Zeros {
			clear(l[:f*block])
		} else {
			for x := range f {
				*pixel(l, x) = *pixel(l, f+p.Source(x-f, m.W))
				*pixel(l, f+m.W+x) = *pixel(l, f+p.Source(m.W+x, m.W))
			}
		}
		from := f + m.W
		if p != Zeros {
			from += f
		}
		clear(l[from*block : cols*block])
	}
	for y := range rows {
		switch i := y - f; {
		case i >= 0 && i < m.H:
		case p == Zeros || i >= m.H+f:
			clear(line(y))
		default:
			copy(line(y), line(f+p.Source(i, m.H)))
		}
	}
}

func pixel(line []float32, x int) *[block]float32 { return (*[block]float32)(line[x*block:]) }

// Source returns which of a line's n pixels a padding other than zeros reads at i, which may
// lie outside. It panics where the image is too small for such a padding, or it is Zeros.
func (p Padding) Source(i, n int) int {
	if i >= 0 && i < n {
		return i
	}
	switch p {
	case Circular:
		if i < -n || i >= 2*n {
			panic("conv: circular padding greater than the image")
		}
		return (i + n) % n
	case Reflect:
		if i <= -n || i >= 2*n-1 {
			panic("conv: reflect padding not less than the image")
		}
		return max(-i, min(i, 2*(n-1)-i))
	case Replicate:
		return min(max(i, 0), n-1)
	}
	panic("conv: unknown padding")
}

// From makes the pixels those of a tensor of the same shape, whose numbers must
// be of the float32 grid. It takes over the format, and leaves the frame.
func (m *Image) From(t *tensor.Tensor) {
	if t.N() != m.N || t.C() != m.C || t.H() != m.H || t.W() != m.W || t.Format == fp16.Float64 {
		panic("conv: an image of a tensor of another shape or of float64 numbers")
	}
	m.Format = t.Format
	zeros := make([]float64, m.W) // what a last block lacks
	blocks := m.Blocks()
	par.For(m.N*blocks*m.H, func(i int) {
		n, b, y := i/m.H/blocks, i/m.H%blocks, i%m.H
		var in [block][]float64
		for c := range in {
			in[c] = zeros
			if b*block+c < m.C {
				in[c] = t.Plane(n, b*block+c)[y*m.W:][:m.W]
			}
		}
		packLine(m.Row(n, b, y), &in)
	})
}

// To sets a tensor of the same shape and format to the pixels.
func (m *Image) To(t *tensor.Tensor) {
	if t.N() != m.N || t.C() != m.C || t.H() != m.H || t.W() != m.W || t.Format != m.Format {
		panic("conv: a tensor of an image of another shape or format")
	}
	blocks := m.Blocks()
	par.For(m.N*blocks*m.H, func(i int) {
		n, b, y := i/m.H/blocks, i/m.H%blocks, i%m.H
		var out [block][]float64
		channels := min(block, m.C-b*block)
		row, x := m.Row(n, b, y), 0
		if k := asm.WinogradKernels(); k != nil && channels == block && m.W >= 4 {
			x = m.W / 4 * 4
			k.Unpack(&row[0], &t.Plane(n, b*block)[y*m.W], m.H*m.W*8, x)
		}
		for c := range channels {
			out[c] = t.Plane(n, b*block+c)[y*m.W:][x:m.W]
		}
		unpackLine(row[x*block:], out[:channels])
	})
}

// packer is what asm.Winograd.Pack is given pointers to.
type packer struct {
	lines [block]*float64
	scale [block]float64 // zeros
	sums  [256]float64   // of squares, unread
}

var packers = sync.Pool{New: func() any { return new(packer) }}

// packLine lays lines of 8 channels out as pixels.
func packLine(row []float32, in *[block][]float64) {
	from, n := 0, len(in[0])
	if k := asm.WinogradKernels(); k != nil && n >= 8 {
		p := packers.Get().(*packer)
		for n-from >= 8 {
			for c := range in {
				p.lines[c] = &in[c][from]
			}
			pixels := min(len(p.sums), (n-from)/8*8)
			k.Pack(&p.lines, &p.scale, &row[from*block], &p.sums[0], pixels)
			from += pixels
		}
		clear(p.lines[:])
		packers.Put(p)
	}
	for c := range in {
		for x, v := range in[c][from:] {
			row[(from+x)*block+c] = float32(v)
		}
	}
}

// unpackLine makes lines of up to 8 channels of pixels.
func unpackLine(row []float32, out [][]float64) {
	for c, line := range out {
		for x := range line {
			line[x] = float64(row[x*block+c])
		}
	}
}
