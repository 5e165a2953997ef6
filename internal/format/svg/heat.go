package svg

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
)

// Heat draws numbers over an image of h rows and w columns, v[i*w+j]: blue
// below zero, red above, the more so the larger, full at limit; black where
// there is no number. The pixels are a picture inside the SVG, and stay sharp.
func Heat(size float64, h, w int, v []float64, limit float64) string {
	if len(v) != h*w {
		panic("svg: values do not fill the map")
	}
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i, x := range v {
		img.SetRGBA(i%w, i/w, shade(x/limit))
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic("svg: " + err.Error()) // memory takes every byte
	}
	scale := size / float64(max(h, w, 1))
	c := New(float64(w)*scale, float64(h)*scale)
	c.printf(`<image width="%s" height="%s" preserveAspectRatio="none" style="image-rendering:pixelated" `+
		`href="data:image/png;base64,%s"/>`, num(c.w), num(c.h), base64.StdEncoding.EncodeToString(b.Bytes()))
	c.printf(`<rect width="%s" height="%s" class="frame"/>`, num(c.w), num(c.h))
	return c.String()
}

// Legend draws the colours of [Heat] from -limit to limit.
func Legend(w, limit float64) string {
	c := New(w, 34)
	const n = 41
	for i := range n {
		col := shade(float64(i-n/2) / (n / 2))
		c.printf(`<rect x="%s" y="0" width="%s" height="14" fill="%s"/>`,
			num(float64(i)*w/n), num(w/n+0.5), fmt.Sprintf("#%02x%02x%02x", col.R, col.G, col.B))
	}
	c.Text(0, 30, "start", "label", fmt.Sprintf("%.3g", -limit))
	c.Text(w/2, 30, "middle", "label", "0")
	c.Text(w, 30, "end", "label", fmt.Sprintf("%.3g", limit))
	return c.String()
}

// shade is the colour of a number in [-1,1], beyond which it stays: from blue
// over a light grey to red, in equal steps.
func shade(x float64) color.RGBA {
	if math.IsNaN(x) {
		return color.RGBA{0, 0, 0, 255}
	}
	x = max(-1, min(1, x))
	mid, end := [3]float64{240, 240, 238}, [3]float64{190, 20, 30}
	if x < 0 {
		end = [3]float64{25, 70, 180}
	}
	a := math.Abs(x)
	at := func(k int) uint8 { return uint8(mid[k] + float64(a*(end[k]-mid[k])) + 0.5) }
	return color.RGBA{at(0), at(1), at(2), 255}
}
