package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// Stdin is what bench --lines and kernel --batch - read.
var Stdin io.Reader = os.Stdin

// each calls f with every verb and its flags. Verbs declare their flags as they begin, and say
// that help was asked for.
func EachVerb(verbs []Verb, f func(v Verb, flags []*flag.Flag)) {
	all := slices.Clone(verbs)
	for _, v := range verbs {
		all = append(all, v.Parts...)
	}
	for _, v := range all {
		c := &Command{Verb: v, All: verbs, Flags: flag.NewFlagSet(v.Name, flag.ContinueOnError),
			Stdout: io.Discard, stderr: io.Discard}
		_ = v.Run(c.parseLater([]string{"--help"}))
		var flags []*flag.Flag
		c.Flags.VisitAll(func(of *flag.Flag) { flags = append(flags, of) })
		f(v, flags)
	}
}

// Version is the version of the command.
const Version = "0.1.0"

// Verb is one subcommand.
type Verb struct {
	Name, Args, Summary string
	Help                string // what it does, with one real example
	Run                 func(*Command) error
	Parts               []Verb // verbs of its own, by whose names its arguments begin
}

// Command is one invocation of a verb.
type Command struct {
	Verb
	All      []Verb // of the program, this one among them
	Flags    *flag.FlagSet
	Pos      []string // positional arguments
	Stdout   io.Writer
	stderr   io.Writer
	Json     bool
	quiet    bool
	Isa      string
	Folder   *string // what --case sets, which may stand alone: refrun check DIR
	begun    string  // the line of text that has no end yet
	EveryISA bool    // no --isa and no REFRUN_ISA narrows the choice
	Ci       forCI
}

// Main runs the verb of these that the first argument names, and returns the exit code.
func Main(verbs []Verb, args []string, stdout, stderr io.Writer) (code int) {
	// A bug must not greet a user with a stack trace.
	defer func() {
		if r := recover(); r != nil {
			complain(stderr, "refrun", fmt.Errorf("internal error: %v (please report it with the command line)", r))
			code = ExitUsage
		}
	}()
	if len(args) == 0 {
		usage(stderr, verbs)
		return ExitUsage
	}
	name, out := args[0], &output{w: stdout}
	switch name {
	case "help", "-h", "-help", "--help":
		if len(args) > 1 { // of a verb
			return Main(verbs, append(slices.Clone(args[1:]), "--help"), stdout, stderr)
		}
		usage(out, verbs)
		return arrived(out, stderr)
	case "--version":
		name = "version"
	}
	for _, v := range verbs {
		if v.Name == name {
			return call(verbs, v, args[1:], stdout, stderr)
		}
	}
	complain(stderr, "refrun", fmt.Errorf("unknown verb %.60q:%s refrun help lists them",
		name, fault.Meant(strings.ToLower(name), append(VerbNames(verbs), "help"))))
	return ExitUsage
}

// VerbNames are the names of verbs.
func VerbNames(verbs []Verb) (names []string) {
	for _, v := range verbs {
		names = append(names, v.Name)
	}
	return names
}

// call runs a verb of the program.
func call(all []Verb, v Verb, args []string, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	c := &Command{Verb: v, All: all, Flags: flag.NewFlagSet(v.Name, flag.ContinueOnError), Stdout: out, stderr: stderr}
	err := c.tell(v.Run(c.parseLater(args)))
	c.Ended()
	if errors.Is(err, flag.ErrHelp) {
		c.printHelp(out)
		err = nil
	}
	if out.err != nil { // what was to be said did not arrive
		err = fmt.Errorf("stdout: %w", out.err)
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrFailed):
		return ExitFailed
	case errors.Is(err, ErrNoPower):
		return ExitNoPower
	}
	complain(stderr, "refrun "+v.Name, err)
	switch {
	case errors.Is(err, ErrInterrupted):
		return ExitInterrupted
	case errors.As(err, new(Resumable)), errors.As(err, new(Unfinished)):
		return ExitResumable
	case errors.Is(err, ErrTerminated): // with nothing to resume
		return ExitInterrupted
	}
	return ExitUsage
}
