package hdf5

import (
	"fmt"
	"strconv"
	"strings"
)

// Error says what is wrong with a file or with what shall be written to one,
// in one line: "<path>: <field>: <value>: want <expectation>".
type Error struct {
	Path  string // of the file; empty for one that is being written
	Field string // such as `"/trajectories" chunk [0,3]`
	Value string // what was found, shortened
	Want  string // what would have been right
}

// Error returns the line.
func (e *Error) Error() string {
	path := e.Path
	if path == "" {
		path = "hdf5"
	}
	return fmt.Sprintf("%s: %s: %s: want %s", path, e.Field, e.Value, e.Want)
}

// text quotes s, shortened, so that it stays on one line.
func text(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}

// dims writes a shape or an index.
func dims(shape []int) string {
	var b strings.Builder
	for i, d := range shape {
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len() > 60 {
			b.WriteString("...")
			break
		}
		b.WriteString(strconv.Itoa(d))
	}
	return "[" + b.String() + "]"
}

func plural[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}
