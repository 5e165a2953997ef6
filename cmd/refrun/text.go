package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/ground/fault"
)

// num formats a figure with three significant digits.
func num(x diff.Number) string {
	v := float64(x)
	if v == 0 {
		return "0"
	}
	if a := math.Abs(v); a >= 0.01 && a < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2e", v)
}

// beyond formats a figure that exceeds a limit, with as many digits as that takes to see.
func beyond(x diff.Number, limit float64) string {
	s := num(x)
	if v, err := strconv.ParseFloat(s, 64); err == nil && v <= limit && float64(x) > limit {
		return strconv.FormatFloat(float64(x), 'g', -1, 64)
	}
	return s
}

// plural returns "1 step" or "3 steps".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sample returns the indices of at most n rows of a table of len rows: the
// first, the last, and even steps between.
func sample(len, n int) []int {
	if len <= n {
		n = len
	}
	var at []int
	for i := range n {
		if n == 1 {
			at = append(at, 0)
		} else {
			at = append(at, i*(len-1)/(n-1))
		}
	}
	return at
}

// clean makes text that may come from anywhere fit for one line on a terminal:
// what does not print is written as in Go source, and of a long text the middle
// is left out, since a message begins with the field and ends with what is
// wanted there.
func clean(s string) string {
	const end = 500
	if len(s) > 2*end {
		s = strings.ToValidUTF8(s[:end], "") + " ... " + strings.ToValidUTF8(s[len(s)-end:], "")
	}
	return fault.Printable(s)
}
