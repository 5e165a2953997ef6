package cli

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress tells a person how long work will take: one line that is
// overwritten on a terminal, a line every 30 seconds elsewhere.
type Progress struct {
	w        io.Writer
	What     string
	terminal bool
	Began    time.Time
	last     time.Time
}

func (c *Command) Progress(what string) *Progress {
	if c.quiet {
		return nil
	}
	p := &Progress{w: c.stderr, What: what, Began: time.Now(), last: time.Now()}
	if f, ok := c.stderr.(*os.File); ok {
		st, err := f.Stat()
		p.terminal = err == nil && st.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// Step says how much is done of a total, 0 if nobody knows that.
func (p *Progress) Step(done, total int) {
	if !p.Due() {
		return
	}
	if total == 0 {
		p.Show(fmt.Sprintf("%s: %d", p.What, done), 0)
		return
	}
	p.Show(fmt.Sprintf("%s: %d of %d", p.What, done, total), float64(done)/float64(total))
}

// Due reports whether it is time for a line.
func (p *Progress) Due() bool {
	if p == nil {
		return false
	}
	every := 30 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if time.Since(p.last) < every {
		return false
	}
	p.last = time.Now()
	return true
}

// Show shows a line, and how long the rest takes.
func (p *Progress) Show(line string, share float64) {
	if share > 0 { // else nobody knows
		left := time.Duration(float64(time.Since(p.Began)) * (1 - share) / share)
		line += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(p.w, line)
	}
}

// Stage is step for work of several stages, each of which counts anew.
func (p *Progress) Stage(what string, done, total int) {
	if p == nil {
		return
	}
	if p.What != what {
		p.What, p.Began = what, time.Now()
	}
	p.Step(done, total)
}

// Done clears the line of a terminal.
func (p *Progress) Done() {
	if p != nil && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
