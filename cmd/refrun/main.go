// Command refrun steps stochastic neural operators on the CPU with correctly
// rounded arithmetic, and compares rollouts recorded elsewhere with it.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
)

// version is the version of the command.
const version = "0.1.0"

// Exit codes that scripts rely on.
const (
	exitOK     = 0
	exitFailed = 1 // checked, and failed
	exitUsage  = 2 // wrong usage or bad input

	exitNoPower = 3 // checked, no fault found, and too little to tell

	exitResumable   = 75  // stopped from outside; --resume continues
	exitInterrupted = 130 // Ctrl-C
)

// verb is one subcommand.
type verb struct {
	name, args, summary string
	help                string // what it does, with one real example
	run                 func(*command) error
	parts               []verb // verbs of its own, by whose names its arguments begin
}

var verbs = []verb{
	demoVerb, runVerb, verifyVerb, checkVerb, kernelVerb, moleculeVerb, probeVerb, studyVerb, compareVerb,
	selftestVerb, benchVerb, planVerb, datasetVerb, infoVerb, serveVerb, manVerb, completionVerb, versionVerb,
}

// command is one invocation of a verb.
type command struct {
	verb
	all      []verb // of the program, this one among them
	flags    *flag.FlagSet
	pos      []string // positional arguments
	stdout   io.Writer
	stderr   io.Writer
	json     bool
	quiet    bool
	isa      string
	folder   *string // what --case sets, which may stand alone: refrun check DIR
	begun    string  // the line of text that has no end yet
	everyISA bool    // no --isa and no REFRUN_ISA narrows the choice
	ci       forCI
}

// errFailed makes the exit code 1: the verb did its work and the answer is no.
var errFailed = errors.New("failed")

// errNoPower makes the exit code 3.
var errNoPower = errors.New("no power")

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

// realMain is main, without the process.
func realMain(args []string, stdout, stderr io.Writer) int {
	return runProgram(verbs, args, stdout, stderr)
}

// runProgram runs the verb of these that the first argument names, and returns the exit code.
func runProgram(verbs []verb, args []string, stdout, stderr io.Writer) (code int) {
	// A bug must not greet a user with a stack trace.
	defer func() {
		if r := recover(); r != nil {
			complain(stderr, "refrun", fmt.Errorf("internal error: %v (please report it with the command line)", r))
			code = exitUsage
		}
	}()
	if len(args) == 0 {
		usage(stderr, verbs)
		return exitUsage
	}
	name, out := args[0], &output{w: stdout}
	switch name {
	case "help", "-h", "-help", "--help":
		if len(args) > 1 { // of a verb
			return runProgram(verbs, append(slices.Clone(args[1:]), "--help"), stdout, stderr)
		}
		usage(out, verbs)
		return arrived(out, stderr)
	case "--version":
		name = "version"
	}
	for _, v := range verbs {
		if v.name == name {
			return call(verbs, v, args[1:], stdout, stderr)
		}
	}
	complain(stderr, "refrun", fmt.Errorf("unknown verb %.60q:%s refrun help lists them",
		name, fault.Meant(strings.ToLower(name), append(verbNames(verbs), "help"))))
	return exitUsage
}

// verbNames are the names of verbs.
func verbNames(verbs []verb) (names []string) {
	for _, v := range verbs {
		names = append(names, v.name)
	}
	return names
}

// arrived returns the exit code of an answer without a verb.
func arrived(out *output, stderr io.Writer) int {
	if out.err == nil {
		return exitOK
	}
	complain(stderr, "refrun", fmt.Errorf("stdout: %w", out.err))
	return exitUsage
}

// call runs a verb of the program.
func call(all []verb, v verb, args []string, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	c := &command{verb: v, all: all, flags: flag.NewFlagSet(v.name, flag.ContinueOnError), stdout: out, stderr: stderr}
	err := c.tell(v.run(c.parseLater(args)))
	c.ended()
	if errors.Is(err, flag.ErrHelp) {
		c.printHelp(out)
		err = nil
	}
	if out.err != nil { // what was to be said did not arrive
		err = fmt.Errorf("stdout: %w", out.err)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFailed):
		return exitFailed
	case errors.Is(err, errNoPower):
		return exitNoPower
	}
	complain(stderr, "refrun "+v.name, err)
	switch {
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, new(resumable)), errors.As(err, new(unfinished)):
		return exitResumable
	case errors.Is(err, errTerminated): // with nothing to resume
		return exitInterrupted
	}
	return exitUsage
}

// mostLine is how long a line on stderr may be.
const mostLine = 300

// complain says in one line what is wrong.
func complain(stderr io.Writer, who string, err error) {
	fmt.Fprintln(stderr, shorten(who+": "+clean(err.Error())))
}

// shorten leaves out the middle of a line that is too long: it begins with file and
// field and ends with what is wanted there.
func shorten(line string) string {
	const gap = " ... "
	if len(line) <= mostLine {
		return line
	}
	half := (mostLine - len(gap)) / 2
	return strings.ToValidUTF8(line[:half], "") + gap + strings.ToValidUTF8(line[len(line)-half:], "")
}

// resumable is what stopped a run from outside which --resume continues.
type resumable struct{ err error }

func (r resumable) Error() string { return r.err.Error() + "; --resume continues it" }
func (r resumable) Unwrap() error { return r.err }

// fromOutside reports whether a disk is full or failed: no fault of the run.
func fromOutside(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) ||
		errors.Is(err, syscall.EIO)
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

// parseLater declares the flags every verb has and keeps the arguments until
// the verb has declared its own and calls parse.
func (c *command) parseLater(args []string) *command {
	c.pos = args
	memory.Limit(0)
	c.flags.SetOutput(io.Discard)
	c.flags.BoolVar(&c.json, "json", false, "print one JSON object on stdout and nothing else there")
	c.flags.BoolVar(&c.quiet, "quiet", false, "print no progress")
	c.flags.StringVar(&c.isa, "isa", "",
		"`name` of the kernels to run: auto, avx512, avx2, neon or purego (also in $REFRUN_ISA)")
	c.flags.Int("threads", min(runtime.GOMAXPROCS(0), runtime.NumCPU(), mostThreads),
		"`number` of threads; never changes a bit of a result")
	c.flags.Var(new(limit), "memory", "`size`, such as 8GB, that may be taken; "+
		"what takes more is refused (default what machine and control group have free)")
	return c
}

// limit is the flag that sets what the process may take.
type limit string

func (l *limit) String() string { return string(*l) }

func (l *limit) Set(text string) error {
	bytes, err := memory.Parse(text)
	if err == nil {
		*l = limit(text)
		memory.Limit(bytes)
	}
	return err
}

// mostThreads is the most --threads takes.
const mostThreads = 1024

// some positional arguments, one or more, are what a verb may want.
const some = -1

// parse reads flags and want positional arguments, in any order; after "--"
// come positional arguments only.
func (c *command) parse(want int) error {
	args, rest := c.pos, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		args, rest = args[:i], args[i+1:]
	}
	c.pos = nil
	var bad error
	c.friendly(&bad)
	for {
		if err := c.flags.Parse(args); err != nil {
			if bad != nil {
				return bad
			}
			if !errors.Is(err, flag.ErrHelp) {
				err = fmt.Errorf("%w%s; refrun %s --help lists the flags", err, c.meant(err), c.name)
			}
			return err
		}
		if args = c.flags.Args(); len(args) == 0 {
			break
		}
		c.pos = append(c.pos, args[0])
		args = args[1:]
	}
	c.pos = append(c.pos, rest...)
	if err := c.findFolder(); err != nil {
		return err
	}
	switch {
	case want == some && len(c.pos) > 0 && !slices.Contains(c.pos, ""):
	case want != some && len(c.pos) > want:
		hint := ""
		if c.flags.Lookup("onnx") != nil && strings.HasSuffix(c.pos[want], ".onnx") {
			hint = ", here --onnx " + c.pos[want]
		}
		return fmt.Errorf("%q: unexpected argument: want %s%s",
			c.pos[want], map[bool]string{true: c.args + " only", false: "flags only"}[want > 0], hint)
	case len(c.pos) < max(want, 1) && want != 0:
		return fmt.Errorf("%s given: want %s", plural(len(c.pos), "argument"), c.args)
	case slices.Contains(c.pos, ""):
		return fmt.Errorf("\"\": an empty argument: want %s", c.args)
	}
	if err := cmp.Or(c.notEmpty(), c.notZero(), c.validCI()); err != nil {
		return err
	}
	threads := c.flags.Lookup("threads").Value.(flag.Getter).Get().(int)
	if threads < 1 || threads > mostThreads {
		return fmt.Errorf("--threads: %d: want 1 to %d", threads, mostThreads)
	}
	runtime.GOMAXPROCS(threads)
	if most := memory.There(); most > 0 {
		debug.SetMemoryLimit(most) // the collector takes back sooner what nobody reads any more
	}
	c.everyISA = c.isa == "auto" || c.isa == "" && os.Getenv("REFRUN_ISA") == ""
	if err := asm.Use(c.isa); err != nil {
		return err
	}
	c.isa = asm.ISA()
	return nil
}

// findFolder takes an argument alone as the folder of --case, and refuses a file in its place.
func (c *command) findFolder() error {
	if c.folder == nil {
		return nil
	}
	name, flagged := *c.folder, *c.folder != ""
	if !flagged {
		if len(c.pos) != 1 {
			return nil
		}
		name = c.pos[0]
	}
	info, err := disk.Stat(name)
	switch {
	case err != nil && flagged: // what opens the case says so
		return nil
	case err != nil:
		return fmt.Errorf("%s: no such file or directory: want the folder of a case", name)
	case info.IsDir() && !flagged:
		*c.folder, c.pos = name, nil
	case !info.IsDir():
		hint := ""
		if filepath.Base(name) == "case.json" {
			hint = fmt.Sprintf(", here %s", filepath.Dir(name))
		} else if c.flags.Lookup("config") != nil {
			hint = fmt.Sprintf("; a configuration is given with --config %s", name)
		}
		return fmt.Errorf("%s: a file: want the folder of a case%s", name, hint)
	}
	return nil
}

// meant says which flag was probably meant where there is none of that name.
func (c *command) meant(err error) string {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return ""
	}
	var known []string
	c.flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if k := fault.Nearest(name, known); k != "" {
		return fmt.Sprintf(": did you mean %s%s?", strings.Repeat("-", min(2, len(k))), k)
	}
	return ""
}

// notEmpty refuses a flag that is given with nothing, as by a variable of a script
// that is not set: a run without its output, or with the default weights, is not what
// was meant.
func (c *command) notEmpty() (err error) {
	c.flags.Visit(func(f *flag.Flag) {
		if f.Value.String() == "" && f.Name != "isa" {
			dashes := "--"
			if len(f.Name) == 1 {
				dashes = "-"
			}
			what, _ := flag.UnquoteUsage(f)
			err = fmt.Errorf("%s%s: empty: want a %s", dashes, f.Name, what)
		}
	})
	return err
}

// notZero refuses a 0 that stands for a flag which is not given.
func (c *command) notZero() (err error) {
	c.flags.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"grid", "operators", "shards", "rate"}, f.Name) && f.Value.String() == "0" {
			err = fmt.Errorf("--%s: 0: want more than 0", f.Name)
		}
	})
	return err
}

// printJSON writes v as the one object on stdout.
func (c *command) printJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := c.stdout.Write(fault.PlainJSON(b.Bytes()))
	return err
}

// printf writes text for a person, unless JSON was asked for. Strings among the
// arguments may come from anywhere, and are made fit for one line: only the format
// decides where a line ends.
func (c *command) printf(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = fault.Printable(s)
		}
	}
	c.print(fmt.Sprintf(format, args...))
}

// print writes lines of text that is fit for a terminal already.
func (c *command) print(text string) {
	if c.ci.on {
		c.ci.text.WriteString(text)
	}
	if !c.json {
		c.say(text)
	}
}

func usage(w io.Writer, verbs []verb) {
	fmt.Fprintf(w, "refrun %s: is the output of a GPU right? exact arithmetic on the CPU says it\n\n", version)
	for _, v := range verbs {
		args := v.args
		if strings.Count(args, "|") > 3 {
			args = "VERB ..."
		}
		fmt.Fprint(w, hanging("  refrun "+strings.TrimSpace(v.name+" "+args), v.summary, 26))
	}
	fmt.Fprint(w, "\n", wrap("refrun VERB --help shows its flags and an example. "+exitCodes, 0))
}

const exitCodes = "Exit codes: 0 success, 1 checked and failed, 2 wrong usage or bad input, 3 NO-POWER, " +
	"75 stopped from outside (run --resume continues, and so does dataset run), 130 interrupted."

func (c *command) printHelp(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n\nflags:\n",
		wrap("usage: refrun "+strings.TrimSpace(c.name+" "+c.args)+" [flags]", 14), folded(c.help))
	c.flags.VisitAll(func(f *flag.Flag) {
		arg, text := flagText(f)
		fmt.Fprint(w, hanging("  "+strings.TrimSpace(dashed(f)+" "+arg), text, 23))
	})
}

// flagText returns the name of a flag's value, and what the flag says with its default.
func flagText(f *flag.Flag) (arg, text string) {
	arg, text = flag.UnquoteUsage(f)
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
		text += " (default " + f.DefValue + ")"
	}
	return arg, text
}
