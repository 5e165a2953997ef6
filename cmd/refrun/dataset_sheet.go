package main

import (
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/refrun/refrun/internal/disk"
	"github.com/refrun/refrun/internal/fault"
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

// Measures of a sheet.
const (
	cell        = 72 * vg.Length(1)
	cellGap     = 4 * vg.Length(1)
	labelWidth  = 118 * vg.Length(1)
	limitWidth  = 46 * vg.Length(1)
	titleHeight = 13 * vg.Length(1)
	sheetMargin = 10 * vg.Length(1)
)

// draw writes the sheet as what the file's name ends with.
func (s *sheet) draw(path string) error {
	across := max(s.across, 1)
	down := (len(s.rows) + across - 1) / across
	most := 0
	for _, r := range s.rows {
		most = max(most, len(r.pictures))
	}
	column := labelWidth + vg.Length(most)*(cell+cellGap) + limitWidth
	heights := make([]vg.Length, down) // of each line of rows
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
	width := 2*sheetMargin + column*vg.Length(across)
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if strings.EqualFold(filepath.Ext(path), ".svg") {
		canvas = vgsvg.New(width, height)
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144), vgimg.UseBackgroundColor(color.White))}
	}
	s.paint(canvas, width, height, column, down, heights)
	err := disk.Replace(path, 0o666, func(w io.Writer) error { _, err := canvas.WriteTo(w); return err })
	if err != nil {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}

// face returns the letters of a size.
func face(size vg.Length) font.Face {
	return font.DefaultCache.Lookup(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
}

func (s *sheet) paint(c vg.Canvas, width, height, column vg.Length, down int, heights []vg.Length) {
	write := func(size, x, y vg.Length, grey uint8, text string) {
		c.SetColor(color.Gray{grey})
		c.FillString(face(size), vg.Point{X: x, Y: y}, text)
	}
	var all vg.Path
	all.Move(vg.Point{})
	all.Line(vg.Point{X: width})
	all.Line(vg.Point{X: width, Y: height})
	all.Line(vg.Point{Y: height})
	all.Close()
	c.SetColor(color.White)
	c.Fill(all)
	write(12, sheetMargin, height-sheetMargin-10, 0, s.title)
	y := height - 2*sheetMargin - titleHeight
	for i, r := range s.rows {
		if i%down == 0 {
			y = height - 2*sheetMargin - titleHeight
		}
		left, top := sheetMargin+column*vg.Length(i/down), y
		if !r.untitled {
			top -= titleHeight
		}
		for k, line := range r.label {
			write(8.5, left, top-9-vg.Length(k)*11, map[bool]uint8{true: 0, false: 90}[k == 0], line)
		}
		limit := r.limit()
		for k, p := range r.pictures {
			x := left + labelWidth + vg.Length(k)*(cell+cellGap)
			if !r.untitled {
				write(8.5, x, top+3, 60, p.title)
			}
			box := vg.Rectangle{Min: vg.Point{X: x, Y: top - cell}, Max: vg.Point{X: x + cell, Y: top}}
			c.DrawImage(box, p.image(limit))
		}
		write(8.5, left+labelWidth+vg.Length(len(r.pictures))*(cell+cellGap), top-cell/2-3, 60, fmt.Sprintf("±%.3g", limit))
		y -= heights[i%down]
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
