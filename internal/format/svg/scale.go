package svg

import (
	"fmt"
	"math"
	"strconv"

	"github.com/refrun/refrun/internal/exact/elem"
)

// log10 returns the decimal logarithm of a positive number.
func log10(x float64) float64 { return elem.Log(x) / math.Ln10 }

// pow10 returns 10^e.
func pow10(e int) float64 {
	v, _ := strconv.ParseFloat(fmt.Sprintf("1e%d", e), 64)
	return v
}

// decade returns the largest e with 10^e <= y, for a positive y.
func decade(y float64) int {
	e := int(math.Floor(log10(y)))
	for pow10(e) > y {
		e--
	}
	for pow10(e+1) <= y {
		e++
	}
	return e
}
