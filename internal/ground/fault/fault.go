// Package fault words what is wrong with a file, in one line that names the
// file, the field, the value found and what was expected. What a hostile file
// says is quoted and shortened on the way.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/refrun/refrun/internal/ground/disk"
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
	return strings.ToValidUTF8(s[:most], "") + "..." // no part of a rune
}

// Printable makes text that may come from anywhere fit for one line: what does not
// print, such as a line's end, an escape that moves a terminal's cursor, or a mark
// that turns the direction of writing, is written as in Go source.
func Printable(s string) string {
	ok := func(r rune) bool { return strconv.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if ok(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
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

// Cause drops the path that errors of package os repeat, where a message begins
// with it.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}

// OpenRegular opens the regular file at path and returns its size. What is none is
// not opened, since opening a pipe waits for its writer; the error is an [*Error].
func OpenRegular(path string) (disk.File, int64, error) {
	info, err := disk.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &Error{Path: path, Field: "file", Value: Kind(info.Mode()), Want: "a regular file"}
	}
	f, err := disk.Open(path)
	return f, info.Size(), err
}

// Kind says what a file that is not regular is: "a directory", for instance.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// MostUnpacked returns how many bytes may come of compressed ones. Numbers shrink to a
// third or a tenth, and small arrays of one number to anything; what is beyond both is
// taken for what it most likely is, a few bytes that shall fill a memory or a day.
func MostUnpacked(packed int64) int64 {
	const small, times = 32 << 20, 64
	if packed > (math.MaxInt64-small)/times {
		return math.MaxInt64
	}
	return small + times*packed
}
