// Command mutate measures the tests: it puts one fault after the other at random places of the code, and says which
// the tests of the package, or of those that import it, notice. See scripts/mutate.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

var (
	count = flag.Int("n", 100, "faults that compile")
	seed  = flag.Uint64("seed", 1, "of the places")
	from  = flag.Int("from", 1, "first `fault` to test: the ones before it are counted only")
	limit = flag.Duration("limit", 5*time.Minute,
		"for the tests of one fault; a package whose tests run longer has noticed it")
	near = flag.Bool("near", false, "run the tests of the fault's package alone, or of the nearest one that has tests:\n"+
		"what survives them may still be noticed by packages that import it")
	list = flag.Bool("list", false, "list the faults, test nothing")
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: scripts/mutate [flags] [packages]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "mutate: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, patterns []string) error {
	all, err := packages("./...")
	if err != nil {
		return err
	}
	targets := shipped(all)
	if len(patterns) > 0 {
		wanted, err := packages(patterns...)
		if err != nil {
			return err
		}
		targets = slices.DeleteFunc(targets, func(p *pkg) bool { return wanted[p.ImportPath] == nil })
	}
	lines, err := linesOf(targets)
	if err != nil {
		return err
	}
	fmt.Printf("%d lines can have a fault, in %d packages; seed %d\n", len(lines), len(targets), *seed)
	t, err := newTrial(ctx, all)
	if err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)

	// A line in place of a fault is drawn, so that a long expression is not more likely than a short one.
	random := rand.New(rand.NewPCG(*seed, 0))
	score := map[verdict]int{}
	var survivors []string
	for n := 1; n <= *count && len(lines) > 0 && ctx.Err() == nil; {
		i := random.IntN(len(lines))
		l := lines[i]
		lines = slices.Delete(lines, i, i+1)
		f := l.faults[random.IntN(len(l.faults))]
		if err := t.put(f); err != nil {
			return err
		}
		if !t.builds(l.pkg) {
			continue
		}
		place, err := filepath.Rel(t.root, f.file)
		if err != nil {
			return err
		}
		said := fmt.Sprintf("%s:%d: %s", filepath.ToSlash(place), f.line, f.what)
		if *list || n < *from {
			fmt.Printf("%3d %s\n", n, said)
			n++
			continue
		}
		began := time.Now()
		v, by := t.test(l.pkg)
		if ctx.Err() != nil {
			break
		}
		score[v]++
		said = fmt.Sprintf("%3d %s: %s", n, said, v)
		if by != "" {
			said += " by " + by
		}
		fmt.Printf("%s (%.0f s)\n", said, time.Since(began).Seconds())
		if v != killed {
			survivors = append(survivors, said)
		}
		n++
	}
	if *list {
		return nil
	}
	fmt.Printf("\n%d killed, %d survived, %d the same to the compiler\n",
		score[killed], score[survived]+score[late], score[same])
	for _, s := range survivors {
		fmt.Println(s)
	}
	return nil
}

// A line has the faults that can stand in it.
type line struct {
	pkg    *pkg
	faults []fault
}

func linesOf(targets []*pkg) ([]line, error) {
	var lines []line
	for _, p := range targets {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			byLine, err := faultsOf(path, source)
			if err != nil {
				return nil, err
			}
			numbers := make([]int, 0, len(byLine))
			for n := range byLine {
				numbers = append(numbers, n)
			}
			slices.Sort(numbers)
			for _, n := range numbers {
				lines = append(lines, line{p, byLine[n]})
			}
		}
	}
	return lines, nil
}

// A verdict is what became of a fault.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	late     verdict = "SURVIVED until the time limit" // not all tests ran
	same     verdict = "same instructions"             // no test can tell
)

// A trial holds the fault that the go command is to see.
type trial struct {
	ctx              context.Context
	all              map[string]*pkg
	root, dir, files string
}

func newTrial(ctx context.Context, all map[string]*pkg) (*trial, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutate")
	return &trial{ctx, all, root, dir, filepath.Join(dir, "overlay.json")}, err
}

// put writes the file with the fault, and what makes the go command read it.
func (t *trial) put(f fault) error {
	source, err := os.ReadFile(f.file)
	if err != nil {
		return err
	}
	changed := filepath.Join(t.dir, "changed.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{f.file: changed}})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(changed, f.apply(source), 0o600), os.WriteFile(t.files, overlay, 0o600))
}

// command runs go with the fault. Programs that tests build have it as well.
func (t *trial) command(ctx context.Context, arguments ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", arguments...)
	c.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+t.files))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // and the tests that it runs
	return c
}

func (t *trial) builds(p *pkg) bool {
	return t.command(t.ctx, "build", "-o", os.DevNull, p.ImportPath).Run() == nil
}

// test runs the tests of the package, and then those of packages that import it.
func (t *trial) test(p *pkg) (verdict, string) {
	began := time.Now()
	see := witnesses(t.all, p)
	if len(see) == 0 {
		return survived, ""
	}
	if v, by := t.fails(see[:1], *limit); v != survived {
		return v, by
	}
	if t.unchanged(p) {
		return same, ""
	}
	if len(see) == 1 || *near {
		return survived, ""
	}
	return t.fails(see[1:], *limit-time.Since(began))
}

// fails runs the tests of packages until those of one fail.
func (t *trial) fails(packages []*pkg, left time.Duration) (verdict, string) {
	if left <= 0 {
		return late, ""
	}
	arguments := []string{"test", "-vet=off", "-failfast", "-timeout", left.String()}
	for _, p := range packages {
		arguments = append(arguments, p.ImportPath)
	}
	ctx, stop := context.WithTimeout(t.ctx, left+10*time.Second)
	defer stop()
	c := t.command(ctx, arguments...)
	out, err := c.StdoutPipe()
	if err != nil {
		return survived, ""
	}
	if err := c.Start(); err != nil {
		return survived, ""
	}
	v, by := survived, ""
	for s := bufio.NewScanner(out); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "FAIL\t"); ok && v == survived {
			v, by = killed, "."+strings.TrimPrefix(strings.Fields(rest)[0], packages[0].Module.Path)
			stop()
		}
	}
	_ = c.Wait()
	if v == survived && ctx.Err() != nil {
		v = late
	}
	return v, by
}

// unchanged tells whether the compiler makes the same instructions of the package.
func (t *trial) unchanged(p *pkg) bool {
	instructions := func(c *exec.Cmd) string { out, _ := c.CombinedOutput(); return string(out) }
	arguments := []string{"build", "-gcflags=-S", "-o", os.DevNull, p.ImportPath}
	plain := exec.Command("go", arguments...)
	return instructions(plain) == instructions(t.command(t.ctx, arguments...))
}
