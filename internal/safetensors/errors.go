package safetensors

import (
	"fmt"
	"strconv"
	"strings"
)

// Error says what is wrong with a file, in one line:
// "<path>: <field>: <value>: want <expectation>".
type Error struct {
	Path  string // of the file; empty for tensors that come from none
	Field string // such as `"conv.weight" shape`
	Value string // what was found, shortened
	Want  string // what would have been right
}

// Error returns the line.
func (e *Error) Error() string {
	path := e.Path
	if path == "" {
		path = "safetensors"
	}
	return fmt.Sprintf("%s: %s: %s: want %s", path, e.Field, e.Value, e.Want)
}

// wrong reports a field of t.
func (t *Tensor) wrong(field, value, want string) error {
	return &Error{t.path, text(t.Name) + " " + field, value, want}
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

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
