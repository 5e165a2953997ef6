package cli

import (
	"cmp"
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

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
)

// Dashed returns a flag as people write it.
func Dashed(f *flag.Flag) string { return strings.Repeat("-", min(2, len(f.Name))) + f.Name }

// parseLater declares the flags every verb has and keeps the arguments until
// the verb has declared its own and calls parse.
func (c *Command) parseLater(args []string) *Command {
	c.Pos = args
	memory.Limit(0)
	c.Flags.SetOutput(io.Discard)
	c.Flags.BoolVar(&c.Json, "json", false, "print one JSON object on stdout and nothing else there")
	c.Flags.BoolVar(&c.quiet, "quiet", false, "print no progress")
	c.Flags.StringVar(&c.Isa, "isa", "",
		"`name` of the kernels to run: auto, avx512, avx2, neon or purego (also in $REFRUN_ISA)")
	c.Flags.Int("threads", min(runtime.GOMAXPROCS(0), runtime.NumCPU(), mostThreads),
		"`number` of threads; never changes a bit of a result")
	c.Flags.Var(new(limit), "memory", "`size`, such as 8GB, that may be taken; "+
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

// Some positional arguments, one or more, are what a verb may want.
const Some = -1

// Parse reads flags and want positional arguments, in any order; after "--"
// come positional arguments only.
func (c *Command) Parse(want int) error {
	args, rest := c.Pos, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		args, rest = args[:i], args[i+1:]
	}
	c.Pos = nil
	var bad error
	c.friendly(&bad)
	for {
		if err := c.Flags.Parse(args); err != nil {
			if bad != nil {
				return bad
			}
			if !errors.Is(err, flag.ErrHelp) {
				err = fmt.Errorf("%w%s; refrun %s --help lists the flags", err, c.meant(err), c.Name)
			}
			return err
		}
		if args = c.Flags.Args(); len(args) == 0 {
			break
		}
		c.Pos = append(c.Pos, args[0])
		args = args[1:]
	}
	c.Pos = append(c.Pos, rest...)
	if err := c.findFolder(); err != nil {
		return err
	}
	switch {
	case want == Some && len(c.Pos) > 0 && !slices.Contains(c.Pos, ""):
	case want != Some && len(c.Pos) > want:
		hint := ""
		if c.Flags.Lookup("onnx") != nil && strings.HasSuffix(c.Pos[want], ".onnx") {
			hint = ", here --onnx " + c.Pos[want]
		}
		return fmt.Errorf("%q: unexpected argument: want %s%s",
			c.Pos[want], map[bool]string{true: c.Args + " only", false: "flags only"}[want > 0], hint)
	case len(c.Pos) < max(want, 1) && want != 0:
		return fmt.Errorf("%s given: want %s", Plural(len(c.Pos), "argument"), c.Args)
	case slices.Contains(c.Pos, ""):
		return fmt.Errorf("\"\": an empty argument: want %s", c.Args)
	}
	if err := cmp.Or(c.notEmpty(), c.notZero(), c.validCI()); err != nil {
		return err
	}
	threads := c.Flags.Lookup("threads").Value.(flag.Getter).Get().(int)
	if threads < 1 || threads > mostThreads {
		return fmt.Errorf("--threads: %d: want 1 to %d", threads, mostThreads)
	}
	runtime.GOMAXPROCS(threads)
	if most := memory.There(); most > 0 {
		debug.SetMemoryLimit(most) // the collector takes back sooner what nobody reads any more
	}
	c.EveryISA = c.Isa == "auto" || c.Isa == "" && os.Getenv("REFRUN_ISA") == ""
	if err := asm.Use(c.Isa); err != nil {
		return err
	}
	c.Isa = asm.ISA()
	return nil
}

// findFolder takes an argument alone as the folder of --case, and refuses a file in its place.
func (c *Command) findFolder() error {
	if c.Folder == nil {
		return nil
	}
	name, flagged := *c.Folder, *c.Folder != ""
	if !flagged {
		if len(c.Pos) != 1 {
			return nil
		}
		name = c.Pos[0]
	}
	info, err := disk.Stat(name)
	switch {
	case err != nil && flagged: // what opens the case says so
		return nil
	case err != nil:
		return fmt.Errorf("%s: no such file or directory: want the folder of a case", name)
	case info.IsDir() && !flagged:
		*c.Folder, c.Pos = name, nil
	case !info.IsDir():
		hint := ""
		if filepath.Base(name) == "case.json" {
			hint = fmt.Sprintf(", here %s", filepath.Dir(name))
		} else if c.Flags.Lookup("config") != nil {
			hint = fmt.Sprintf("; a configuration is given with --config %s", name)
		}
		return fmt.Errorf("%s: a file: want the folder of a case%s", name, hint)
	}
	return nil
}

// meant says which flag was probably meant where there is none of that name.
func (c *Command) meant(err error) string {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return ""
	}
	var known []string
	c.Flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if k := fault.Nearest(name, known); k != "" {
		return fmt.Sprintf(": did you mean %s%s?", strings.Repeat("-", min(2, len(k))), k)
	}
	return ""
}

// notEmpty refuses a flag that is given with nothing, as by a variable of a script
// that is not set: a run without its output, or with the default weights, is not what
// was meant.
func (c *Command) notEmpty() (err error) {
	c.Flags.Visit(func(f *flag.Flag) {
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
func (c *Command) notZero() (err error) {
	c.Flags.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"grid", "operators", "shards", "rate"}, f.Name) && f.Value.String() == "0" {
			err = fmt.Errorf("--%s: 0: want more than 0", f.Name)
		}
	})
	return err
}

// FlagText returns the name of a flag's value, and what the flag says with its default.
func FlagText(f *flag.Flag) (arg, text string) {
	arg, text = flag.UnquoteUsage(f)
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
		text += " (default " + f.DefValue + ")"
	}
	return arg, text
}

// List is a flag that may be given more than once.
type List []string

func (l *List) String() string { return strings.Join(*l, " ") }

func (l *List) Set(s string) error { *l = append(*l, s); return nil }
