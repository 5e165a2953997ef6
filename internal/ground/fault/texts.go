package fault

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Markdown makes text that may come from anywhere fit for a line of Markdown, in which it means
// nothing but itself: no tag, link, table, code or emphasis.
func Markdown(s string) string { return plain.Replace(Printable(strings.Join(strings.Fields(s), " "))) }

var plain = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;")

// PlainJSON writes what does not print in JSON text as its strings may: \u202e. JSON
// itself escapes only what is below a space.
func PlainJSON(text []byte) []byte {
	var b []byte
	for _, r := range string(text) {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r < 0x10000:
			b = fmt.Appendf(b, "\\u%04x", r)
		default:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, "\\u%04x\\u%04x", hi, lo)
		}
	}
	return b
}
