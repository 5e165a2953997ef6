package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/disk/faulty"
)

var faults = flag.String("faults", "",
	"all, or the beginning of scenarios' names: TestFaults fails every operation of these, not a sample of all")

// contents is what a folder holds, by name.
type contents map[string]string

func readFiles(t *testing.T, root string) contents {
	t.Helper()
	all := contents{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// restore makes a folder hold these files and no others.
func (f contents) restore(t *testing.T, root string) {
	t.Helper()
	is := readFiles(t, root)
	var errs []error
	for name := range is {
		if _, ok := f[name]; !ok {
			errs = append(errs, os.Remove(filepath.Join(root, name)))
		}
	}
	for name, text := range f {
		if was, ok := is[name]; ok && was == text {
			continue
		}
		errs = append(errs, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o777),
			os.WriteFile(filepath.Join(root, name), []byte(text), 0o666))
	}
	var dirs []string
	errs = append(errs, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root {
			dirs = append(dirs, path)
		}
		return err
	}))
	for _, dir := range slices.Backward(dirs) {
		os.Remove(dir) // if it is empty
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// scenario is one call of the command, in a folder as it is then.
type scenario struct {
	name string
	args []string
	// again is what a user does after a failure, and force, if there is one, what must work
	// in any case. Of a verb that reads only both are the call itself.
	again, force []string
	outputs      []string // the files that must be right in the end
	sealed       []string // of these, what verify knows
	before       contents
	right        contents
	answer       string // stdout of the undisturbed call
	code         int
}

// counts is a line of the table.
type counts struct{ points, once, resumed, clear, wrong int }

// seconds is what two calls say differently.
var seconds = regexp.MustCompile(`(?m)^.* on \d+ threads? \(.*\)$|[0-9.e+-]+ (sample-)?steps/s.*|memory: .*`)

// note is a line that says from where a run went on.
var note = regexp.MustCompile(`(?m)^note: .*: not the bytes that were written, so the run .*\n`)

// said is what a call printed, each line whole.
func said(r clitest.Result) string {
	return seconds.ReplaceAllString(strings.ReplaceAll(r.Stdout, "\n  ", " "), "")
}

// under runs the command on a system.
func under(t *testing.T, s disk.System, args []string) clitest.Result {
	t.Helper()
	restore := disk.Use(s)
	defer restore()
	return refrun(t, append(slices.Clone(args), "--threads", "1", "--quiet")...)
}

// calm runs the command on a system that does not fail, nor wait for a disk.
func calm(t *testing.T, root string, args []string) clitest.Result {
	t.Helper()
	s, err := faulty.New(root, faulty.None, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := under(t, s, args)
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	return r
}

// clearly says what is not right about a failure: it must be one line and a code that
// means it.
func clearly(r clitest.Result) string {
	line, ok := strings.CutSuffix(r.Stderr, "\n")
	switch {
	case r.Code != cli.ExitUsage && r.Code != cli.ExitResumable:
		return fmt.Sprintf("exit code %d", r.Code)
	case !ok || strings.Contains(line, "\n") || strings.Contains(line, "internal error") ||
		!strings.HasPrefix(line, "refrun "):
		return fmt.Sprintf("stderr %q", r.Stderr)
	}
	return ""
}

// point fails one operation and returns what came of it: "once", "resumed", "clear", or
// what is wrong. reached is false if there were not so many operations.
func (c *scenario) point(
	t *testing.T, root string, kind faulty.Kind, k int, seed uint64,
) (outcome string, reached bool) {
	t.Helper()
	c.before.restore(t, root)
	s, err := faulty.New(root, kind, k, seed)
	if err != nil {
		t.Fatal(err)
	}
	r := under(t, s, c.args)
	reached = s.Happened()
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	switch {
	case !reached && !kind.Crash():
		return "", false
	case r.Code == c.code:
		answer := said(r)
		if kind == faulty.Short { // a file that seems to end is one that is not as it was written
			answer = note.ReplaceAllString(answer, "")
		}
		if answer != c.answer {
			return fmt.Sprintf("another answer: %q", said(r)), reached
		}
		if why := c.wrong(root); why != "" {
			return "it said that all was well: " + why, reached
		}
		return "once", reached
	}
	if kind.Crash() {
		if !strings.Contains(r.Stderr, "the computer is off") { // a message that hides its cause
			return fmt.Sprintf("exit code %d after a crash: %q", r.Code, r.Stderr), reached
		}
	} else if why := clearly(r); why != "" {
		return why, reached
	}
	if out := said(r); !strings.HasPrefix(c.answer, out) && !someOf(out, c.answer) {
		return fmt.Sprintf("another answer and an error: %q", out), reached
	}
	if why := c.deceives(t, root); why != "" {
		return "after the fault: " + why, reached
	}
	left := readFiles(t, root)
	r = calm(t, root, c.again)
	if r.Code == c.code {
		if why := c.wrong(root); why != "" {
			return "again: it said that all was well: " + why, reached
		}
		return "resumed", reached
	}
	if why := clearly(r); why != "" {
		return "again: " + why, reached
	}
	if why := c.deceives(t, root); why != "" {
		return "again: " + why, reached
	}
	if c.force == nil {
		return "clear", reached
	}
	if now := calm(t, root, c.force); now.Code != c.code || c.wrong(root) != "" {
		return fmt.Sprintf("nothing helps: exit code %d, %s%s; files %v",
			now.Code, now.Stderr, c.wrong(root), slices.Sorted(maps.Keys(left))), reached
	}
	return "clear", reached
}

// someOf reports whether verify said of some files what it says of them undisturbed, and
// of the others that they were not verified.
func someOf(out, answer string) bool {
	for line := range strings.Lines(out) {
		if !strings.Contains(answer, line) && !strings.Contains(line, ": NOT VERIFIED: ") {
			return false
		}
	}
	return strings.Contains(out, ": NOT VERIFIED: ")
}

// wrong names a file that is not what it must be, or "".
func (c *scenario) wrong(root string) string {
	for _, name := range c.outputs {
		b, err := os.ReadFile(filepath.Join(root, name))
		switch {
		case err != nil:
			return name + ": missing"
		case string(b) != c.right[name]:
			return name + ": other bytes"
		}
	}
	return ""
}

// deceives names a file that verifies, or that is whole by its name alone, and is
// wrong, or "". The file of before is not.
func (c *scenario) deceives(t *testing.T, root string) string {
	for _, name := range c.outputs {
		b, err := os.ReadFile(filepath.Join(root, name))
		old, was := c.before[name]
		if err != nil || string(b) == c.right[name] || was && string(b) == old {
			continue
		}
		if slices.Contains(c.sealed, name) && calm(t, root, []string{"verify", name}).Code != cli.ExitOK {
			continue
		}
		return name + ": other bytes, and nothing says so"
	}
	return ""
}

// prepare learns what the undisturbed call does.
func (c *scenario) prepare(t *testing.T, root string) {
	t.Helper()
	c.before.restore(t, root)
	r := calm(t, root, c.args)
	c.code, c.answer, c.right = r.Code, said(r), readFiles(t, root)
	if r.Code == cli.ExitUsage {
		t.Fatalf("%s: %s", c.name, r.Stderr)
	}
	for _, name := range c.outputs {
		if c.right[name] == "" {
			t.Fatalf("%s: no %s", c.name, name)
		}
	}
}

// operations returns how many operations of the undisturbed call a kind hits, and at which a crash leaves something
// else than at the one before.
func (c *scenario) operations(t *testing.T, root string, kind faulty.Kind) (int, []int) {
	t.Helper()
	c.before.restore(t, root)
	s, err := faulty.New(root, kind, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r := under(t, s, c.args); r.Code != c.code {
		t.Fatalf("%s: exit code %d undisturbed: %s", c.name, r.Code, r.Stderr)
	}
	n, turns := s.Count(), s.Turns()
	s.End()
	return n, turns
}

// points are the operations that a kind of fault hits in turn: all of its own; of crashes those that leave something
// else than the one before, and one when all is done.
func (c *scenario) points(t *testing.T, root string, kind faulty.Kind) []int {
	t.Helper()
	n, turns := c.operations(t, root, kind)
	if kind.Crash() {
		return append(turns, n+1)
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// TestFaults lets each operation of the file system fail, in each way, while the command
// works, and a crash take back what was not durable. After it the command must end with
// the right bytes when it is called again, or say clearly that it cannot; there is never
// a file that verifies and is wrong, and never another verdict. A sample of the points
// begins at another one each day; -faults all does every one.
func TestFaults(t *testing.T) {
	all := *faults != ""
	root := t.TempDir()
	t.Chdir(root)
	scenarios := faultScenarios(t, root)
	day := int(time.Now().Unix() / 86400)
	t.Logf("day %d of the sample", day)
	row := "%-62.62s %-19v %7v %6v %6v %6v %6v"
	t.Logf(row, "scenario", "fault", "points", "once", "again", "clear", "wrong")
	var sum counts
	for _, c := range scenarios {
		if *faults != "all" && !strings.HasPrefix(c.name, *faults) {
			continue
		}
		c.prepare(t, root)
		crashes := c.points(t, root, faulty.CrashKeeps)
		for _, kind := range faulty.Kinds {
			var n counts
			points, step := crashes, 1
			if !kind.Crash() {
				points = c.points(t, root, kind)
			}
			if !all {
				step = max(1, len(points))
			}
			for i := day % step; i < len(points); i += step {
				k := points[i]
				for seed := range map[bool]uint64{true: 3, false: 1}[kind == faulty.CrashRandom && all] {
					outcome, reached := c.point(t, root, kind, k, seed+uint64(day))
					if !reached {
						continue
					}
					n.points++
					switch outcome {
					case "once":
						n.once++
					case "resumed":
						n.resumed++
					case "clear":
						n.clear++
					default:
						n.wrong++
						t.Errorf("%s: %v at operation %d, seed %d: %.400s", c.name, kind, k, seed+uint64(day), outcome)
					}
				}
			}
			t.Logf(row, c.name, kind, n.points, n.once, n.resumed, n.clear, n.wrong)
			sum = counts{sum.points + n.points, sum.once + n.once, sum.resumed + n.resumed, sum.clear + n.clear,
				sum.wrong + n.wrong}
		}
		runtime.GC()
	}
	t.Logf(row, "all", "", sum.points, sum.once, sum.resumed, sum.clear, sum.wrong)
	some := all && *faults != "all" // of which each may have a way on
	if sum.points < 100 || sum.once == 0 || sum.resumed == 0 || sum.clear == 0 && !some {
		t.Errorf("%+v: the faults do not reach the command", sum)
	}
}
