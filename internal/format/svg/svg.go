// Package svg writes small pictures as SVG text, to stand inside a page: lines
// over steps, bars, and maps. Colours come from the page's style sheet, by
// class, so that a picture follows the reader's light or dark theme.
package svg

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Canvas is a picture in the making; y grows downwards.
type Canvas struct {
	w, h float64
	b    strings.Builder
}

// New returns an empty picture of that size, in CSS pixels.
func New(w, h float64) *Canvas { return &Canvas{w: w, h: h} }

// Line draws a line.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string) {
	c.printf(`<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, num(x1), num(y1), num(x2), num(y2), escape(class))
}

// Path draws lines from point to point, [x,y] each.
func (c *Canvas) Path(points [][2]float64, class string) {
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(num(p[0]) + "," + num(p[1]))
	}
	c.printf(`<polyline points="%s" class="%s"/>`, b.String(), escape(class))
}

// Dot draws a point; tip, if not "", is shown where a pointer rests on it.
func (c *Canvas) Dot(x, y, r float64, class, tip string) {
	c.printf(`<circle cx="%s" cy="%s" r="%s" class="%s">%s</circle>`, num(x), num(y), num(r), escape(class), title(tip))
}

// Rect draws a rectangle.
func (c *Canvas) Rect(x, y, w, h float64, class, tip string) {
	c.printf(`<rect x="%s" y="%s" width="%s" height="%s" class="%s">%s</rect>`,
		num(x), num(y), num(w), num(h), escape(class), title(tip))
}

// Text writes a text; anchor is start, middle or end.
func (c *Canvas) Text(x, y float64, anchor, class, text string) {
	c.printf(`<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`,
		num(x), num(y), escape(anchor), escape(class), escape(text))
}

// String returns the picture as an svg element.
func (c *Canvas) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img">`,
		num(c.w), num(c.h), num(c.w), num(c.h)) +
		"\n" + c.b.String() + "</svg>"
}

func (c *Canvas) printf(format string, args ...any) {
	fmt.Fprintf(&c.b, format+"\n", args...)
}

func title(s string) string {
	if s == "" {
		return ""
	}
	return "<title>" + escape(s) + "</title>"
}

// num writes a coordinate, to a hundredth of a pixel.
func num(v float64) string {
	s := strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// escape makes text that may come from anywhere fit for an element or an attribute.
func escape(s string) string { return entities.Replace(fault.Printable(s)) }

var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")
