package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/refrun/refrun/dataset"
)

// progress tells a person how long work will take: one line that is
// overwritten on a terminal, a line every 30 seconds elsewhere.
type progress struct {
	w        io.Writer
	what     string
	terminal bool
	began    time.Time
	last     time.Time
}

func (c *command) progress(what string) *progress {
	if c.quiet {
		return nil
	}
	p := &progress{w: c.stderr, what: what, began: time.Now(), last: time.Now()}
	if f, ok := c.stderr.(*os.File); ok {
		st, err := f.Stat()
		p.terminal = err == nil && st.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// step says how much is done of a total, 0 if nobody knows that.
func (p *progress) step(done, total int) {
	if !p.due() {
		return
	}
	if total == 0 {
		p.show(fmt.Sprintf("%s: %d", p.what, done), 0)
		return
	}
	p.show(fmt.Sprintf("%s: %d of %d", p.what, done, total), float64(done)/float64(total))
}

// units is step for units of a dataset, of which some are larger than others.
// It says which are at hand, one for each worker, and the rate of the work.
func (p *progress) units(at dataset.Progress) {
	if !p.due() {
		return
	}
	line := fmt.Sprintf("%s: %d of %d, %.3g %% of the work, %.3g GFLOP/s",
		p.what, at.Done, at.Total, 100*at.Share, at.GFLOP/time.Since(p.began).Seconds())
	const most = 4
	for _, u := range at.At[:min(len(at.At), most)] {
		line += fmt.Sprintf(", unit %d %.0f %%", u.Unit, 100*u.Share)
	}
	if len(at.At) > most {
		line += fmt.Sprintf(" and %d more", len(at.At)-most)
	}
	p.show(line, at.Share)
}

// due reports whether it is time for a line.
func (p *progress) due() bool {
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

// show shows a line, and how long the rest takes.
func (p *progress) show(line string, share float64) {
	if share > 0 { // else nobody knows
		left := time.Duration(float64(time.Since(p.began)) * (1 - share) / share)
		line += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	} else {
		fmt.Fprintln(p.w, line)
	}
}

// stage is step for work of several stages, each of which counts anew.
func (p *progress) stage(what string, done, total int) {
	if p == nil {
		return
	}
	if p.what != what {
		p.what, p.began = what, time.Now()
	}
	p.step(done, total)
}

// done clears the line of a terminal.
func (p *progress) done() {
	if p != nil && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
