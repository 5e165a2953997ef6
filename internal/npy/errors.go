package npy

import (
	"fmt"
	"strconv"
	"strings"
)

// Error says what is wrong with a file, in one line:
// "<path>: <field>: <value>: want <expectation>".
type Error struct {
	Path  string // of the file; empty when writing
	Field string // such as `shape`, or `"weight" shape` for an array of an archive
	Value string // what was found, shortened
	Want  string // what would have been right
}

// Error returns the line.
func (e *Error) Error() string {
	path := e.Path
	if path == "" {
		path = "npy"
	}
	return fmt.Sprintf("%s: %s: %s: want %s", path, e.Field, e.Value, e.Want)
}

// source is where an array comes from or goes to: a file, or an entry of an
// archive.
type source struct {
	path, entry string
}

func (s source) wrong(field, value, want string) error {
	if s.entry != "" {
		field = text(s.entry) + " " + field
	}
	return &Error{s.path, field, value, want}
}

// clip keeps what a hostile file says to a length fit for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// text quotes s, so that it stays on one line.
func text(s string) string { return strconv.Quote(clip(s)) }

func shapeText(shape []int) string {
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

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
