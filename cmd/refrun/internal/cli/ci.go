package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/internal/oracle/render"
)

// forCI is what a verb that judges tells CI: the files that it writes, and what it says in them.
type forCI struct {
	junit, sarif  string
	Verdict, Rule string // what was found, and the ID of the fault if one was named; "" leaves it to the exit code
	text          strings.Builder
	on            bool
}

// Judges declares the flags of a verb that judges: --sarif, and --junit if the verb has no such flag of its own.
func (c *Command) Judges() {
	c.Ci.on = true
	c.Flags.StringVar(&c.Ci.sarif, "sarif", "", "write the verdict as a SARIF `file`")
	if c.Flags.Lookup("junit") == nil {
		c.Flags.StringVar(&c.Ci.junit, "junit", "", "write the verdict as a JUnit XML `file`")
	}
}

// validCI says what is wrong with the files for CI.
func (c *Command) validCI() error {
	for _, name := range []string{"junit", "report", "csv", "o"} {
		f := c.Flags.Lookup(name)
		if c.Ci.sarif != "" && f != nil && filepath.Clean(c.Ci.sarif) == filepath.Clean(f.Value.String()) {
			return fmt.Errorf("--sarif: %s: that of --%s: want two files", c.Ci.sarif, name)
		}
	}
	return cmp.Or(files.Writable("--junit", c.Ci.junit), files.Writable("--sarif", c.Ci.sarif),
		files.Apart("--junit", c.Ci.junit, c.Pos...), files.Apart("--sarif", c.Ci.sarif, c.Pos...))
}

// tell writes the files for CI, and returns the error of the verb, or that of writing if a verdict does not arrive.
func (c *Command) tell(err error) error {
	j := render.Judged{Verb: c.Name, Version: Version, Subject: c.subject(), Verdict: c.Ci.Verdict, Rule: c.Ci.Rule,
		Text: strings.TrimRight(c.Ci.text.String(), "\n")}
	switch {
	case err == nil:
		j.Verdict = cmp.Or(j.Verdict, "PASS")
	case errors.Is(err, ErrFailed):
		j.Code, j.Verdict = ExitFailed, cmp.Or(j.Verdict, "FAIL")
	case errors.Is(err, ErrNoPower):
		j.Code, j.Verdict = ExitNoPower, cmp.Or(j.Verdict, "NO-POWER")
	default: // nothing was judged
		return err
	}
	return cmp.Or(written("--junit", c.Ci.junit, j, render.WriteJudgedJUnit),
		written("--sarif", c.Ci.sarif, j, render.WriteSARIF), err)
}

// subject is what was judged: the argument, or the file or folder of a flag.
func (c *Command) subject() string {
	if len(c.Pos) > 0 {
		return c.Pos[0]
	}
	for _, name := range []string{"case", "onnx", "graph", "config"} {
		if f := c.Flags.Lookup(name); f != nil && f.Value.String() != "" {
			return f.Value.String()
		}
	}
	return "refrun"
}

func written(flag, path string, j render.Judged, to func(io.Writer, render.Judged) error) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := to(&b, j); err != nil {
		return err
	}
	return files.WriteBytes(flag, path, b.Bytes())
}
