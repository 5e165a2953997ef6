package main

import (
	"bytes"
	_ "embed"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
)

// png writes the figure as PNG.
func (p *figure) png(w io.Writer) error {
	scale := p.dpi / 72
	letters, err := png.Decode(bytes.NewReader(glyphs))
	if err != nil {
		return err
	}
	m := image.NewRGBA(image.Rect(0, 0, int(math.Round(p.w*scale)), int(math.Round(p.h*scale))))
	for i := range m.Pix {
		m.Pix[i] = 255
	}
	c := canvas{m, letters, make([]float64, m.Rect.Dx()*m.Rect.Dy())}
	for _, s := range p.shapes {
		var at []spot
		for _, q := range s.points {
			at = append(at, spot{q.x * scale, q.y * scale})
		}
		switch {
		case s.image != nil:
			c.place(at[0], at[1], s.image)
		case s.text != "":
			c.write(at[0], s.width*scale, &s)
		case s.radius > 0:
			c.stroke(circle(at[0], s.radius*scale), s.width*scale, s.colour)
		default:
			for _, piece := range dashes(at, s.dash*scale) {
				c.stroke(piece, s.width*scale, s.colour)
			}
		}
	}
	return png.Encode(w, m)
}

// canvas is an image to draw on.
type canvas struct {
	m       *image.RGBA
	letters image.Image
	cover   []float64 // of each pixel, by the stroke at work; 0 between strokes
}

// stroke draws a line with round joins and ends, of that width in pixels. A pixel is covered as
// far as the distance of its centre from the line says.
func (c canvas) stroke(points []spot, width float64, colour color.RGBA) {
	half := width / 2
	reach := half + 1
	bounds := image.Rectangle{}
	for i := range points[1:] {
		a, b := points[i], points[i+1]
		r := image.Rect(int(min(a.x, b.x)-reach), int(min(a.y, b.y)-reach), int(max(a.x, b.x)+reach)+1, int(max(a.y, b.y)+reach)+1).Intersect(c.m.Rect)
		bounds = bounds.Union(r)
		for y := r.Min.Y; y < r.Max.Y; y++ {
			for x := r.Min.X; x < r.Max.X; x++ {
				at := &c.cover[y*c.m.Rect.Dx()+x]
				*at = max(*at, min(1, half+0.5-distance(spot{float64(x) + 0.5, float64(y) + 0.5}, a, b)))
			}
		}
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			at := &c.cover[y*c.m.Rect.Dx()+x]
			c.blend(x, y, colour, *at)
			*at = 0
		}
	}
}

// distance returns that of a point from the segment a b.
func distance(p, a, b spot) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	t := 0.0
	if d := dx*dx + dy*dy; d > 0 {
		t = min(1, max(0, ((p.x-a.x)*dx+(p.y-a.y)*dy)/d))
	}
	return math.Hypot(p.x-a.x-t*dx, p.y-a.y-t*dy)
}

func (c canvas) blend(x, y int, colour color.RGBA, cover float64) {
	if cover <= 0 || !(image.Pt(x, y).In(c.m.Rect)) {
		return
	}
	pix := c.m.Pix[c.m.PixOffset(x, y):]
	for i, v := range [3]uint8{colour.R, colour.G, colour.B} {
		pix[i] = uint8(math.Round(float64(pix[i]) + cover*(float64(v)-float64(pix[i]))))
	}
}

// place fills the rectangle between two corners with an image.
func (c canvas) place(from, to spot, m image.Image) {
	r := image.Rect(int(math.Round(from.x)), int(math.Round(from.y)), int(math.Round(to.x)), int(math.Round(to.y)))
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			u, v := (x-r.Min.X)*m.Bounds().Dx()/r.Dx(), (y-r.Min.Y)*m.Bounds().Dy()/r.Dy()
			c.m.Set(x, y, m.At(m.Bounds().Min.X+u, m.Bounds().Min.Y+v))
		}
	}
}

// circle returns a closed circle.
func circle(at spot, radius float64) (points []spot) {
	const n = 32
	for i := range n + 1 {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / n)
		points = append(points, spot{at.x + radius*cos, at.y + radius*sin})
	}
	return points
}

// dashes cuts a line into dashes of that length, or returns the whole line for 0.
func dashes(points []spot, dash float64) (pieces [][]spot) {
	if dash == 0 || len(points) == 0 {
		return [][]spot{points}
	}
	drawn, left := true, dash
	from := points[0]
	piece := []spot{from}
	for i := 1; i < len(points); {
		to := points[i]
		d := math.Hypot(to.x-from.x, to.y-from.y)
		if d <= left {
			left -= d
			piece, from = append(piece, to), to
			i++
			continue
		}
		at := spot{from.x + (to.x-from.x)*left/d, from.y + (to.y-from.y)*left/d}
		if drawn {
			pieces = append(pieces, append(piece, at))
		}
		drawn, piece, from = !drawn, []spot{at}, at
		left = map[bool]float64{true: dash, false: 0.6 * dash}[drawn]
	}
	if drawn {
		pieces = append(pieces, piece)
	}
	return pieces
}

// glyphs is the letters from ' ' to '~', then ± and ×, in white on black, a row for each size,
// drawn by scripts/_glyphs. The first pixel of a letter's cell says how wide it is.
//
//go:embed glyphs.png
var glyphs []byte

const (
	glyphWide, glyphHigh = 24, 28 // a cell
	glyphGap, glyphBase  = 2, 21  // where in the cell a letter stands

	glyphRows, glyphSize, glyphStep = 3, 11 * 110 / 72.0, 110 / 72.0 // the first row's letters, in pixels, and how many more the next one's have
)

// write draws a text, in the letters whose size in pixels is nearest.
func (c canvas) write(at spot, size float64, s *shape) {
	row := glyphHigh * int(min(glyphRows-1, max(0, math.Round((size-glyphSize)/glyphStep))))
	long := 0
	for _, letter := range s.text {
		long += c.wide(letter, row)
	}
	x, y := int(math.Round(at.x)), int(math.Round(at.y))
	before := map[anchor]int{atMiddle: long / 2, atEnd: long}[s.anchor]
	for _, letter := range s.text {
		for i := range glyphWide {
			for j := range glyphHigh {
				right, down := i-glyphGap-before, j-glyphBase
				if s.turned {
					right, down = down, -right
				}
				if i > 0 || j > 0 {
					c.blend(x+right, y+down, s.colour, c.grey(letter, i, row+j))
				}
			}
		}
		before -= c.wide(letter, row)
	}
}

// grey returns a pixel of a letter, that of '?' for what there is none of.
func (c canvas) grey(letter rune, x, y int) float64 {
	at := letter - ' '
	switch {
	case letter == '±':
		at = '~' - ' ' + 1
	case letter == '×':
		at = '~' - ' ' + 2
	case letter < ' ' || letter > '~':
		at = '?' - ' '
	}
	v, _, _, _ := c.letters.At(glyphWide*int(at)+x, y).RGBA()
	return float64(v) / 0xffff
}

func (c canvas) wide(letter rune, row int) int {
	return int(math.Round(255 * c.grey(letter, 0, row)))
}
