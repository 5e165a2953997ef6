package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	plottext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/refrun/refrun/internal/disk"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/study"
)

// The size of the picture, its legend and its resolution.
const (
	pictureWidth  = 9.5 * vg.Inch
	pictureHeight = 5.2 * vg.Inch
	legendWidth   = 2.4 * vg.Inch
	pictureDPI    = 110
)

// The colours of the twins (Okabe and Ito's, which colour-blind people tell
// apart).
var twinColour = map[string]color.RGBA{
	study.Moved: {0, 0, 0, 255},
	study.Other: {150, 150, 150, 255},
	"float64":   {0, 158, 115, 255},
	"tf32":      {204, 121, 167, 255},
	"float16":   {0, 114, 178, 255},
	"bfloat16":  {213, 94, 0, 255},
}

// draw writes the picture: the logarithm of the distance over the steps, of
// every twin its path (solid) and its single steps (dashed), medians over the
// operators, with the horizons marked. The name's ending, .png or .svg, decides
// what it is.
func (r *studyReport) draw(path string) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Distance from the float32 rollout: %s, %s, noise %s", plural(len(r.Operators), "operator"), plural(r.Realizations, "realization"), r.Noise)
	p.X.Label.Text = "step"
	p.Y.Label.Text = "RMS distance / standard deviation of the state"
	// The axis is linear and the curves are logarithms: the library places the
	// label of a logarithmic axis far off.
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(stepTicks), plot.TickerFunc(decadeTicks)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{222}, color.Gray{222}
	p.Add(grid)

	legend := plot.NewLegend()
	for style, size := range map[*plottext.Style]vg.Length{
		&p.Title.TextStyle: 13, &legend.TextStyle: 11, &p.X.Label.TextStyle: 12, &p.Y.Label.TextStyle: 12, &p.X.Tick.Label: 11, &p.Y.Tick.Label: 11,
	} {
		style.Font.Variant, style.Font.Size = "Sans", size
	}
	p.Title.Padding, p.X.Padding, p.Y.Padding = 8, 0, 0
	legend.Top, legend.Left, legend.YPosition, legend.Padding = true, true, draw.PosCenter, 3
	legend.ThumbnailWidth = 26
	marks := plotter.XYs{}
	low, high := math.Inf(1), math.Inf(-1)
	paths, singles := false, false // whether any is drawn
	for i, row := range r.Rows {
		colour := twinColour[row.Twin]
		along := r.medians(i, func(t study.Twin) []study.Distance { return t.Path })
		single := r.medians(i, func(t study.Twin) []study.Distance { return t.OneStep })
		for _, points := range []plotter.XYs{along, single} {
			for _, xy := range points {
				low, high = min(low, xy.Y), max(high, xy.Y)
			}
		}
		paths, singles = paths || len(along) > 0, singles || len(single) > 0
		if len(single) > 0 {
			line, err := plotter.NewLine(single)
			if err != nil {
				return err
			}
			line.Color, line.Width, line.Dashes = colour, 1.3, []vg.Length{5, 3}
			p.Add(line)
		}
		if len(along) == 0 {
			continue
		}
		line, err := plotter.NewLine(along)
		if err != nil {
			return err
		}
		line.Color, line.Width = colour, 2
		p.Add(line)
		legend.Add(row.What, line)
		if h := r.middleHorizon(i); h > 0 {
			for _, xy := range along {
				if xy.X == float64(h) {
					marks = append(marks, xy)
				}
			}
		}
	}
	if !(low <= high) { // nothing differs anywhere
		low, high = -8, 0
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(r.Steps), math.Floor(low), math.Floor(high)+1
	for _, style := range []struct {
		what   string
		drawn  bool
		dashes []vg.Length
	}{{"solid: the path", paths, nil}, {"dashed: one step from\nthe same state", singles, []vg.Length{5, 3}}} {
		if !style.drawn {
			continue
		}
		legend.Add(style.what, &plotter.Line{LineStyle: draw.LineStyle{Color: color.Gray{90}, Width: 1.6, Dashes: style.dashes}})
	}
	if len(marks) > 0 {
		s, err := plotter.NewScatter(marks)
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: color.Black, Radius: 4.5, Shape: draw.RingGlyph{}}
		p.Add(s)
		legend.Add("horizon: half the distance\nof unrelated paths", s)
	}
	return savePicture(path, p, &legend)
}

// medians returns a curve of a twin, row i: the logarithm of the median over the
// operators at every step, without zeros and infinities, which have none.
func (r *studyReport) medians(i int, of func(study.Twin) []study.Distance) plotter.XYs {
	var curve plotter.XYs
	for t := range of(r.Operators[0].Twins[i]) {
		var at []float64
		for _, o := range r.Operators {
			at = append(at, float64(of(o.Twins[i])[t].RMSOverStd))
		}
		if y := median(at); y > 0 && !math.IsInf(y, 1) {
			curve = append(curve, plotter.XY{X: float64(t + 1), Y: math.Log10(y)})
		}
	}
	return curve
}

// middleHorizon returns the first step at which at least half of the operators
// are beyond the horizon of the twin in row i, 0 if there is none.
func (r *studyReport) middleHorizon(i int) int {
	var at []float64
	for _, h := range r.Rows[i].Horizons {
		if h != nil {
			at = append(at, float64(*h))
		} else {
			at = append(at, math.Inf(1))
		}
	}
	if m := median(at); !math.IsInf(m, 1) {
		return int(math.Ceil(m))
	}
	return 0
}

// stepTicks puts about seven labels at round steps.
func stepTicks(low, high float64) []plot.Tick {
	every := 1.0
	for i := 0; (high-low)/every > 8; i++ { // 1, 2, 5, 10, 20, ...
		every *= []float64{2, 2.5, 2}[i%3]
	}
	var ticks []plot.Tick
	for v := low; v <= high; v += every {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprint(v)})
	}
	return ticks
}

// decadeTicks labels every whole logarithm with its number, and puts small
// ticks between.
func decadeTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for e := low; e <= high; e++ {
		ticks = append(ticks, plot.Tick{Value: e, Label: map[bool]string{true: "1", false: fmt.Sprintf("1e%+d", int(e))}[e == 0]})
		for k := 2.; k < 10 && e < high; k++ {
			ticks = append(ticks, plot.Tick{Value: e + math.Log10(k)})
		}
	}
	return ticks
}

// savePicture draws the plot with its legend beside it, and writes it.
func savePicture(path string, p *plot.Plot, legend *plot.Legend) error {
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if strings.EqualFold(filepath.Ext(path), ".svg") {
		canvas = vgsvg.New(pictureWidth, pictureHeight)
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(pictureWidth, pictureHeight), vgimg.UseDPI(pictureDPI))}
	}
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	p.Draw(draw.Crop(all, 6, -legendWidth, 6, -6))
	legend.Draw(draw.Crop(all, pictureWidth-legendWidth+10, 0, 0, -36))
	err := disk.Replace(path, 0o666, func(w io.Writer) error {
		_, err := canvas.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("--png: %s: %w", path, fault.Cause(err))
	}
	return nil
}
