package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// LineWidth is how wide a terminal is at least.
const LineWidth = 80

// say writes lines for a person, none wider than a terminal; what has no end yet waits for it.
func (c *Command) say(text string) {
	lines := strings.SplitAfter(c.begun+text, "\n")
	c.begun = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		fmt.Fprintln(c.Stdout, narrow(strings.TrimSuffix(line, "\n")))
	}
}

// Ended writes what say left: the last line, if it has no end.
func (c *Command) Ended() {
	if c.begun != "" {
		fmt.Fprint(c.Stdout, narrow(c.begun))
	}
}

// narrow breaks a line that is too wide at spaces. What follows stands below the text that the
// last gap of two spaces precedes, as in a list, or is indented by two.
func narrow(line string) string {
	rest := []rune(line)
	if len(rest) <= LineWidth {
		return line
	}
	indent := len(rest) - len([]rune(strings.TrimLeft(line, " ")))
	begin, hang := indent, indent+2
	for i := hang; i < LineWidth/2; i++ {
		if rest[i] != ' ' && rest[i-1] == ' ' && rest[i-2] == ' ' {
			hang, begin = i, i
		}
	}
	var b strings.Builder
	for room := LineWidth; len(rest) > room; room = LineWidth - hang {
		at := room
		for at > begin && rest[at] != ' ' {
			at--
		}
		if at == begin && begin > indent && len(rest) == len([]rune(line)) { // no list, but a gap
			begin, hang = indent, indent+2
			continue
		}
		if at == begin { // a word that is wider
			at = begin + slices.Index(append(rest[begin:], ' '), ' ')
		}
		b.WriteString(strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
		if len(rest) == 0 {
			return b.String()
		}
		b.WriteString("\n" + strings.Repeat(" ", hang))
		begin = 0
	}
	return b.String() + string(rest)
}

// Wrap breaks a text at spaces into lines of at most lineWidth, all but the first indented. A
// word that is longer has a line of its own.
func Wrap(text string, indent int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch long := utf8.RuneCountInString(word); {
		case i > 0 && column+1+long > LineWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent) + word)
			column = indent + long
		case i > 0:
			b.WriteString(" " + word)
			column += 1 + long
		default:
			b.WriteString(word)
			column = long
		}
	}
	return b.String() + "\n"
}

// Hanging writes a term and, from a column on, what it means; on the next line if the term is
// too long.
func Hanging(term, text string, column int) string {
	pad := strings.Repeat(" ", column)
	if n := utf8.RuneCountInString(term); n < column {
		term += strings.Repeat(" ", column-n)
	} else {
		term += "\n" + pad
	}
	// The text is wrapped as if a word as wide as the column stood before it.
	body := strings.TrimPrefix(Wrap(strings.Repeat("x", column-1)+" "+text, column), strings.Repeat("x", column-1)+" ")
	return term + body
}

// Folded breaks a help text into lines of at most lineWidth: paragraphs at spaces, examples where a
// flag begins, as a shell takes them. Indented lines are entries of a list.
func Folded(help string) string {
	var out, paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, strings.TrimSuffix(Wrap(strings.Join(paragraph, " "), 0), "\n"))
		}
		paragraph = nil
	}
	for line := range strings.Lines(strings.TrimSpace(help) + "\n") {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "example: "):
			flush()
			out = append(out, continued(line))
		case line == "" || line[0] == ' ':
			flush()
			out = append(out, entry(line))
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

// continued breaks a command before flags and "&&".
func continued(line string) string {
	var b strings.Builder
	column := 0
	parts := strings.Split(strings.ReplaceAll(strings.ReplaceAll(line, " --", "\x00--"), " && ", "\x00&& "), "\x00")
	for i, part := range parts {
		if i > 0 && column+1+len(part)+2 > LineWidth {
			b.WriteString(" \\\n    ")
			column = 4
		} else if i > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(part)
		column += len(part)
	}
	return b.String()
}

// entry breaks an indented line that is too long under the text behind its last gap of spaces.
func entry(line string) string {
	at := strings.LastIndex(line, "  ") + 2
	if utf8.RuneCountInString(line) <= LineWidth || at >= LineWidth/2 {
		return line
	}
	return strings.TrimSuffix(Hanging(strings.TrimRight(line[:at], " "), line[at:], at), "\n")
}
