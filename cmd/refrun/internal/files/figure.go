package files

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"io"
	"path/filepath"
	"strings"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Figure is a drawing: lines, rings, text and images, from back to front, written as SVG. Lengths are
// points, 1/72 inch, from the upper left corner.
type Figure struct {
	W, H   float64
	shapes []shape
}

// shape is a stroke along points, a ring around one, a text at one, or an image between two.
type shape struct {
	points []Spot
	Colour color.RGBA
	width  float64 // of the stroke; of a text its size
	dash   float64 // length of a dash, gaps being 3/5 of it; 0 for a solid line
	radius float64 // of a ring around the first point
	text   string
	anchor anchor
	Turned bool // the text reads upwards
	image  image.Image
}

type Spot struct{ X, Y float64 }

// anchor says which end of a text stands at its point.
type anchor string

const (
	AtStart  anchor = "start"
	AtMiddle anchor = "middle"
	AtEnd    anchor = "end"
)

var Black = color.RGBA{0, 0, 0, 255}

func Grey(y uint8) color.RGBA { return color.RGBA{y, y, y, 255} }

func (p *Figure) Line(colour color.RGBA, width, dash float64, points ...Spot) {
	p.shapes = append(p.shapes, shape{points: points, Colour: colour, width: width, dash: dash})
}

func (p *Figure) Ring(at Spot, radius float64) {
	p.shapes = append(p.shapes, shape{points: []Spot{at}, Colour: Black, width: 1, radius: radius})
}

func (p *Figure) Label(at Spot, size float64, a anchor, text string) *shape {
	text = fault.Printable(text)
	p.shapes = append(p.shapes, shape{points: []Spot{at}, Colour: Black, width: size, text: text, anchor: a})
	return &p.shapes[len(p.shapes)-1]
}

func (p *Figure) Picture(from, to Spot, m image.Image) {
	p.shapes = append(p.shapes, shape{points: []Spot{from, to}, image: m})
}

// SvgName refuses the name of a file that no program would take for an SVG.
func SvgName(path string) error {
	if !strings.EqualFold(filepath.Ext(path), ".svg") {
		return fmt.Errorf("%s: want a name that ends in .svg", path)
	}
	return nil
}

// Save writes the figure to a file.
func (p *Figure) Save(path string) error { return disk.Replace(path, 0o666, p.svg) }

// svg writes the figure as SVG.
func (p *Figure) svg(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%gpt" height="%gpt" viewBox="0 0 %[1]g %[2]g" `+
		`font-family="Helvetica, Arial, sans-serif">`+"\n", p.W, p.H)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#ffffff"/>`+"\n", p.W, p.H)
	for _, s := range p.shapes {
		at, c := s.points[0], fmt.Sprintf("#%02x%02x%02x", s.Colour.R, s.Colour.G, s.Colour.B)
		switch {
		case s.image != nil:
			var data bytes.Buffer
			if err := png.Encode(&data, s.image); err != nil {
				return err
			}
			to := s.points[1]
			fmt.Fprintf(&b, `<image x="%.5g" y="%.5g" width="%.5g" height="%.5g" preserveAspectRatio="none" `+
				`image-rendering="pixelated" href="data:image/png;base64,%s"/>`+"\n", at.X, at.Y, to.X-at.X, to.Y-at.Y,
				base64.StdEncoding.EncodeToString(data.Bytes()))
		case s.text != "":
			turn := ""
			if s.Turned {
				turn = fmt.Sprintf(` transform="rotate(-90 %.4g %.4g)"`, at.X, at.Y)
			}
			fmt.Fprintf(&b, `<text x="%.4g" y="%.4g" font-size="%g" text-anchor="%s" fill="%s"%s>%s</text>`+"\n", at.X,
				at.Y, s.width, s.anchor, c, turn, html.EscapeString(s.text))
		case s.radius > 0:
			fmt.Fprintf(&b, `<circle cx="%.4g" cy="%.4g" r="%g" fill="none" stroke="%s" stroke-width="%g"/>`+"\n", at.X,
				at.Y, s.radius, c, s.width)
		default:
			dash := ""
			if s.dash > 0 {
				dash = fmt.Sprintf(` stroke-dasharray="%g,%g"`, s.dash, 0.6*s.dash)
			}
			b.WriteString(`<polyline points="`)
			for i, q := range s.points {
				fmt.Fprintf(&b, "%s%.5g,%.5g", map[bool]string{true: " "}[i > 0], q.X, q.Y)
			}
			fmt.Fprintf(&b, `" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"%s/>`+"\n", c, s.width, dash)
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
