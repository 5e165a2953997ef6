package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
)

// Brief writes seconds for people.
func Brief(seconds float64) string {
	if seconds >= 1 {
		return fmt.Sprintf("%.3g s", seconds)
	}
	return fmt.Sprintf("%.3g ms", seconds*1e3)
}

// Size shows a number of bytes to three digits.
func Size(n int64) string { return memory.Text(n) }

// Short lists the first few names.
func Short(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

// Long writes a time for people in the unit that fits.
func Long(seconds float64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"days", 86400}, {"hours", 3600}, {"minutes", 60}} {
		if seconds >= 2*u.of {
			return fmt.Sprintf("%.3g %s", seconds/u.of, u.name)
		}
	}
	return Brief(seconds)
}

// Num formats a figure with three significant digits.
func Num(x diff.Number) string {
	v := float64(x)
	if v == 0 {
		return "0"
	}
	if a := math.Abs(v); a >= 0.01 && a < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2e", v)
}

// Beyond formats a figure that exceeds a limit, with as many digits as that takes to see.
func Beyond(x diff.Number, limit float64) string {
	s := Num(x)
	if v, err := strconv.ParseFloat(s, 64); err == nil && v <= limit && float64(x) > limit {
		return strconv.FormatFloat(float64(x), 'g', -1, 64)
	}
	return s
}

// Plural returns "1 step" or "3 steps".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Sample returns the indices of at most n rows of a table of len rows: the
// first, the last, and even steps between.
func Sample(len, n int) []int {
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

// Clean makes text that may come from anywhere fit for one line on a terminal:
// what does not print is written as in Go source, and of a long text the middle
// is left out, since a message begins with the field and ends with what is
// wanted there.
func Clean(s string) string {
	const end = 500
	if len(s) > 2*end {
		s = strings.ToValidUTF8(s[:end], "") + " ... " + strings.ToValidUTF8(s[len(s)-end:], "")
	}
	return fault.Printable(s)
}
