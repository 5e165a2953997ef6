package main

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/oracle"
)

// num formats a figure with three significant digits.
func num(x oracle.Number) string {
	v := float64(x)
	if v == 0 {
		return "0"
	}
	if a := math.Abs(v); a >= 0.01 && a < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2e", v)
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
