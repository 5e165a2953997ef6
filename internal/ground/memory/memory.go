// Package memory says how much memory a process may have, and words what would take more. Who
// is about to take much adds up first what it takes, and asks: beyond what there is the system
// ends a process without a word.
package memory

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
)

// limit is what [Limit] set, 0 for what there is.
var limit atomic.Int64

// Limit sets how many bytes the process may have; 0 is for what there is.
func Limit(bytes int64) { limit.Store(bytes) }

// small is what nobody is asked for: any machine has it, and to ask takes longer than most of
// what small programs do.
const small = 64 << 20

// Fits returns an error if so many bytes, those included that the process has of them already,
// are more than it may have.
func Fits(bytes int64) error {
	most, whose := limit.Load(), "which --memory says"
	if most == 0 {
		if bytes <= small {
			return nil
		}
		if most, whose = there("/"); most == 0 {
			most, whose = unknown, "as machines have"
		}
		whose += "; --memory sets another limit"
	}
	if bytes <= most {
		return nil
	}
	return &Error{bytes, most, whose}
}

// unknown is the limit where the system is not asked: what is beyond no machine has.
const unknown = 1 << 46

// There returns how many bytes the process may have, 0 if that is not known.
func There() int64 {
	if most := limit.Load(); most > 0 {
		return most
	}
	most, _ := there("/")
	return most
}

// Error is the error of what takes more memory than there is.
type Error struct {
	Bytes, Most int64
	whose       string
}

// Error names both in one line.
func (e *Error) Error() string {
	bytes := Text(e.Bytes)
	if e.Bytes == math.MaxInt64 {
		bytes = "more than " + bytes
	}
	return fmt.Sprintf("takes %s of memory: want at most %s, %s", bytes, Text(e.Most), e.whose)
}

// units are those of sizes, a thousand of one in the next.
var units = []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}

// Text shows a number of bytes to three digits.
func Text(n int64) string {
	v, k := float64(n), 0
	for v >= 999.5 && k < len(units)-1 {
		v, k = v/1000, k+1
	}
	return fmt.Sprintf("%.3g %s", v, units[k])
}

// Parse reads a size such as 8GB, 512MiB or 1e9, which is bytes.
func Parse(text string) (int64, error) {
	number := strings.TrimRight(text, "BbiIkKmMgGtTpP ")
	unit := strings.ToUpper(strings.TrimSpace(text[len(number):]))
	scale, ok := 1., unit == "" || unit == "B"
	thousands := 1.
	for k, u := range []string{"K", "M", "G", "T", "P"} {
		thousands *= 1000
		switch unit {
		case u, u + "B":
			scale, ok = thousands, true
		case u + "I", u + "IB":
			scale, ok = math.Ldexp(1, 10*(k+1)), true
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if bytes := v * scale; err == nil && ok && bytes >= 1 && bytes < math.MaxInt64 {
		return int64(bytes), nil
	}
	return 0, fmt.Errorf("%.60q: want a size of 1 byte or more, such as 8GB, 512MiB or 1e9", text)
}

// Sum adds sizes; one beyond all numbers is the greatest there is.
func Sum(of ...int64) int64 {
	sum := int64(0)
	for _, n := range of {
		if sum > math.MaxInt64-n {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}

// Product multiplies sizes of 0 or more; one beyond all numbers is the greatest there is.
func Product(of ...int64) int64 {
	product := int64(1)
	for _, n := range of {
		if n == 0 {
			return 0
		}
		if product > math.MaxInt64/n {
			product = math.MaxInt64
			continue // a 0 may follow
		}
		product *= n
	}
	return product
}
