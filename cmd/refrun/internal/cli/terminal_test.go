package cli

import (
	"strings"
	"testing"
)

// TestNarrow: lines break at spaces, below the text of a list's entry; a word stays whole.
func TestNarrow(t *testing.T) {
	word := strings.Repeat("x", 90)
	for line, want := range map[string]string{
		"short":                   "short",
		strings.Repeat("ab ", 30): strings.Repeat("ab ", 26) + "ab\n  ab ab ab ",
		"note     " + strings.Repeat("abcd ", 17): "note     " + strings.Repeat("abcd ", 13) +
			"abcd\n         abcd abcd abcd ",
		"  a: " + word + " z":   "  a:\n    " + word + "\n    z",
		word:                    word,
		word + " z":             word + "\n  z",
		"    " + word:           "    " + word,
		strings.Repeat("é", 80): strings.Repeat("é", 80),
	} {
		if got := narrow(line); got != want {
			t.Errorf("%q:\n%q, want\n%q", line, got, want)
		}
	}
	var out strings.Builder
	c := &Command{Stdout: &out}
	c.say("a")
	c.say("b\nc")
	c.say("d")
	c.Ended()
	if got := out.String(); got != "ab\ncd" {
		t.Errorf("%q", got)
	}
}

// TestNumbers: numbers and times are taken as people write them.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"1e6": "1000000", "2.5e3": "2500", "500": "500", "1.0": "1", "1e-3": "", "x": "x", "0x10": "0x10",
	} {
		got, ok := ReadCount(text)
		if ok && got != want || !ok && want != "" {
			t.Errorf("%s: %q %v, want %q", text, got, ok, want)
		}
	}
	for text, want := range map[string]string{
		"5min": "5m", "30 sec": "30s", "2 hours": "2h", "90s": "90s", "1h30m": "1h30m",
	} {
		if got, _ := readTime(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
