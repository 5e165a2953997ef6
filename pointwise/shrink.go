package pointwise

func init() {
	register(function{"hardshrink", []param{{"lambd", 0.5, number}}, nil, hardshrink, nil})
}

// hardshrink is +0 within [-lambd, lambd], and x outside.
func hardshrink(x float64, p *args) (y, bound float64) {
	if -p[0] <= x && x <= p[0] {
		return 0, 0
	}
	return x, 0
}
