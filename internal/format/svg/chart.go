package svg

import (
	"fmt"
	"math"
)

// Series is a line of a [Chart]. Points that are not finite, or not positive,
// interrupt it.
type Series struct {
	Name string
	X, Y []float64
}

// Mark is a labelled vertical or horizontal line of a [Chart].
type Mark struct {
	At   float64
	Name string
}

// Chart draws lines over a linear axis, with a logarithmic one upwards. Line
// number k has class "s<k>", marks have class "mark", the axes "axis", the grid
// "grid".
type Chart struct {
	W, H           float64
	XLabel         string
	Series         []Series
	Across, Upward []Mark // horizontal lines, at a y; vertical ones, at an x
}

// The margins of a chart, for labels and the legend.
const (
	left, right = 64.0, 16.0
	top, bottom = 30.0, 40.0
)

// String returns the chart as an svg element.
func (k Chart) String() string {
	c := New(k.W, k.H)
	x0, x1, e0, e1 := k.bounds()
	lo, hi := float64(e0), float64(e1)
	px := func(x float64) float64 { return left + (x-x0)/(x1-x0)*(k.W-left-right) }
	py := func(y float64) float64 { return top + (hi-log10(y))/(hi-lo)*(k.H-top-bottom) }

	k.axes(c, px, py)
	legend := left
	for i, s := range k.Series {
		class := fmt.Sprintf("s%d", i)
		c.Line(legend, 14, legend+18, 14, class)
		c.Text(legend+24, 18, "start", "label", s.Name)
		legend += 40 + 7*float64(len([]rune(s.Name)))
		s.draw(c, class, px, py)
	}
	return c.String()
}

// axes draws the grid, the axes with their labels, and the marks. px and py are the places of numbers.
func (k Chart) axes(c *Canvas, px, py func(v float64) float64) {
	x0, x1, e0, e1 := k.bounds()
	every := max(1, (e1-e0+5)/6)
	for e := e0; e <= e1; e += every {
		y := py(pow10(e))
		c.Line(left, y, k.W-right, y, "grid")
		c.Text(left-8, y+4, "end", "label", fmt.Sprintf("1e%d", e))
	}
	for _, x := range ticks(x0, x1) {
		c.Line(px(x), k.H-bottom, px(x), k.H-bottom+4, "axis")
		c.Text(px(x), k.H-bottom+18, "middle", "label", fmt.Sprint(x))
	}
	c.Line(left, k.H-bottom, k.W-right, k.H-bottom, "axis")
	c.Text((left+k.W-right)/2, k.H-6, "middle", "label", k.XLabel)
	for _, m := range k.Across {
		if y := py(m.At); y >= top && y <= k.H-bottom {
			c.Line(left, y, k.W-right, y, "mark")
			c.Text(k.W-right-4, y-4, "end", "label", m.Name)
		}
	}
	for _, m := range k.Upward {
		if x := px(m.At); x >= left && x <= k.W-right {
			c.Line(x, top, x, k.H-bottom, "mark")
			anchor, at := "start", x+4
			if x > k.W*0.7 {
				anchor, at = "end", x-4
			}
			c.Text(at, top+10, anchor, "label", m.Name)
		}
	}
}

// draw draws a series as lines between its visible points, and few points as dots.
func (s Series) draw(c *Canvas, class string, px, py func(v float64) float64) {
	var run [][2]float64
	flush := func() {
		if len(run) > 1 {
			c.Path(run, class)
		}
		run = nil
	}
	for j, y := range s.Y {
		if !visible(y) {
			flush()
			continue
		}
		p := [2]float64{px(s.X[j]), py(y)}
		run = append(run, p)
		if len(s.Y) <= 60 {
			c.Dot(p[0], p[1], 2.5, class, fmt.Sprintf("%s at %v: %.3g", s.Name, s.X[j], y))
		}
	}
	flush()
}

// bounds returns the range of x, and the decades that hold every y and mark.
func (k Chart) bounds() (x0, x1 float64, e0, e1 int) {
	x0, x1 = math.Inf(1), math.Inf(-1)
	y0, y1 := math.Inf(1), math.Inf(-1)
	for _, s := range k.Series {
		for i, y := range s.Y {
			x0, x1 = min(x0, s.X[i]), max(x1, s.X[i])
			if visible(y) {
				y0, y1 = min(y0, y), max(y1, y)
			}
		}
	}
	for _, m := range k.Across {
		if visible(m.At) {
			y0, y1 = min(y0, m.At), max(y1, m.At)
		}
	}
	if !(x1 > x0) {
		if !(x0 <= x1) {
			x0, x1 = 0, 0
		}
		x0, x1 = x0-1, x1+1
	}
	if !(y0 <= y1) {
		y0, y1 = 1, 1
	}
	e0, e1 = decade(y0), decade(y1)
	if pow10(e1) < y1 || e1 == e0 {
		e1++
	}
	return x0, x1, e0, e1
}

func visible(y float64) bool { return y > 0 && !math.IsInf(y, 1) }

// ticks returns up to eight round numbers from lo to hi.
func ticks(lo, hi float64) []float64 {
	step := pow10(decade((hi - lo) / 8))
	for _, f := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(f*step) <= 8 {
			step *= f
			break
		}
	}
	step = max(step, 1) // steps are counted in whole numbers
	var all []float64
	for i := math.Floor(lo / step); i*step <= hi; i++ {
		if i*step >= lo {
			all = append(all, i*step)
		}
	}
	return all
}
