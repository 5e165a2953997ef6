package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// MostLine is how long a line on stderr may be.
const MostLine = 300

// complain says in one line what is wrong.
func complain(stderr io.Writer, who string, err error) {
	fmt.Fprintln(stderr, Shorten(who+": "+Clean(err.Error())))
}

// Shorten leaves out the middle of a line that is too long: it begins with file and
// field and ends with what is wanted there.
func Shorten(line string) string {
	const gap = " ... "
	if len(line) <= MostLine {
		return line
	}
	half := (MostLine - len(gap)) / 2
	return strings.ToValidUTF8(line[:half], "") + gap + strings.ToValidUTF8(line[len(line)-half:], "")
}

// output keeps the first error of writing, so that a full disk under stdout is
// not mistaken for success.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// PrintJSON writes v as the one object on stdout.
func (c *Command) PrintJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := c.Stdout.Write(fault.PlainJSON(b.Bytes()))
	return err
}

// Printf writes text for a person, unless JSON was asked for. Strings among the
// arguments may come from anywhere, and are made fit for one line: only the format
// decides where a line ends.
func (c *Command) Printf(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = fault.Printable(s)
		}
	}
	c.Print(fmt.Sprintf(format, args...))
}

// Print writes lines of text that is fit for a terminal already.
func (c *Command) Print(text string) {
	if c.Ci.on {
		c.Ci.text.WriteString(text)
	}
	if !c.Json {
		c.say(text)
	}
}

func usage(w io.Writer, verbs []Verb) {
	fmt.Fprintf(w, "refrun %s: is the output of a GPU right? exact arithmetic on the CPU says it\n\n", Version)
	for _, v := range verbs {
		args := v.Args
		if strings.Count(args, "|") > 3 {
			args = "VERB ..."
		}
		fmt.Fprint(w, Hanging("  refrun "+strings.TrimSpace(v.Name+" "+args), v.Summary, 26))
	}
	fmt.Fprint(w, "\n", Wrap("refrun VERB --help shows its flags and an example. "+ExitCodes, 0))
}

func (c *Command) printHelp(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n\nflags:\n",
		Wrap("usage: refrun "+strings.TrimSpace(c.Name+" "+c.Args)+" [flags]", 14), Folded(c.Help))
	c.Flags.VisitAll(func(f *flag.Flag) {
		arg, text := FlagText(f)
		fmt.Fprint(w, Hanging("  "+strings.TrimSpace(Dashed(f)+" "+arg), text, 23))
	})
}
