package render

// finite reports whether x is neither NaN nor an infinity.
func finite(x float64) bool { return x-x == 0 }
