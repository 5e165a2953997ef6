package cli

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// friendly is the value of a flag that takes numbers and times as people write them, and says
// with an example what it wants.
type friendly struct {
	flag.Getter
	name string
	read func(string) (string, bool) // rewrites what the value itself does not take
	want string
	bad  *error
}

// friendly makes the flags with numbers and times so; what is wrong with one is set in bad.
func (c *Command) friendly(bad *error) {
	c.Flags.VisitAll(func(f *flag.Flag) {
		g, ok := f.Value.(flag.Getter)
		if !ok {
			return
		}
		v := friendly{Getter: g, name: Dashed(f), bad: bad}
		switch g.Get().(type) {
		case int, uint64:
			v.read, v.want = ReadCount, "a whole number, such as 500 or 1e6"
		case float64:
			v.read, v.want = readNumber, "a number, such as 0.5 or 1e-6"
		case time.Duration:
			v.read, v.want = readTime, "a time, such as 30s, 5m or 1h30m"
		default:
			return
		}
		f.Value = v
	})
}

func (v friendly) Set(text string) error {
	plain, ok := v.read(strings.TrimSpace(text))
	if ok && v.Getter.Set(plain) == nil {
		return nil
	}
	*v.bad = fmt.Errorf("%s: %.60q: want %s", v.name, text, v.want)
	return *v.bad
}

// ReadCount takes 1e6 and 2.5e3 for what they are.
func ReadCount(text string) (string, bool) {
	if x, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, "eE.") &&
		!strings.HasPrefix(text, "0x") {
		return strconv.FormatFloat(x, 'f', -1, 64), x == math.Trunc(x) && math.Abs(x) < 1<<53
	}
	return text, true
}

func readNumber(text string) (string, bool) {
	_, err := strconv.ParseFloat(text, 64) // what is too large is no number; NaN is refused by its range
	return text, err == nil
}

// readTime takes 5min and 30 sec too.
func readTime(text string) (string, bool) {
	return strings.NewReplacer(" ", "", "hours", "h", "hour", "h", "minutes", "m", "minute", "m", "min", "m", "seconds",
		"s", "second", "s", "sec", "s").Replace(text), true
}
