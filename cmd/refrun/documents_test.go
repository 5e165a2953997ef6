package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// documents are all texts for readers.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{
		"*.md", "docs/*.md", "docs/*/README.md", "interop/*/README.md", "internal/asm/README.md", "examples/README.md",
	} {
		names, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(filepath.ToSlash(name), "../../")] = string(b)
		}
	}
	if len(texts) < 15 {
		t.Fatalf("%d documents", len(texts))
	}
	return texts
}

var (
	fences   = regexp.MustCompile("(?ms)^[ \t]*```([a-z]*)\n(.*?)^[ \t]*```")
	replies  = regexp.MustCompile(`^refrun(  | [a-z]+(:|  ))`) // what the command says, not a command
	commands = regexp.MustCompile(`^(refrun|go|git|pip|python3?|docker|scripts/|\.ci/|interop/|cd |diff ` +
		`|sha256sum|examples/|source|dist/|benchstat|pytest|mypy|sbatch|srun|bash |sh |curl |export |[A-Z_]+=)`)
)

// ranElsewhere has the beginnings of commands that this test does not run, and where they are run
// or why they are not.
var ranElsewhere = map[string]string{
	// .ci/run runs these, or their parts.
	"go run ./cmd/refrun demo": "leg: the README", "go test ./...": "leg: tests", ".ci/run": "itself",
	"pip install": "leg: Python", "examples/run": "leg: Python",
	"cd interop/python": "leg: Python", "scripts/release": "leg: release", "scripts/wheels": "leg: Python",
	"go install ./cmd/refrun": "leg: staticcheck builds all",
	"refrun demo":             "leg: the README", "refrun selftest": "leg: selftest", "sha256sum": "leg: release",
	"benchstat": "leg: staticcheck",
	// Campaigns: flags with more of what the tests do without.
	"go test ./": "campaign", "REFRUN_JUDGE=": "campaign", "go test -bench": "measures", "go test -run xxx": "measures",
	"go test -c": "measures", ".ci/fuzz": "campaign", "interop/zoo/": "campaign", "interop/bench/": "measures",
	"python3 interop/bench/": "measures", "REFRUN_BIN=./refrun python interop/pypi/": "downloads networks",
	"refrun bench": "measures", "cd internal/asm/_gen": "counts instructions",
	"interop/onnx/": "needs Python's onnx",
	// Others.
	"python interop/gpu/": "needs a GPU", "python interop/python/examples/": "needs torch", "docker": "needs a daemon",
	"git":                            "of a release",
	"refrun check --onnx block.onnx": "needs an ONNX file; TestModelFlags",
	"refrun run --onnx":              "needs an ONNX file; onnx/ has tests of its own",
	"refrun info --onnx":             "needs an ONNX file",
	"refrun kernel":                  "internal/oracle/kernel and docs/KERNELS.md",
	"refrun dataset":                 "TestDataset runs them",
	"refrun study --case":            "minutes; TestStartOfTrajectories",
	"refrun run --graph":             "interop/python/tests/test_network.py",
	"go doc":                         "prints", "go install golang.org/x/perf": "of a reader", "scripts/bench": "measures",
	"go run -C": "go test ./examples/...", "dist/": "of a release", "diff": "of a release",
	"refrun run --config run.yaml": "a sketch of docs/README.md", "refrun molecule": "tests of its own",
	"go tool pprof": "measures", "python3 interop/zoo/": "campaign", "scripts/mutate": "campaign",
}

// TestDocuments: every command in a block of a document is run here, or elsewhere, or is known to
// need what is not there.
func TestDocuments(t *testing.T) {
	work := clitest.NewFolder(t).Write()
	ran, texts := 0, documents(t)
	t.Chdir("../..") // where the documents' paths begin
	for name, text := range texts {
		for _, block := range fences.FindAllStringSubmatch(text, -1) {
			if block[1] != "" && block[1] != "sh" {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", " ")) {
				line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
				if i := strings.Index(line, " #"); i >= 0 {
					line = strings.TrimSpace(line[:i])
				}
				if !commands.MatchString(line) || replies.MatchString(line) {
					continue
				}
				if !known(line) {
					ran++
					runDocumented(t, name, line, work)
				}
			}
		}
	}
	if ran < 6 {
		t.Errorf("%d commands were run", ran)
	}
}

func known(line string) bool {
	for begin := range ranElsewhere {
		if strings.HasPrefix(line, begin) {
			return true
		}
	}
	return false
}

// runDocumented runs a command with the files that documents speak of. Verdicts may be any.
func runDocumented(t *testing.T, name, line, work string) {
	t.Helper()
	args, ok := strings.CutPrefix(strings.ReplaceAll(line, "go run ./cmd/refrun", "refrun"), "refrun ")
	if !ok {
		t.Errorf("%s: %q: neither a command of refrun nor known elsewhere", name, line)
		return
	}
	op := filepath.Join(t.TempDir(), "op.yaml")
	if err := os.WriteFile(op, []byte("weights_seed: 0\noperator: {num_layers: 0, base_channels: 4, grid_size: "+
		"16}\nrollout: {num_timesteps: 3, num_realizations: 1}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	place := strings.NewReplacer("my_case", work, "--case case ", "--case "+work+" ", "report.html",
		filepath.Join(t.TempDir(), "r.html"), "results.xml", filepath.Join(t.TempDir(), "r.xml"), "op.yaml",
		op, "case.yaml", filepath.Join(work, "case.json"), "w.safetensors", filepath.Join(work, "weights.safetensors"),
		"gpu.safetensors", filepath.Join(work, "trajectory.safetensors"), "--tape noise.safetensors",
		"--noise none", "out.h5", filepath.Join(t.TempDir(), "out.h5"), "-o states.safetensors",
		"-o "+filepath.Join(t.TempDir(), "states.safetensors"))
	var words []string
	for _, w := range strings.Fields(place.Replace(args + " ")) {
		if strings.ContainsAny(w, "<>|;&") {
			break
		}
		words = append(words, w)
	}
	if r := refrun(t, words...); r.Code == cli.ExitUsage {
		t.Errorf("%s: %s: exit code %d, %s", name, line, r.Code, r.Stderr)
	}
}

// TestGoInDocuments: the lines of Go of docs/ROLLOUTS.md, and the whole program of docs/NUMERICS.md, do what is said in
// a module of a user's own, which finds a clone as docs/ROLLOUTS.md says.
func TestGoInDocuments(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, texts := t.TempDir(), documents(t)
	flags, err := exec.Command("go", "env", "GOFLAGS").Output() // with others all would be compiled again
	if err != nil {
		t.Fatal(err)
	}
	shell := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(string(flags))+" -mod=mod", "GOWORK=off")
		var problem strings.Builder
		cmd.Stderr = &problem
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, problem.String())
		}
		return string(out)
	}
	block := func(name string) (code, after string) {
		i := strings.Index(texts[name], "```go\n")
		code, after, ok := strings.Cut(texts[name][max(i, 0)+len("```go\n"):], "\n```\n")
		if i < 0 || !ok {
			t.Fatalf("%s has no Go", name)
		}
		return code, after
	}
	run := func(code string) string {
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(code), 0o666); err != nil {
			t.Fatal(err)
		}
		return shell("go", "run", ".")
	}
	for i, line := range []string{
		"go mod init example.com/first", "go mod edit -replace github.com/refrun/refrun=" + root,
	} {
		if i > 0 && !strings.Contains(strings.Join(strings.Fields(texts["docs/ROLLOUTS.md"]), " "),
			strings.TrimSuffix(line, root)) {
			t.Errorf("docs/ROLLOUTS.md does not say %s", line)
		}
		words := strings.Fields(line)
		shell(words[0], words[1:]...)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "case"),
		os.DirFS(filepath.Join(root, "testdata/rollouts/no_norm_no_noise"))); err != nil {
		t.Fatal(err)
	}
	lines, _ := block("docs/ROLLOUTS.md")
	code := `package main

import (
	"fmt"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
` + lines + `
	check(err)
	fmt.Println(x.Dims(), x.Format)
}
`
	if got := run(code); got != "[1,3,64,64] float32\n" {
		t.Errorf("the lines of docs/ROLLOUTS.md give %q", got)
	}
	program, after := block("docs/NUMERICS.md")
	want, _, _ := strings.Cut(strings.TrimPrefix(after, "\n```\n"), "```")
	if got := run(program); got != want || want == "" {
		t.Errorf("docs/NUMERICS.md says %q, and its program prints %q", want, got)
	}
}
