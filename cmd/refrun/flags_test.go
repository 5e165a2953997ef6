package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/asm"
)

// TestUsage: without a verb, with an unknown one, with one that is planned.
func TestUsage(t *testing.T) {
	r := refrun(t)
	if r.Code != 2 || r.Stdout != "" || !strings.Contains(r.Stderr, "refrun VERB --help") {
		t.Errorf("no arguments: exit code %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
	}
	for _, arg := range []string{"help", "-h", "-help", "--help"} {
		r := refrun(t, arg)
		if r.Code != 0 || r.Stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", arg, r.Code, r.Stderr)
		}
		for _, v := range verbs {
			if !strings.Contains(r.Stdout, "refrun "+v.Name) {
				t.Errorf("%s does not list %s", arg, v.Name)
			}
		}
	}
	for _, arg := range []string{"version", "--version"} {
		if r := refrun(t, arg); r.Code != 0 || r.Stdout != "refrun "+cli.Version+"\n" {
			t.Errorf("%s: exit code %d, %q", arg, r.Code, r.Stdout)
		}
	}
	for _, arg := range []string{"rnu", "", "--json", "-x", "--", "RUN", "a\x1b[2J\n"} {
		r := refrun(t, arg)
		if r.Code != 2 || r.Stdout != "" || !strings.HasPrefix(r.Stderr, "refrun: unknown verb ") ||
			strings.Count(r.Stderr, "\n") != 1 || strings.Contains(r.Stderr, "\x1b") {
			t.Errorf("%q: exit code %d, stderr %q", arg, r.Code, r.Stderr)
		}
	}
	var have []string
	for _, v := range verbs {
		have = append(have, v.Name)
	}
	slices.Sort(have)
	if want := []string{
		"bench", "check", "compare", "completion", "dataset", "demo", "info", "kernel", "man", "molecule", "plan",
		"probe", "run", "selftest", "serve", "study", "verify", "version",
	}; !slices.Equal(have, want) {
		t.Errorf("verbs %v, want %v", have, want)
	}
}

// TestHelp: every verb explains itself and every flag, and shows an example,
// wherever --help stands.
func TestHelp(t *testing.T) {
	for _, v := range verbs {
		for _, args := range [][]string{
			{"--help"}, {"-h"}, {"-help"}, {"x", "y", "z", "--help"}, {"--threads", "1", "--help", "--nonsense"},
		} {
			r := refrun(t, append([]string{v.Name}, args...)...)
			if r.Code != 0 || r.Stderr != "" {
				t.Errorf("%s %v: exit code %d, stderr %q", v.Name, args, r.Code, r.Stderr)
			}
			for _, want := range []string{"usage: refrun " + v.Name, "\nexample: refrun " + v.Name, "\n  --json ",
				"\n  --threads number ", "\n  --isa name ", "\n  --quiet "} {
				if !strings.Contains(r.Stdout, want) {
					t.Errorf("%s %v does not say %q", v.Name, args, want)
				}
			}
		}
	}
}

func TestFlags(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	run := []string{"run", "--one-step", "--case", dir}
	lists := "; refrun run --help lists the flags"
	for _, k := range []struct {
		args []string
		want string
	}{
		{[]string{"--nonsense"}, "flag provided but not defined: -nonsense" + lists},
		{[]string{"--nonsense=1\n2"}, `flag provided but not defined: -nonsense` + lists},
		{[]string{"---json"}, "bad flag syntax: ---json" + lists},
		{[]string{"--=1"}, "bad flag syntax: --=1" + lists},
		{[]string{"--threads"}, "flag needs an argument: -threads" + lists},
		{[]string{"--precision"}, "flag needs an argument: -precision" + lists},
		{[]string{"--threads", "two"}, `--threads: "two": want a whole number, such as 500 or 1e6`},
		{[]string{"--threads", ""}, `--threads: "": want a whole number, such as 500 or 1e6`},
		{[]string{"--threads=1e9"}, `--threads: 1000000000: want 1 to 1024`},
		{[]string{"--threads=1.5e0"}, `--threads: "1.5e0": want a whole number, such as 500 or 1e6`},
		{[]string{"--threads", "99999999999999999999"},
			`--threads: "99999999999999999999": want a whole number, such as 500 or 1e6`},
		{[]string{"--json=maybe"}, `invalid boolean value "maybe" for -json: parse error` + lists},
		{[]string{"--threads", "0"}, "--threads: 0: want 1 to 1024"},
		{[]string{"--threads", "-1"}, "--threads: -1: want 1 to 1024"},
		{[]string{"--threads", "100000"}, "--threads: 100000: want 1 to 1024"},
		{[]string{"--batch", "-1"}, "--batch: -1: want 1 or more"},
		{[]string{"--batch", "1.5"}, `--batch: "1.5": want a whole number, such as 500 or 1e6`},
		{[]string{"--isa", elsewhere}, `--isa: "` + elsewhere + `": this CPU or build does not have it: want auto, ...`},
		{[]string{"--isa", "sse9"}, `--isa: "sse9": want auto, avx512, avx2, neon, purego`},
		{[]string{"--isa", "AUTO"}, `--isa: "AUTO": want auto, avx512, avx2, neon, purego`},
		{[]string{"--precision", "tf32:x"}, `--precision: unknown rounding "x": want even, away or truncate`},
		{[]string{"--precision", "float16", "--autocast", "rocm"},
			`--autocast: unknown autocast "rocm": want cuda or cpu, ...`},
		{[]string{"--precision", "float16", "--autocast", "cpu:2.0"},
			`--autocast: unknown autocast "cpu:2.0": want cuda or cpu, ...`},
		{[]string{"--precision", "float16", "--autocast", "cpu:1.13"},
			`--autocast: autocast cpu:1.13: has no float16: want bfloat16, or cpu:2.x`},
		{[]string{"--autocast", "cuda"},
			`--autocast: autocast cuda:1.13: precision float32 has none: want float16 or bfloat16`},
		{[]string{"--precision", "double"}, `--precision: unknown number format "double": want one of ...`},
		{[]string{"--noise", "pink"}, `noise: "pink": want ...`},
		{[]string{"--noise", "tape:x"}, `noise: "tape:x": want ...`},
		{[]string{"--noise", "none:x"}, `noise: "none:x": want ...`},
		{[]string{"--noise", "counter:x"}, `noise: "counter:x": want ...`},
		{[]string{"--noise", "torch-cpu:0.4"},
			`noise: stream "torch-cpu:0.4" is not supported: want torch-cpu:1.13 or torch-cpu:2.x...`},
		{[]string{"--noise", "torch-cuda"}, `noise: stream "torch-cuda" is not of the form torch-cuda:SMS[:THREADS]...`},
		{[]string{"--noise", "torch-cuda:0"},
			`noise: stream "torch-cuda:0:2048": want 1 to 65535 multiprocessors of 256 to 4096 threads`},
		{[]string{"--noise", "torch-cuda:99999999999"},
			`noise: stream "torch-cuda:99999999999:2048": want 1 to 65535 multiprocessors of 256 to 4096 threads`},
		{[]string{"--noise", "torch-cuda:132:2048:1"}, `noise: stream "torch-cuda:132:2048:1" is not of the form ...`},
		{[]string{"--noise", "torch-cpux"}, `noise: "torch-cpux": want ...`},
		{[]string{"--steps", "3"}, "--one-step: compares a case as it was recorded: want no ..."},
		{[]string{"--resume"}, "--resume: want -o as well"},
		{[]string{"junk"}, `"junk": unexpected argument: want flags only`},
		{[]string{"junk", "--json"}, `"junk": unexpected argument: want flags only`},
		{[]string{"-"}, `"-": unexpected argument: want flags only`},
		{[]string{""}, `"": unexpected argument: want flags only`},
		{[]string{"--", "--json"}, `"--json": unexpected argument: want flags only`},
		{[]string{"a", "--", "b"}, `"a": unexpected argument: want flags only`},
	} {
		refrun(t, append(slices.Clone(run), k.args...)...).Refused(t, "run", k.want)
	}
	refrun(t, "run").Refused(t, "run", "--case: want ...")
	refrun(t, "run", "--one-step").Refused(t, "run", "--case: want ...")
	refrun(t, "run", "--one-step", "--case", "").Refused(t, "run", "--case: empty: want a folder")
	refrun(t, "run", "--one-step", "--case").Refused(t, "run", "flag needs an argument: -case"+lists)
	refrun(t, "demo", "x").Refused(t, "demo", `"x": unexpected argument: want flags only`)
	refrun(t, "info", "--case", dir).Refused(t, "info",
		"flag provided but not defined: -case; refrun info --help lists the flags")
	refrun(t, "compare").Refused(t, "compare", "0 arguments given: want A B")
	refrun(t, "compare", "a").Refused(t, "compare", "1 argument given: want A B")
	refrun(t, "compare", "a", "b", "c").Refused(t, "compare", `"c": unexpected argument: want A B only`)
	refrun(t, "compare", dir, dir, "--", "--json").Refused(t, "compare", `"--json": unexpected argument: want A B only`)

	// A name that is wrong is wrong without noise too.
	still := clitest.NewFolder(t)
	still.Set("operator.noise_type", nil)
	still.Drop("weights", "stochastic_block.noise_scale")
	delete(still.File, "noise")
	delete(still.File, "layers")
	dir = still.Write()
	oneStep(t, dir, "--noise", "pink").Refused(t, "run", `noise: "pink": want ...`)
	for _, name := range []string{"none", "torch-cpu", "tape", "counter"} {
		if r := oneStep(t, dir, "--noise", name); r.Code != 0 || r.Decode(t)["noise"] != "none" {
			t.Errorf("an operator without noise refuses %s: %s", name, r.Stderr)
		}
	}
}

// TestPositional: arguments and flags come in any order, and "--" ends flags.
func TestPositional(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	t.Chdir(dir)
	odd := "--json.safetensors"
	if err := os.Rename("trajectory.safetensors", odd); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--json", "--max-abs", "0", "--", odd + ":trajectory", odd},
		{"--max-abs", "0", "./" + odd, "--json", "./" + odd},
		{"./" + odd, "./" + odd, "--json", "--max-abs=0"},
		{"-json", "./" + odd, "-max-abs", "0", "--", odd},
	} {
		r := refrun(t, append([]string{"compare"}, args...)...)
		if r.Code != 0 || r.Decode(t)["ok"] != true {
			t.Errorf("%v: exit code %d, %s", args, r.Code, r.Stderr)
		}
	}
}

// elsewhere is an instruction set of another architecture.
var elsewhere = map[bool]string{true: "avx2", false: "neon"}[runtime.GOARCH == "arm64"]

// TestISA: the environment speaks where the flag does not.
func TestISA(t *testing.T) {
	best := asm.ISAs()[0]
	for _, k := range []struct{ env, flag, want string }{
		{"", "", best}, {"auto", "", best}, {"purego", "auto", best}, {"purego", "", "purego"},
		{"nonsense", "purego", "purego"}, {"", "auto", best},
	} {
		t.Setenv("REFRUN_ISA", k.env)
		r := refrun(t, "info", "--json", "--isa", k.flag)
		if r.Code != 0 || r.Decode(t)["isa"] != k.want {
			t.Errorf("REFRUN_ISA=%s --isa %s: %s%s", k.env, k.flag, r.Stdout, r.Stderr)
		}
	}
	t.Setenv("REFRUN_ISA", elsewhere)
	refrun(t, "info").Refused(t, "info", `REFRUN_ISA: "`+elsewhere+`": this CPU or build does not have it: want auto, ...`)
	t.Setenv("REFRUN_ISA", "nonsense")
	refrun(t, "demo", "--json").Refused(t, "demo", `REFRUN_ISA: "nonsense": want auto, avx512, avx2, neon, purego`)
	if r := refrun(t, "info", "--help"); r.Code != 0 {
		t.Errorf("help needs an ISA: %s", r.Stderr)
	}
}

// TestEmpty: nothing where something is wanted is a variable of a script that was not
// set, and not a wish for the default.
func TestEmpty(t *testing.T) {
	refrun(t, "compare", "", "x").Refused(t, "compare", `"": an empty argument: want A B`)
	refrun(t, "check", "--case", "").Refused(t, "check", "--case: empty: want a folder")
}

// full is a disk without room.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

// TestStopped: only what --resume can continue says so, and has the exit code 75.
func TestStopped(t *testing.T) {
	full := fmt.Errorf("x: %w", syscall.ENOSPC)
	for _, k := range []struct {
		err  error
		code int
		want string
	}{
		{full, 2, "x: no space left on device"},
		{cli.Resumable{Err: full}, 75, "x: no space left on device; --resume continues it"},
		{cli.ErrTerminated, 130, "terminated"},
		{cli.Resumable{Err: cli.ErrTerminated}, 75, "terminated; --resume continues it"},
		{cli.ErrInterrupted, 130, "interrupted"},
		{cli.Resumable{Err: cli.ErrInterrupted}, 130, "interrupted; --resume continues it"},
	} {
		var stderr strings.Builder
		stops := cli.Verb{Name: "v", Run: func(*cli.Command) error { return k.err }}
		code := cli.Main([]cli.Verb{stops}, []string{"v"}, io.Discard, &stderr)
		if want := "refrun v: " + k.want + "\n"; code != k.code || stderr.String() != want {
			t.Errorf("exit code %d, stderr %q: want %d, %q", code, stderr.String(), k.code, want)
		}
	}
}

// TestFullDisk: output that does not arrive is not a success.
func TestFullDisk(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	for _, args := range [][]string{
		{"info"}, {"info", "--json"}, {"compare", dir, dir}, {"compare", dir, dir, "--json"},
		{"run", "--one-step", "--case", dir}, {"run", "--one-step", "--json", "--case", dir}, {"run", "--help"},
		{"help"}, {"-h"}, {"-help"}, {"--help"}, {"version"}, {"--version"},
	} {
		who := "refrun " + args[0]
		if args[0] == "--version" {
			who = "refrun version"
		} else if len(args) == 1 && args[0] != "info" && args[0] != "version" { // no verb
			who = "refrun"
		}
		for _, room := range []int{0, 5} {
			var stderr strings.Builder
			code := realMain(args, &full{room}, &stderr)
			if want := who + ": stdout: no space left on device\n"; code != 2 || stderr.String() != want {
				t.Errorf("%v: exit code %d, stderr %q", args, code, stderr.String())
			}
		}
		if code := realMain(args, io.Discard, io.Discard); code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

// TestPanic: a bug is one line as well.
func TestPanic(t *testing.T) {
	before := verbs
	defer func() { verbs = before }()
	verbs = append(slices.Clone(verbs),
		cli.Verb{Name: "broken", Run: func(*cli.Command) error { panic("oracle: a bug\nof two lines") }})
	r := refrun(t, "broken")
	if r.Code != 2 || r.Stdout != "" || strings.Count(r.Stderr, "\n") != 1 ||
		!strings.HasPrefix(r.Stderr, "refrun: internal error: oracle: a bug") {
		t.Errorf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
}
