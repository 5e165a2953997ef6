package pointwise

import "math"

func init() {
	register(
		function{"abs", nil, nil, abs, nil},
		function{"neg", nil, nil, neg, nil},
		function{"sign", nil, nil, sign, nil},
		function{"floor", nil, nil, floor, nil},
		function{"ceil", nil, nil, ceil, nil},
		function{"trunc", nil, nil, trunc, nil},
		function{"round", nil, nil, round, nil},
		function{"logical_not", nil, nil, logicalNot, nil},
		function{"isnan", nil, nil, isNaN, nil},
		function{"isinf", []param{{"detect_negative", 1, number}, {"detect_positive", 1, number}}, nil, isInf, nil},
	)
}

// The functions of this file are exact, for every number.

func abs(x float64, _ *args) (y, bound float64) { return math.Abs(x), 0 }

func neg(x float64, _ *args) (y, bound float64) { return -x, 0 }

// sign returns -1, 0 or 1, for both zeros +0.
func sign(x float64, _ *args) (y, bound float64) {
	switch {
	case x > 0:
		return 1, 0
	case x < 0:
		return -1, 0
	case x == 0:
		return 0, 0
	}
	return x, 0
}

func floor(x float64, _ *args) (y, bound float64) { return math.Floor(x), 0 }

func ceil(x float64, _ *args) (y, bound float64) { return math.Ceil(x), 0 }

func trunc(x float64, _ *args) (y, bound float64) { return math.Trunc(x), 0 }

// round returns the nearest whole number, of two the even one.
func round(x float64, _ *args) (y, bound float64) { return math.RoundToEven(x), 0 }

// logicalNot returns 1 for the zeros, 0 for everything else.
func logicalNot(x float64, _ *args) (y, bound float64) { return truth(x == 0), 0 }

func isNaN(x float64, _ *args) (y, bound float64) { return truth(x != x), 0 }

// isInf returns 1 for an infinity whose sign is asked for.
func isInf(x float64, p *args) (y, bound float64) {
	return truth(x == -inf && p[0] != 0 || x == inf && p[1] != 0), 0
}

func truth(b bool) float64 {
	v := 0 // without a branch
	if b {
		v = 1
	}
	return float64(v)
}
