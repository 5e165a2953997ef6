package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/refrun/refrun/internal/oracle/render"
)

// forCI is what a verb that judges tells CI: the files that it writes, and what it says in them.
type forCI struct {
	junit, sarif  string
	verdict, rule string // what was found, and the ID of the fault if one was named; "" leaves it to the exit code
	text          strings.Builder
	on            bool
}

// judges declares the flags of a verb that judges: --sarif, and --junit if the verb has no such flag of its own.
func (c *command) judges() {
	c.ci.on = true
	c.flags.StringVar(&c.ci.sarif, "sarif", "", "write the verdict as a SARIF `file`")
	if c.flags.Lookup("junit") == nil {
		c.flags.StringVar(&c.ci.junit, "junit", "", "write the verdict as a JUnit XML `file`")
	}
}

// validCI says what is wrong with the files for CI.
func (c *command) validCI() error {
	for _, name := range []string{"junit", "report", "csv", "o"} {
		f := c.flags.Lookup(name)
		if c.ci.sarif != "" && f != nil && filepath.Clean(c.ci.sarif) == filepath.Clean(f.Value.String()) {
			return fmt.Errorf("--sarif: %s: that of --%s: want two files", c.ci.sarif, name)
		}
	}
	return cmp.Or(writable("--junit", c.ci.junit), writable("--sarif", c.ci.sarif),
		apart("--junit", c.ci.junit, c.pos...), apart("--sarif", c.ci.sarif, c.pos...))
}

// tell writes the files for CI, and returns the error of the verb, or that of writing if a verdict does not arrive.
func (c *command) tell(err error) error {
	j := render.Judged{Verb: c.name, Version: version, Subject: c.subject(), Verdict: c.ci.verdict, Rule: c.ci.rule,
		Text: strings.TrimRight(c.ci.text.String(), "\n")}
	switch {
	case err == nil:
		j.Verdict = cmp.Or(j.Verdict, "PASS")
	case errors.Is(err, errFailed):
		j.Code, j.Verdict = exitFailed, cmp.Or(j.Verdict, "FAIL")
	case errors.Is(err, errNoPower):
		j.Code, j.Verdict = exitNoPower, cmp.Or(j.Verdict, "NO-POWER")
	default: // nothing was judged
		return err
	}
	return cmp.Or(written("--junit", c.ci.junit, j, render.WriteJudgedJUnit),
		written("--sarif", c.ci.sarif, j, render.WriteSARIF), err)
}

// subject is what was judged: the argument, or the file or folder of a flag.
func (c *command) subject() string {
	if len(c.pos) > 0 {
		return c.pos[0]
	}
	for _, name := range []string{"case", "onnx", "graph", "config"} {
		if f := c.flags.Lookup(name); f != nil && f.Value.String() != "" {
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
	return writeBytes(flag, path, b.Bytes())
}
