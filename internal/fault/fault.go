// Package fault words what is wrong with a file, in one line that names the
// file, the field, the value found and what was expected. What a hostile file
// says is quoted and shortened on the way.
package fault

import (
	"fmt"
	"strconv"
	"strings"
)

// Error is such a line: "<path>: <field>: <value>: want <expectation>".
type Error struct {
	Path  string // of the file; empty for one that is being written
	Field string // such as `"conv.weight" shape`
	Value string // what was found, shortened
	Want  string // what would have been right
}

// Error returns the line.
func (e *Error) Error() string {
	line := fmt.Sprintf("%s: %s: want %s", e.Field, e.Value, e.Want)
	if e.Path == "" {
		return line
	}
	return e.Path + ": " + line
}

// most is how much of a text or a shape is fit for a message.
const most = 60

// Clip shortens s.
func Clip(s string) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// Text quotes s, shortened, so that it stays on one line.
func Text(s string) string { return strconv.Quote(Clip(s)) }

// Dims writes a shape or an index, such as [2,3].
func Dims(shape []int) string {
	var b strings.Builder
	for i, d := range shape {
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len() > most {
			b.WriteString("...")
			break
		}
		b.WriteString(strconv.Itoa(d))
	}
	return "[" + b.String() + "]"
}

// Count returns "1 byte" or "3 bytes".
func Count[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}
