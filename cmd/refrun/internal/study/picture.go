package study

import (
	"fmt"
	"image/color"
	"math"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/study"
)

// The size of the picture and, inside it, the corners of the plot.
const (
	pictureWidth, pictureHeight = 684, 374.4
	plotLeft, plotRight         = 56, 505
	plotTop, plotBottom         = 34, 334
)

// The colours of the twins (Okabe and Ito's, which colour-blind people tell
// apart).
var twinColour = map[string]color.RGBA{
	study.Moved:      {0, 0, 0, 255},
	study.Other:      {150, 150, 150, 255},
	"float64":        {0, 158, 115, 255},
	"float32:fast-7": {86, 180, 233, 255},
	"tf32":           {204, 121, 167, 255},
	"float16":        {0, 114, 178, 255},
	"bfloat16":       {213, 94, 0, 255},
}

// A path is a solid line and single steps are dashed.
const (
	pathWidth, singleWidth = 2, 1.3
	singleDash             = 5
	horizonRadius          = 4.5
)

// curves are a twin's medians over the operators: the logarithm of the distance at each step.
type curves struct {
	what         string
	colour       color.RGBA
	path, single []files.Spot
	horizon      *files.Spot // on the path, nil if there is none
}

// draw writes the picture: the logarithm of the distance over the steps, of
// every twin its path (solid) and its single steps (dashed), medians over the
// operators, with the horizons marked.
func (r *studyReport) draw(path string) error {
	var all []curves
	low, high := math.Inf(1), math.Inf(-1)
	for i, row := range r.Rows {
		c := curves{what: row.What, colour: twinColour[row.Twin]}
		c.path = r.medians(i, func(t study.Twin) []study.Distance { return t.Path })
		c.single = r.medians(i, func(t study.Twin) []study.Distance { return t.OneStep })
		h := float64(r.middleHorizon(i))
		for k, at := range c.path {
			if h > 0 && at.X == h {
				c.horizon = &c.path[k]
			}
		}
		for _, at := range append(c.path[:len(c.path):len(c.path)], c.single...) {
			low, high = min(low, at.Y), max(high, at.Y)
		}
		all = append(all, c)
	}
	if !(low <= high) { // nothing differs anywhere
		low, high = -8, 0
	}
	p := &files.Figure{W: pictureWidth, H: pictureHeight}
	title := fmt.Sprintf("Distance from the float32 rollout: %s, %s, noise %s",
		cli.Plural(len(r.Operators), "operator"), cli.Plural(r.Realizations, "realization"), r.Noise)
	p.Label(files.Spot{X: (plotLeft + plotRight) / 2, Y: 17}, 13, files.AtMiddle, title)
	a := axes{xHigh: float64(r.Steps), yLow: math.Floor(low), yHigh: math.Floor(high) + 1}
	a.draw(p)
	for _, c := range all {
		if len(c.single) > 0 {
			p.Line(c.colour, singleWidth, singleDash, a.places(c.single)...)
		}
	}
	for _, c := range all {
		if len(c.path) > 0 {
			p.Line(c.colour, pathWidth, 0, a.places(c.path)...)
		}
	}
	for _, c := range all {
		if c.horizon != nil {
			p.Ring(a.places([]files.Spot{*c.horizon})[0], horizonRadius)
		}
	}
	legend(p, all)
	if err := p.Save(path); err != nil {
		return fmt.Errorf("--svg: %s: %w", path, fault.Cause(err))
	}
	return nil
}

// legend names the lines beside the plot.
func legend(p *files.Figure, all []curves) {
	y := float64(plotTop + 14)
	entry := func(colour color.RGBA, width, dash float64, text ...string) {
		if width > 0 {
			p.Line(colour, width, dash, files.Spot{X: plotRight + 16, Y: y}, files.Spot{X: plotRight + 42, Y: y})
		} else {
			p.Ring(files.Spot{X: plotRight + 29, Y: y}, horizonRadius)
		}
		for k, line := range text {
			p.Label(files.Spot{X: plotRight + 46, Y: y + 4 + 12*float64(k)}, 11, files.AtStart, line)
		}
		y += 13 + 12*float64(len(text))
	}
	paths, singles, horizons := false, false, false
	for _, c := range all {
		if len(c.path) > 0 {
			entry(c.colour, pathWidth, 0, c.what)
		}
		paths, singles, horizons = paths || len(c.path) > 0, singles || len(c.single) > 0, horizons || c.horizon != nil
	}
	if paths {
		entry(files.Grey(90), 1.6, 0, "solid: the path")
	}
	if singles {
		entry(files.Grey(90), 1.6, singleDash, "dashed: one step from", "the same state")
	}
	if horizons {
		entry(files.Black, 0, 0, "horizon: half the distance", "of unrelated paths")
	}
}

// axes are those of steps from 0 on and of logarithms of distances.
type axes struct{ xHigh, yLow, yHigh float64 }

// places returns where points of the plot stand in the picture.
func (a axes) places(points []files.Spot) (at []files.Spot) {
	for _, q := range points {
		at = append(at, files.Spot{X: plotLeft + (plotRight-plotLeft)*q.X/a.xHigh,
			Y: plotBottom - (plotBottom-plotTop)*(q.Y-a.yLow)/(a.yHigh-a.yLow)})
	}
	return at
}

func (a axes) draw(p *files.Figure) {
	for _, t := range stepTicks(0, a.xHigh) {
		x := a.places([]files.Spot{{X: t.at, Y: a.yLow}})[0].X
		p.Line(files.Grey(222), 0.5, 0, files.Spot{X: x, Y: plotTop}, files.Spot{X: x, Y: plotBottom})
		p.Line(files.Black, 0.5, 0, files.Spot{X: x, Y: plotBottom}, files.Spot{X: x, Y: plotBottom + 6})
		p.Label(files.Spot{X: x, Y: plotBottom + 17}, 11, files.AtMiddle, t.label)
	}
	for _, t := range decadeTicks(a.yLow, a.yHigh) {
		y, long := a.places([]files.Spot{{X: 0, Y: t.at}})[0].Y, 3.0
		if t.label != "" {
			long = 6
			p.Line(files.Grey(222), 0.5, 0, files.Spot{X: plotLeft, Y: y}, files.Spot{X: plotRight, Y: y})
			p.Label(files.Spot{X: plotLeft - 9, Y: y + 4}, 11, files.AtEnd, t.label)
		}
		p.Line(files.Black, 0.5, 0, files.Spot{X: plotLeft - long, Y: y}, files.Spot{X: plotLeft, Y: y})
	}
	p.Line(files.Black, 0.5, 0, files.Spot{X: plotLeft, Y: plotTop}, files.Spot{X: plotLeft, Y: plotBottom},
		files.Spot{X: plotRight, Y: plotBottom})
	p.Label(files.Spot{X: (plotLeft + plotRight) / 2, Y: plotBottom + 32}, 12, files.AtMiddle, "step")
	p.Label(files.Spot{X: 14, Y: (plotTop + plotBottom) / 2}, 12, files.AtMiddle,
		"RMS distance / standard deviation of the state").Turned = true
}

// tick is a mark on an axis, with its label if it has one.
type tick struct {
	at    float64
	label string
}

// medians returns a curve of a twin, row i: the logarithm of the median over the
// operators at every step, without zeros and infinities, which have none.
func (r *studyReport) medians(i int, of func(study.Twin) []study.Distance) []files.Spot {
	var curve []files.Spot
	for t := range of(r.Operators[0].Twins[i]) {
		var at []float64
		for _, o := range r.Operators {
			at = append(at, float64(of(o.Twins[i])[t].RMSOverStd))
		}
		if y := median(at); y > 0 && !math.IsInf(y, 1) {
			curve = append(curve, files.Spot{X: float64(t + 1), Y: math.Log10(y)})
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
func stepTicks(low, high float64) []tick {
	every := 1.0
	for i := 0; (high-low)/every > 8; i++ { // 1, 2, 5, 10, 20, ...
		every *= []float64{2, 2.5, 2}[i%3]
	}
	var ticks []tick
	for v := low; v <= high; v += every {
		ticks = append(ticks, tick{v, fmt.Sprint(v)})
	}
	return ticks
}

// decadeTicks labels every whole logarithm with its number, and puts small
// ticks between.
func decadeTicks(low, high float64) []tick {
	var ticks []tick
	for e := low; e <= high; e++ {
		ticks = append(ticks, tick{e, map[bool]string{true: "1", false: fmt.Sprintf("1e%+d", int(e))}[e == 0]})
		for k := 2.; k < 10 && e < high; k++ {
			ticks = append(ticks, tick{e + math.Log10(k), ""})
		}
	}
	return ticks
}
