package dataset

import (
	"fmt"
	"image"
	"image/color"
	"math"

	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/internal/ground/fault"
)

// sheet is a picture of small pictures in rows.
type sheet struct {
	title  string
	across int // columns of rows beside each other; 0 is 1
	rows   []sheetRow
}

type sheetRow struct {
	label    []string // lines
	untitled bool     // its pictures have no titles of their own
	pictures []picture
}

// picture is numbers, row by row, of so many columns.
type picture struct {
	v     []float64
	width int
	title string
}

// Measures of a sheet, in points.
const (
	cell        = 72.0
	cellGap     = 4.0
	labelWidth  = 118.0
	limitWidth  = 46.0
	titleHeight = 13.0
	sheetMargin = 10.0
)

// draw writes the sheet, as SVG.
func (s *sheet) draw(path string) error {
	across := max(s.across, 1)
	down := (len(s.rows) + across - 1) / across
	most := 0
	for _, r := range s.rows {
		most = max(most, len(r.pictures))
	}
	column := labelWidth + float64(most)*(cell+cellGap) + limitWidth
	heights := make([]float64, down) // of each line of rows
	height := 3*sheetMargin + titleHeight
	for i, r := range s.rows {
		h := cell + cellGap
		if !r.untitled {
			h += titleHeight
		}
		heights[i%down] = max(heights[i%down], h)
	}
	for _, h := range heights {
		height += h
	}
	f := &files.Figure{W: 2*sheetMargin + column*float64(across), H: height}
	s.paint(f, column, down, heights)
	if err := f.Save(path); err != nil {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}

func (s *sheet) paint(f *files.Figure, column float64, down int, heights []float64) {
	write := func(size, x, y float64, shade uint8, text string) {
		f.Label(files.Spot{X: x, Y: y}, size, files.AtStart, text).Colour = files.Grey(shade)
	}
	const first = 2*sheetMargin + titleHeight
	write(12, sheetMargin, sheetMargin+10, 0, s.title)
	y := 0.0
	for i, r := range s.rows {
		if i%down == 0 {
			y = first
		}
		left, top := sheetMargin+column*float64(i/down), y
		if !r.untitled {
			top += titleHeight
		}
		for k, line := range r.label {
			write(8.5, left, top+9+float64(k)*11, map[bool]uint8{true: 0, false: 90}[k == 0], line)
		}
		limit := r.limit()
		for k, p := range r.pictures {
			x := left + labelWidth + float64(k)*(cell+cellGap)
			if !r.untitled {
				write(8.5, x, top-3, 60, p.title)
			}
			f.Picture(files.Spot{X: x, Y: top}, files.Spot{X: x + cell, Y: top + cell}, p.image(limit))
		}
		write(8.5, left+labelWidth+float64(len(r.pictures))*(cell+cellGap), top+cell/2+3, 60, fmt.Sprintf("±%.3g", limit))
		y += heights[i%down]
	}
}

// limit is the largest absolute value of a row, at which colours are full.
func (r sheetRow) limit() float64 {
	most := 0.0
	for _, p := range r.pictures {
		for _, v := range p.v {
			if a := math.Abs(v); a > most && !math.IsInf(a, 0) {
				most = a
			}
		}
	}
	return most
}

// image paints the numbers, each a square of so many pixels that a renderer's smoothing
// does not reach far: blue below zero, red above, black where there is none.
func (p picture) image(limit float64) image.Image {
	h := len(p.v) / p.width
	zoom := max(1, 288/max(p.width, h))
	m := image.NewRGBA(image.Rect(0, 0, p.width*zoom, h*zoom))
	for i, v := range p.v {
		c := diverging(v, limit)
		for y := range zoom {
			for x := range zoom {
				m.SetRGBA(i%p.width*zoom+x, i/p.width*zoom+y, c)
			}
		}
	}
	return m
}

// diverging is the colour of a number.
func diverging(v, limit float64) color.RGBA {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return color.RGBA{0, 0, 0, 255}
	}
	u := 0.0
	if limit > 0 {
		u = math.Max(-1, math.Min(1, v/limit))
	}
	end := [3]float64{178, 24, 43}
	if u < 0 {
		end = [3]float64{33, 102, 172}
	}
	mix := func(k int) uint8 { return uint8(math.Round(247 + (end[k]-247)*math.Abs(u))) }
	return color.RGBA{mix(0), mix(1), mix(2), 255}
}
