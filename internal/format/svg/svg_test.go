package svg

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"image/png"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// elements parses a picture and returns its elements by name.
func elements(t *testing.T, s string) map[string][]map[string]string {
	t.Helper()
	all := map[string][]map[string]string{}
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		tok, err := d.Token()
		if tok == nil {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, s)
		}
		if e, ok := tok.(xml.StartElement); ok {
			attrs := map[string]string{}
			for _, a := range e.Attr {
				attrs[a.Name.Local] = a.Value
			}
			all[e.Name.Local] = append(all[e.Name.Local], attrs)
		}
	}
}

func points(t *testing.T, s string) (xs, ys []float64) {
	t.Helper()
	for _, p := range strings.Fields(s) {
		x, y, _ := strings.Cut(p, ",")
		fx, err1 := strconv.ParseFloat(x, 64)
		fy, err2 := strconv.ParseFloat(y, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("point %q", p)
		}
		xs, ys = append(xs, fx), append(ys, fy)
	}
	return xs, ys
}

// TestChart: equal ratios are equal distances, a gap interrupts a line, and
// everything stays in the frame.
func TestChart(t *testing.T) {
	c := Chart{W: 500, H: 300, XLabel: "step", Upward: []Mark{{3, "horizon <1>"}}, Across: []Mark{{1, "expected"}},
		Series: []Series{
			{"a", []float64{1, 2, 3, 4, 5, 6, 7}, []float64{0.1, 1, 10, math.NaN(), 100, 0, 1000}},
			{"b", []float64{1, 7}, []float64{5, 5}},
		}}
	s := c.String()
	e := elements(t, s)
	lines := e["polyline"]
	if len(lines) != 2 || lines[0]["class"] != "s0" || lines[1]["class"] != "s1" {
		t.Fatalf("lines %v: want one of a's first three points and b", lines)
	}
	xs, ys := points(t, lines[0]["points"])
	if len(xs) != 3 || xs[1]-xs[0] != xs[2]-xs[1] || math.Abs(ys[0]-ys[1]-(ys[1]-ys[2])) > 0.02 || !(ys[0] > ys[1]) {
		t.Errorf("points %v %v: want even steps, upwards", xs, ys)
	}
	if len(e["circle"]) != 7 {
		t.Errorf("%d dots: want one for each visible number", len(e["circle"]))
	}
	for name, list := range e {
		for _, a := range list {
			for key, v := range a {
				if f, err := strconv.ParseFloat(v, 64); err == nil && (f < 0 || f > 500 || strings.HasPrefix(key, "y") && f > 300) {
					t.Errorf("%s %s = %v lies outside", name, key, v)
				}
			}
		}
	}
	for _, want := range []string{"horizon &lt;1&gt;", ">expected<", ">1e-1<", ">1e3<", ">step<", ">a<"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s", want)
		}
	}
	// Nothing to draw, a single point, and one value are drawn all the same.
	for _, c := range []Chart{{W: 100, H: 100}, {W: 100, H: 100, Series: []Series{{"a", []float64{3}, []float64{7}}}},
		{W: 100, H: 100, Series: []Series{{"a", []float64{1, 2}, []float64{math.Inf(1), math.NaN()}}}}} {
		if s := c.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%+v: %s", c, s)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, k := range []struct {
		lo, hi float64
		want   []float64
	}{
		{1, 100, []float64{20, 40, 60, 80, 100}}, {0, 8, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8}}, {1, 3, []float64{1, 2, 3}},
		{1, 499, []float64{100, 200, 300, 400}}, {0, 16, []float64{0, 2, 4, 6, 8, 10, 12, 14, 16}},
	} {
		if got := ticks(k.lo, k.hi); !slices.Equal(got, k.want) {
			t.Errorf("%v to %v: %v, want %v", k.lo, k.hi, got, k.want)
		}
	}
	for e := -30; e <= 30; e++ {
		if p := pow10(e); decade(p) != e || decade(math.Nextafter(p, 0)) != e-1 {
			t.Errorf("10^%d lies in decade %d, what is just below it in %d", e, decade(p), decade(math.Nextafter(p, 0)))
		}
	}
}

// TestBars: heights grow with the logarithm, 0 has no bar.
func TestBars(t *testing.T) {
	e := elements(t, Bars(400, 200, []string{"0", "1", "2"}, []int{1000, 0, 1}))
	if len(e["rect"]) != 2 {
		t.Fatalf("%d bars, want 2", len(e["rect"]))
	}
	var h [2]float64
	for i, r := range e["rect"] {
		fmt.Sscan(r["height"], &h[i])
	}
	if !(h[0] > 5*h[1] && h[1] > 5 && h[0] <= 200-top-bottom) {
		t.Errorf("heights %v: want both to be seen, 1000 far above 1 and in the frame", h)
	}
}

// TestHeat: pixel by pixel, the sign is the colour and the size its strength.
func TestHeat(t *testing.T) {
	s := Heat(100, 2, 3, []float64{-1, 0, 1, math.NaN(), 0.5, 40}, 1)
	m := regexp.MustCompile(`base64,([^"]*)"`).FindStringSubmatch(s)
	if m == nil {
		t.Fatal("no picture")
	}
	img, err := png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(m[1])))
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 3 || b.Dy() != 2 {
		t.Fatalf("picture of %v, want 3x2", b)
	}
	at := func(x, y int) (r, b int) {
		cr, _, cb, _ := img.At(x, y).RGBA()
		return int(cr >> 8), int(cb >> 8)
	}
	for _, k := range []struct {
		x, y, r, b int
	}{{0, 0, 25, 180}, {1, 0, 240, 238}, {2, 0, 190, 30}, {0, 1, 0, 0}, {1, 1, 215, 134}, {2, 1, 190, 30}} {
		if r, b := at(k.x, k.y); r != k.r || b != k.b {
			t.Errorf("pixel %d,%d: red %d, blue %d, want %d, %d", k.x, k.y, r, b, k.r, k.b)
		}
	}
	elements(t, s)
	elements(t, Legend(200, 12))
	if len(Heat(100, 128, 128, make([]float64, 128*128), 1)) > 20000 {
		t.Error("a map of 128x128 takes more than 20 kB")
	}
}
