package about

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
)

var Man = cli.Verb{
	Name:    "man",
	Summary: "the manual page, of the same text as --help",
	Help: `Prints a page for man(1), with all verbs and flags:

  refrun man >~/.local/share/man/man1/refrun.1

example: refrun man`,
	Run: man,
}

func man(c *cli.Command) error {
	if err := c.Parse(0); err != nil {
		return err
	}
	if c.Json {
		return fmt.Errorf("--json: a manual page is no JSON: want it without")
	}
	writeMan(c.Stdout, c.All)
	return nil
}

func writeMan(w io.Writer, verbs []cli.Verb) {
	fmt.Fprintf(w, ".TH REFRUN 1 \"\" \"refrun %s\"\n.nh\n.ad l\n.SH NAME\n"+
		"refrun \\- is the output of a GPU right? exact arithmetic on the CPU says it\n", cli.Version)
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B refrun\nVERB [flags]\n.SH DESCRIPTION\n%s\n.SH VERBS\n", roff(cli.ExitCodes))
	cli.EachVerb(verbs, func(v cli.Verb, flags []*flag.Flag) {
		fmt.Fprintf(w, ".SS \"%s\"\n%s\n%s",
			roff(strings.TrimSpace("refrun "+v.Name+" "+v.Args)), roff(v.Summary), paragraphs(v.Help))
		for _, f := range flags {
			arg, text := cli.FlagText(f)
			fmt.Fprintf(w, ".TP\n.B \"%s\"\n%s\n", roff(strings.TrimSpace(cli.Dashed(f)+" "+arg)), roff(text))
		}
	})
}

// paragraphs lets man break the lines of prose; what is set out in lines, such as a command, stays as it is.
func paragraphs(text string) string {
	var b strings.Builder
	for _, p := range strings.Split(cli.Folded(text), "\n\n") {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") || strings.HasPrefix(p, "example") {
			p = "\n.nf\n.in -7n\n" + roff(p) + "\n.in\n.fi\n" // as far left as in --help, or it is too wide
		} else {
			p = "\n" + roff(p) + "\n"
		}
		b.WriteString(".PP" + p)
	}
	return b.String()
}

// roff makes a text fit for a manual page: no character and no beginning of a line is a command.
func roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-", "\"", "\\(dq").Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = "\\&" + l
		}
	}
	return strings.Join(lines, "\n")
}
