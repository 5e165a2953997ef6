package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

var kills = flag.Int("kills", 2, "how many processes TestKills kills; more than 10 of longer runs")

// asCommand returns a process of the command.
func asCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "REFRUN_TEST_COMMAND=1")
	return c
}

// killCase makes, in the working folder, a case with a tape, and
// weights and an initial condition beside it.
func killCase(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	os.Mkdir("case", 0o777)
	text := `{"operator": {"num_layers": 1, "base_channels": 6, "input_channels": 2, "output_channels": 2, "grid_size": 12,
		"noise_type": "laplace", "noise_scale": 0.1}, "rollout": {"num_timesteps": STEPS, "num_realizations": 5,
		"engine_batch": 2}, "weights_seed": 1}`
	steps := "31"
	if *kills > 10 {
		steps = "201"
	}
	text = strings.Replace(text, "STEPS", steps, 1)
	if err := os.WriteFile("case/case.json", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cs, err := rollout.ParseCase("case.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	op, err := cs.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	var weights []*safetensors.Tensor
	for _, p := range op.Params() {
		w, err := safetensors.OfFloat64s(p.Name, safetensors.F32, p.Shape, p.Data)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, w)
	}
	if err := safetensors.WriteFile("weights.safetensors", weights, nil); err != nil {
		t.Fatal(err)
	}
	x0 := make([]float64, 2*12*12)
	if err := rollout.White(3, rollout.Shape{C: 2, H: 12, W: 12}, x0); err != nil {
		t.Fatal(err)
	}
	start, err := safetensors.OfFloat64s("x0", safetensors.F32, []int{2, 12, 12}, x0)
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile("x0.safetensors", []*safetensors.Tensor{start}, nil); err != nil {
		t.Fatal(err)
	}
	if r := refrun(t, "run", "--case", "case", "--noise", "counter", "--x0", "x0.safetensors", "-o", "first.npy",
		"--record", "case/noise.safetensors"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
}

// scaled returns the tensors of a file, all numbers times a factor.
func scaled(t *testing.T, name string, by float64) []byte {
	t.Helper()
	f, err := safetensors.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	var all []*safetensors.Tensor
	for _, name := range f.Names() {
		if strings.HasPrefix(name, "integrity.") {
			continue // a tape that speaks of its bytes is refused for that
		}
		old, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := old.Float64s(); err == nil {
			for i := range v {
				v[i] = float64(float32(v[i] * by))
			}
			if old, err = safetensors.OfFloat64s(name, old.DType, old.Shape, v); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, old)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, f.Metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// swaps are changes of what a run reads, and what a resumed run says of them.
var swaps = []struct {
	file, want string
	edit       func(t *testing.T, file string, b []byte) []byte
}{
	{"case/noise.safetensors", ": tape: the ",
		func(t *testing.T, file string, b []byte) []byte { return scaled(t, file, 1.5) }},
	{"weights.safetensors", ": weights: the ",
		func(t *testing.T, file string, b []byte) []byte { return scaled(t, file, 1.5) }},
	{"x0.safetensors", ": initial condition: the ",
		func(t *testing.T, file string, b []byte) []byte { return scaled(t, file, 1.5) }},
	{"case/case.json", ": base_seed: the ", func(t *testing.T, file string, b []byte) []byte {
		return bytes.Replace(b, []byte(`"engine_batch"`), []byte(`"base_seed": 5, "engine_batch"`), 1)
	}},
	{"case/case.json", ": clamp_range: the ", func(t *testing.T, file string, b []byte) []byte {
		return bytes.Replace(b, []byte(`"engine_batch"`), []byte(`"clamp_range": [-1, 1], "engine_batch"`), 1)
	}},
	{"case/case.json", ": operator: the ", func(t *testing.T, file string, b []byte) []byte {
		return bytes.Replace(b, []byte(`"grid_size"`), []byte(`"activation": "silu", "grid_size"`), 1)
	}},
}

// trySwapped resumes with another input, which must be refused, and puts the input back.
func trySwapped(t *testing.T, n int, args []string) {
	t.Helper()
	s := swaps[n%len(swaps)]
	was, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file, s.edit(t, s.file, was), 0o666); err != nil {
		t.Fatal(err)
	}
	r := refrun(t, args...)
	if r.Code != 2 || !strings.Contains(r.Stderr, s.want) || strings.Count(r.Stderr, "\n") != 1 {
		t.Errorf("another %s: exit code %d, %q, want %q", s.file, r.Code, r.Stderr, s.want)
	}
	if err := os.WriteFile(s.file, was, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestKills kills runs at any time, changes what they read, resumes them, kills them
// again: in the end the files are those of a run that nobody disturbed.
func TestKills(t *testing.T) {
	killCase(t)
	r := rand.New(rand.NewPCG(2, uint64(*kills)))
	var long time.Duration
	args := func(out, ext string) []string {
		return []string{"run", "--quiet", "--case", "case", "--noise", "tape", "--weights", "weights.safetensors",
			"--x0", "x0.safetensors", "--checkpoint", "5ms", "-o", out + ext, "--record", out + ext + ".tape"}
	}
	exts := []string{".safetensors", ".npy", ".npz", ".h5"}
	for _, ext := range exts {
		began := time.Now()
		if b, err := asCommand(t, args("whole", ext)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		long = max(long, time.Since(began))
	}
	files := func(out, ext string) map[string][]byte {
		all := map[string][]byte{}
		names, _ := filepath.Glob(out + ext + "*")
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(n, ".npy.sha256") { // it has the file's name, and a seal of that
				b = bytes.ReplaceAll(b[:bytes.LastIndex(b, []byte("# seal "))], []byte(out+".npy\n"), []byte("X.npy\n"))
			}
			all[strings.TrimPrefix(n, out)] = b
		}
		return all
	}
	count := map[string]int{}
	for n := 0; count["killed"] < *kills; n++ {
		ext := exts[n%len(exts)]
		out := fmt.Sprint("out", n)
		resume := args(out, ext)
		for round := 0; ; round++ {
			c := asCommand(t, resume...)
			var stderr bytes.Buffer
			c.Stderr = &stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			kill := time.AfterFunc(time.Duration(r.Int64N(int64(long))), func() { c.Process.Kill() })
			if round == 3 {
				kill.Stop()
			}
			err := c.Wait()
			kill.Stop()
			if err == nil {
				count["ended by itself"]++
				break
			}
			if c.ProcessState.Exited() {
				t.Fatalf("%s: exit code %d: %s", out+ext, c.ProcessState.ExitCode(), &stderr)
			}
			count["killed"]++
			resume = append(args(out, ext), "--resume")
			_, partial := os.Stat(out + ext + ".partial")
			_, checkpoint := os.Stat(out + ext + ".resume")
			if partial == nil && checkpoint == nil {
				count["killed with a checkpoint"]++
				trySwapped(t, n+round, resume)
				count["another input refused"]++
			}
		}
		got, want := files(out, ext), files("whole", ext)
		if len(got) != len(want) {
			t.Errorf("%s: %d files, want %d", out+ext, len(got), len(want))
		}
		for name, b := range want {
			if !bytes.Equal(got[name], b) {
				t.Errorf("%s: %s differs from the undisturbed run's", out, name)
			}
		}
		trySwapped(t, n, append(args(out, ext), "--resume")) // of a complete run
		count["another input of a complete run refused"]++
		if r := refrun(t, "verify", out+ext, out+ext+".tape"); r.Code != 0 {
			t.Errorf("%s: verify: exit code %d: %s%s", out+ext, r.Code, r.Stdout, r.Stderr)
		}
		names, _ := filepath.Glob(out + "*")
		for _, n := range names {
			os.Remove(n)
		}
	}
	t.Logf("a run takes %v; %v", long, count)
}

// TestVerifyVerb: what verify says of whole files, of one with a bit that is another, of
// files without hashes and of what is no such file.
func TestVerifyVerb(t *testing.T) {
	formats, err := filepath.Abs("../../docs/FORMATS.md")
	if err != nil {
		t.Fatal(err)
	}
	killCase(t)
	run := []string{"run", "--case", "case", "--x0", "x0.safetensors", "--steps", "9", "--store", "float16"}
	for _, ext := range []string{".safetensors", ".npy", ".npz", ".h5"} {
		if r := refrun(t, append(run, "-o", "a"+ext)...); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
	}
	r := refrun(t, "verify", "a.safetensors", "a.npy", "a.npz", "a.h5", "case/noise.safetensors")
	if r.Code != 0 || strings.Count(r.Stdout, ": ok, ") != 5 || r.Stderr != "" {
		t.Errorf("exit code %d, %q %q", r.Code, r.Stdout, r.Stderr)
	}
	whole := refrun(t, append(run, "-o", "b.npy", "--json")...).Decode(t)
	if d := whole["stored_digest"]; whole["stored_format"] != "float16" || d == whole["digest"] ||
		!strings.Contains(clitest.Unfolded(r.Stdout), fmt.Sprintf("a.npy: ok, 50 states, digest %v (float16)", d)) {
		t.Errorf("digests %v and %v, %s", whole["digest"], d, r.Stdout)
	}
	text, err := os.ReadFile(formats)
	if err != nil {
		t.Fatal(err)
	}
	for key := range refrun(t, "verify", "--json", "a.npy").Decode(t)["files"].([]any)[0].(map[string]any) {
		if _, section, _ := strings.Cut(string(text), "### verify FILE..."); !strings.Contains(section, "`"+key+"`") {
			t.Errorf("docs/FORMATS.md: verify: `%s` is not described", key)
		}
	}
	// One bit of state 3 of realization 2.
	f, err := os.ReadFile("a.npy")
	if err != nil {
		t.Fatal(err)
	}
	state := 2 * 12 * 12 * 2
	f[len(f)-50*state+23*state+9] ^= 64
	if err := os.WriteFile("a.npy", f, 0o666); err != nil {
		t.Fatal(err)
	}
	r = refrun(t, "verify", "a.npy", "a.npz")
	if want := "a.npy: DIFFERS: realization 2, state 3: the state, its diagnostics or their hash\n" +
		"a.npz: ok, "; r.Code != 1 || !strings.HasPrefix(r.Stdout, want) {
		t.Errorf("exit code %d, %q, want %q", r.Code, r.Stdout, want)
	}
	refrun(t, append(run, "-o", "a.npy", "--resume")...).Refused(t,
		"run", "a.npy: realization 2, state 3: the state, its diagnostics or their hash: not what was written: "+
			"want the file as the run left it; --force makes it again")
	files := refrun(t, "verify", "--json", "a.npy").Decode(t)["files"].([]any)
	if v := files[0].(map[string]any); v["ok"] != false || v["sealed"] != true || len(v["differ"].([]any)) != 1 {
		t.Errorf("%v", v)
	}
	// What holds no hashes, and what is no file of ours.
	if r := refrun(t, "verify", "a.npz", "weights.safetensors", "case"); r.Code != 3 ||
		strings.Count(r.Stdout, "no digest inside: nothing could be verified\n") != 2 {
		t.Errorf("exit code %d, %q", r.Code, r.Stdout)
	}
	os.Remove("a.npy.sha256")
	refrun(t, append(run, "-o", "a.npy", "--resume")...).Refused(t, "run", "a.npy: no a.npy.sha256: "+
		"no digest inside: nothing could be verified and nothing says which run made it: want ...")
	refrun(t, "verify", "case/case.json").Refused(t, "verify", "case/case.json: ...")
	refrun(t, "verify", "none.npz").Refused(t, "verify",
		"none.npz: no such file or directory: want a file that can be read")
	refrun(t, "verify").Refused(t, "verify", "0 arguments given: want FILE...")
}

// TestSums: the files of a case are compared with its SHA256SUMS.
func TestSums(t *testing.T) {
	f := clitest.NewFolder(t)
	dir := f.Write()
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	var sums bytes.Buffer
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%s  %s\n", sha(b), filepath.Base(n))
	}
	list := filepath.Join(dir, "SHA256SUMS")
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(list, sums.Bytes())
	if r := oneStep(t, dir); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	if r := refrun(t, "verify", dir); r.Code != 0 ||
		!strings.Contains(r.Stdout, fmt.Sprintf(": ok, %d files of a case\n", len(names))) {
		t.Errorf("%d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	name := filepath.Join(dir, "noise.safetensors")
	was, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(was)
	other[len(other)-3] ^= 1
	write(name, other)
	for _, verb := range [][]string{
		{"run", "--one-step"}, {"check"}, {"probe", "-o", t.TempDir()}, {"run", "--x0", "zeros"},
	} {
		refrun(t, append(verb, "--case", dir)...).Refused(t, verb[0], name+": SHA-256 ...")
	}
	if r := refrun(t, "verify", dir); r.Code != 1 || !strings.HasSuffix(r.Stdout, ": DIFFERS: noise.safetensors\n") {
		t.Errorf("%d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	os.Remove(name)
	refrun(t, "check", "--case", dir).Refused(t, "check",
		name+": no such file or directory: want the file that SHA256SUMS lists")
	write(name, was)
	for _, text := range []string{"abc  case.json\n", sha(nil) + " case.json\n\n", sha(nil) + "  ../x\n",
		sha(nil) + "  a\n" + sha(nil) + "  a\n", "\n"} {
		write(list, []byte(text))
		refrun(t, "check", "--case", dir).Refused(t, "check", list+":...")
	}
}

func sha(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// killAtCheckpoint starts a run and kills it when it has made its first checkpoint.
func killAtCheckpoint(t *testing.T, out string, args []string) {
	t.Helper()
	there := func(name string) bool { _, err := os.Stat(name); return err == nil }
	for range 20 { // it may end before it is killed
		c := asCommand(t, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for !there(out+".resume") && !there(out) {
			time.Sleep(time.Millisecond)
		}
		c.Process.Kill()
		if c.Wait() != nil && there(out+".resume") {
			return
		}
		os.Remove(out)
		os.Remove(out + ".sha256")
	}
	t.Fatal("never killed in time")
}

// TestAnotherInput is what was seen: a run is killed, its tape multiplied by 1.5, the run
// resumed: exit code 0, and a file that is neither run's. So with every other input.
func TestAnotherInput(t *testing.T) {
	killCase(t)
	args := []string{"run", "--quiet", "--case", "case", "--noise", "tape", "--weights", "weights.safetensors", "--x0",
		"x0.safetensors", "--checkpoint", "0", "-o"}
	if r := refrun(t, append(args, "whole.h5")...); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	killAtCheckpoint(t, "out.h5", append(args, "out.h5"))
	resume := append(args, "out.h5", "--resume")
	for n := range swaps {
		trySwapped(t, n, resume)
	}
	refrun(t, append(resume, "--allow-nonfinite")...).Refused(t, "run",
		`out.h5.resume: allow_nonfinite: the unfinished run had "false", this one has "true": want ...`)
	refrun(t, append(resume, "--record", "tape.safetensors")...).Refused(t, "run",
		`out.h5.resume: --record: the unfinished run did not have it: want ...`)
	// What the names of the inputs are does not matter.
	os.Rename("weights.safetensors", "w.safetensors")
	resume[7] = "w.safetensors"
	if r := refrun(t, resume...); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	want, err := os.ReadFile("whole.h5")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("out.h5"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, or other bytes than the undisturbed run's", err)
	}
}

// TestNoteOfDamage: a run that goes back says so, as text and as JSON.
func TestNoteOfDamage(t *testing.T) {
	killCase(t)
	args := []string{"run", "--quiet", "--case", "case", "--x0", "x0.safetensors", "--noise", "counter", "--checkpoint",
		"0", "-o", "out.npy"}
	killAtCheckpoint(t, "out.npy", args)
	b, err := os.ReadFile("out.npy.partial")
	if err != nil {
		t.Fatal(err)
	}
	b[128+31] ^= 1 // of the first state
	if err := os.WriteFile("out.npy.partial", b, 0o666); err != nil {
		t.Fatal(err)
	}
	out := refrun(t, append(args, "--resume", "--json")...).Decode(t)
	if notes := fmt.Sprint(out["notes"]); notes !=
		"[out.npy.partial: realization 0, state 0: not the bytes that were written, so the run began again]" {
		t.Errorf("notes %s", notes)
	}
}
