package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
)

// hostile is a call of the command that must be refused: what it is given is broken,
// lies about itself, or asks for more than it is worth.
type hostile struct {
	class string
	args  []string
}

// What a refusal may cost, beside the size of the files that the call names.
const (
	mostSeconds = 2
	mostBytes   = 256 << 20
)

// corpus makes all of them, with their files in the present folder.
func corpus(t *testing.T) []hostile {
	t.Helper()
	return slices.Concat(hostileFlags(t), hostilePaths(t), hostileConfigs(t), hostileFields(t), hostileCases(t),
		hostileTensors(t), hostileModels(t))
}

// TestHostile: each ends within two seconds and 256 MB, with exit code 2, nothing on
// stdout, and one line of at most 300 printable characters on stderr. The seconds are
// those of the processor, which do not depend on what else the machine does; of memory
// everything that was allocated is counted, which is more than what was held at a time.
func TestHostile(t *testing.T) {
	t.Chdir(t.TempDir())
	type cost struct {
		n       int
		seconds float64
		bytes   int64
		slowest string
		largest string
	}
	classes := map[string]*cost{}
	all := corpus(t)
	for _, h := range all {
		seconds, bytes := h.refused(t)
		c := classes[h.class]
		if c == nil {
			c = &cost{seconds: -1, bytes: -1}
			classes[h.class] = c
		}
		c.n++
		if seconds > c.seconds {
			c.seconds, c.slowest = seconds, h.String()
		}
		if bytes > c.bytes {
			c.bytes, c.largest = bytes, h.String()
		}
	}
	const atLeast = 409
	if len(all) < atLeast {
		t.Errorf("%d hostile inputs: want at least %d", len(all), atLeast)
	}
	if testing.Verbose() {
		names := []string{}
		for name := range classes {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			c := classes[name]
			t.Logf("%-24s %4d  %5.2f s  %5.0f MB  slowest %s; largest %s",
				name, c.n, c.seconds, float64(c.bytes)/1e6, c.slowest, c.largest)
		}
		t.Logf("%d in all", len(all))
	}
}

func (h hostile) String() string { return fmt.Sprintf("%.100q", h.args) }

// refused runs the call and returns what it cost.
func (h hostile) refused(t *testing.T) (seconds float64, allocated int64) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	var before, after runtime.MemStats
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads) // --threads sets it
	runtime.ReadMemStats(&before)
	began, code := processorSeconds(), -1
	ended := make(chan bool)
	go func() {
		defer close(ended)
		code = realMain(h.args, &stdout, &stderr)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("%s: %v does not end", h.class, h)
	}
	seconds = processorSeconds() - began
	runtime.ReadMemStats(&after)
	allocated = int64(after.TotalAlloc - before.TotalAlloc)
	if wrong := judgeHostile(code, stdout.String(), stderr.String()); wrong != "" {
		t.Errorf("%s: %v: %s", h.class, h, wrong)
	}
	if seconds > mostSeconds {
		t.Errorf("%s: %v took %.1f s", h.class, h, seconds)
	}
	if most := mostBytes + h.size(); allocated > most {
		t.Errorf("%s: %v allocated %d bytes: want at most %d", h.class, h, allocated, most)
	}
	return seconds, allocated
}

// judgeHostile says what is wrong with how a call ended that had to be refused, or nothing.
func judgeHostile(code int, stdout, stderr string) string {
	line, whole := strings.CutSuffix(stderr, "\n")
	bad := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	switch {
	case code != cli.ExitUsage:
		return fmt.Sprintf("exit code %d: want 2; stderr %.300q", code, stderr)
	case stdout != "":
		return fmt.Sprintf("stdout %.100q: want nothing there", stdout)
	case !whole || strings.ContainsFunc(line, bad):
		return fmt.Sprintf("stderr %.400q: want one clean line", stderr)
	case utf8.RuneCountInString(line) > 300:
		return fmt.Sprintf("%d characters on stderr, %s: want at most 300", utf8.RuneCountInString(line), line)
	case !strings.HasPrefix(line, "refrun") || strings.Contains(line, "internal error"):
		return fmt.Sprintf("stderr %q: want an answer", line)
	}
	return ""
}

// size is that of the files of the corpus that the call names.
func (h hostile) size() (n int64) {
	for _, arg := range h.args {
		for _, name := range []string{arg, filepath.Join(arg, "case.json")} {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				n += info.Size()
			}
		}
	}
	return n
}

// put writes a file into the present folder and returns its name.
func put(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestJudge: what is no refusal is none.
func TestJudge(t *testing.T) {
	const ok = "refrun run: x: want y\n"
	if wrong := judgeHostile(2, "", ok); wrong != "" {
		t.Error(wrong)
	}
	for _, k := range []struct {
		code           int
		stdout, stderr string
	}{
		{0, "", ok}, {1, "", ok}, {130, "", ok}, {2, "PASS", ok}, {2, "", ""}, {2, "", "refrun run: x"}, {2, "", ok + ok},
		{2, "", "refrun run: \x1b[2J\n"}, {2, "", "refrun run: \u202e\n"}, {2, "", "refrun run: \xff\n"},
		{2, "", "panic: x\n"},
		{2, "", "refrun: internal error: x\n"}, {2, "", "refrun run: " + strings.Repeat("x", 300) + "\n"},
	} {
		if judgeHostile(k.code, k.stdout, k.stderr) == "" {
			t.Errorf("%v passes for a refusal", k)
		}
	}
}
