package svg

import "fmt"

// Bars draws counts as bars over a logarithmic axis: one bar of class "bar" a
// label, with the count above it. A count of 0 has no bar.
func Bars(w, h float64, labels []string, counts []int) string {
	c := New(w, h)
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	hi := log10(float64(most))
	wide := (w - 2*right) / float64(max(1, len(labels)))
	for i, n := range counts {
		x := right + float64(i)*wide
		if n > 0 {
			// One is a bar of its own: the axis begins at a third.
			share := (log10(float64(n)) + 0.5) / (hi + 0.5)
			y := h - bottom - share*(h-top-bottom)
			c.Rect(x+wide*0.1, y, wide*0.8, h-bottom-y, "bar", fmt.Sprintf("%s: %d", labels[i], n))
			c.Text(x+wide/2, y-4, "middle", "label", fmt.Sprint(n))
		}
		c.Text(x+wide/2, h-bottom+16, "middle", "label", labels[i])
	}
	c.Line(right, h-bottom, w-right, h-bottom, "axis")
	return c.String()
}
