package refrun_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What a library package may import beside the standard library and its
// neighbours.
var allowed = []string{
	"github.com/klauspost/cpuid/v2",
	"github.com/x448/float16",
	"gonum.org/v1/gonum/",
	"golang.org/x/sys/",
	protowire,
}

// protowire reads the bytes of ONNX files, and is for that alone.
const protowire = "google.golang.org/protobuf/encoding/protowire"

// inward lists, for each package that must stay at the bottom of the house,
// the project's packages it may import.
var inward = map[string][]string{
	"fp16":                        {},
	"asm":                         {"internal/asm"},
	"internal/asm":                {},
	"tensor":                      {"fp16"},
	"internal/ground/par":         {},
	"internal/exact/single":       {},
	"internal/ground/par/partest": {},
	"internal/exact/rows":         {"internal/asm", "fp16"},
	"internal/exact/elem":         {"fp16", "internal/exact/double"},
	"internal/exact/whole":        {"internal/asm"},
	"internal/ground/strict":      {"internal/ground/fault"},
	"internal/exact/double":       {},
	"internal/ground/attr":        {},
	"internal/exact":              {"internal/exact/double"},
	"internal/exact/dd":           {},
	"internal/judges/exhaust":     {"internal/op/act", "fp16", "tensor", "internal/exact/dd"},
	"internal/judges/share":       {},
	"internal/judges/randgraph":   {"fp16", "graph", "internal/op/pointwise", "tensor"},
	"internal/judges/bigref":      {"fp16", "tensor", "internal/ground/par"},
	"internal/ground/disk":        {},
	"internal/ground/memory":      {},
	"internal/judges/joined":      {},
	"internal/ground/scratch":     {"internal/ground/disk"},
	"internal/ground/fault":       {"internal/ground/disk"},
	"safetensors":                 {"fp16", "internal/ground/disk", "internal/ground/fault"},
	"internal/format/npy":         {"fp16", "internal/ground/disk", "internal/ground/fault"},
	"internal/format/zarr":        {"fp16", "internal/ground/disk"},
	"internal/format/hdf5":        {"fp16", "internal/asm", "internal/ground/disk", "internal/ground/fault"},
	"internal/op/conv": {
		"internal/asm", "fp16", "tensor", "internal/exact", "internal/ground/par", "internal/exact/single",
		"internal/exact/whole",
	},
	"internal/op/matmul": {"internal/asm", "fp16", "tensor", "internal/exact", "internal/ground/par",
		"internal/exact/single",
		"internal/exact/whole"},
	"tensorcore": {"internal/asm", "fp16", "tensor", "internal/exact", "internal/ground/par"},
	"internal/op/attention": {
		"fp16", "internal/exact/double", "internal/exact/elem", "internal/exact", "internal/op/matmul",
		"internal/ground/par", "tensor",
	},
	"internal/op/norm": {
		"internal/asm", "fp16", "tensor", "internal/exact/double", "internal/exact", "internal/ground/par",
		"internal/exact/single",
	},
	"internal/op/act": {"internal/asm", "fp16", "tensor", "internal/exact/elem", "internal/exact", "internal/ground/par",
		"internal/exact/rows", "internal/exact/single"},
	"internal/op/reduce": {
		"fp16", "tensor", "internal/asm", "internal/exact/elem", "internal/exact", "internal/ground/par",
		"internal/exact/single",
	},
	"internal/op/spectral": {"fp16", "tensor", "internal/exact/double", "internal/exact", "internal/ground/par"},
	"internal/op/index":    {"fp16", "tensor", "internal/exact", "internal/ground/par"},
	"internal/op/pool":     {"fp16", "tensor", "internal/exact/elem", "internal/exact", "internal/ground/par"},
	"internal/op/resize":   {"fp16", "tensor", "internal/exact", "internal/ground/par"},
	"internal/op/sample":   {"fp16", "tensor", "internal/exact", "internal/ground/par"},
	"graph": {
		"fp16", "internal/ground/attr", "internal/ground/memory", "internal/op/act", "internal/op/attention",
		"internal/op/conv",
		"internal/op/index", "internal/op/matmul", "internal/op/norm", "internal/op/pointwise", "internal/op/pool",
		"internal/op/reduce", "internal/op/resize", "internal/op/sample", "internal/op/spectral", "internal/ground/par",
		"noise", "tensor",
	},
	"internal/grad": {"internal/op/act", "internal/op/conv", "fp16", "graph", "internal/op/pointwise", "tensor"},
	"molecule": {
		"diff", "fp16", "graph", "internal/grad", "internal/op/act", "internal/op/pointwise", "internal/ground/strict",
		"noise", "plan", "safetensors", "tensor",
	},
	"onnx": {
		"fp16", "graph", "internal/ground/disk", "internal/exact/elem", "internal/exact", "internal/ground/fault",
		"internal/ground/memory",
		"internal/op/act", "internal/op/pointwise", "tensor",
	},
	"network": {
		"fp16", "graph", "internal/ground/fault", "internal/op/pointwise", "internal/ground/strict", "safetensors", "tensor",
	},
	"plan": {
		"fp16", "graph", "internal/asm", "internal/ground/memory", "internal/op/act", "internal/op/conv",
		"internal/op/matmul", "internal/op/norm", "internal/op/pointwise", "internal/op/pool", "internal/op/reduce",
		"internal/ground/par", "internal/exact/rows", "noise", "tensor",
	},
	"internal/op/quantize": {"fp16", "tensor"},
	"internal/op/pointwise": {
		"fp16", "internal/asm", "internal/exact/double", "internal/exact/elem", "internal/exact", "internal/ground/par",
		"internal/exact/rows", "tensor",
	},
	"dataset": {
		"graph",
		"fp16", "internal/dataset/initial", "internal/dataset/sample", "internal/ground/disk", "internal/exact/elem",
		"internal/ground/fault", "internal/format/hdf5", "internal/ground/memory", "internal/ground/par",
		"internal/ground/strict", "internal/format/zarr",
		"noise", "operator", "rollout", "safetensors",
	},
	"internal/dataset/sample": {"noise"},
	"internal/dataset/initial": {
		"fp16", "internal/exact/elem", "internal/op/spectral", "internal/ground/strict", "noise", "tensor",
	},
	"diff":                   {"fp16"},
	"oracle/report":          {"diff"},
	"internal/oracle/kernel": {"fp16", "oracle/report", "tensor", "tensorcore"},
	"internal/oracle/factor": {
		"fp16", "internal/exact/double", "internal/exact/elem", "internal/ground/attr", "internal/oracle/table",
		"tensor"},
	"internal/oracle/quantizer": {"fp16", "graph", "internal/oracle/table", "internal/oracle/judge", "oracle/report",
		"internal/op/pointwise", "internal/op/quantize", "tensor", "tensorcore"},
	"internal/oracle/judge": {
		"fp16", "graph", "internal/ground/attr", "internal/exact/elem", "internal/ground/memory", "internal/op/act",
		"internal/op/conv",
		"internal/op/pointwise", "internal/op/resize", "internal/op/sample", "internal/oracle/kernel",
		"internal/oracle/table", "internal/ground/par", "internal/oracle/winograd", "oracle/report", "tensor",
	},
	"internal/oracle/gradient": {
		"fp16", "graph", "internal/ground/attr", "internal/grad", "internal/op/act", "internal/op/pointwise",
		"internal/oracle/judge", "tensor",
	},
	"internal/oracle/forward": {"diff", "fp16", "graph", "internal/oracle/lower", "internal/oracle/part",
		"internal/oracle/table", "internal/oracle/judge", "oracle/report", "tensor"},
	"internal/oracle/render": {"internal/oracle/words", "diff", "oracle/report", "internal/format/svg"},
	"study": {
		"graph", "diff", "fp16", "internal/exact/elem", "operator", "rollout", "tensor"},
	"noise": {"internal/asm", "fp16", "tensor", "internal/exact/elem", "internal/exact", "internal/ground/par",
		"internal/exact/rows", "internal/exact/single", "safetensors"},

	// the rooms of the oracle, from the ground up
	"internal/oracle/winograd": {},
	"internal/oracle/part":     {"graph"},
	"internal/oracle/lower":    {"internal/op/act", "fp16", "graph", "internal/op/pointwise", "tensor"},
	"oracle/internal/measure":  {"internal/exact/elem", "rollout", "tensor"},
	"oracle/internal/emulate": {
		"fp16", "graph", "internal/exact/elem", "internal/op/act", "internal/op/conv", "internal/op/norm",
		"internal/ground/par",
		"internal/exact/rows", "noise", "operator", "oracle/internal/measure", "internal/oracle/winograd", "rollout",
		"tensor",
	},
	"oracle/internal/evidence": {
		"graph", "fp16", "noise", "operator", "oracle/internal/emulate", "oracle/internal/measure",
		"rollout", "safetensors", "tensor"},
	"internal/oracle/words": {},
	"internal/oracle/table": {"oracle/report"},
	"oracle/internal/facts": {
		"internal/oracle/words",
		"internal/op/act", "operator", "oracle/internal/evidence", "oracle/internal/measure",
		"internal/oracle/table", "oracle/report", "rollout"},
	"oracle/internal/trial": {
		"fp16", "graph", "internal/op/act", "internal/op/conv", "internal/oracle/table", "noise", "operator",
		"oracle/internal/emulate", "oracle/internal/evidence", "oracle/internal/measure", "oracle/report", "tensor",
	},
	"oracle/internal/fault": {
		"graph", "internal/op/act", "internal/op/conv", "fp16", "internal/exact/elem", "noise", "operator",
		"oracle/internal/emulate", "oracle/internal/evidence", "oracle/internal/measure", "internal/oracle/table",
		"oracle/internal/trial", "oracle/report", "rollout", "tensor"},
	"oracle/internal/structure": {"diff", "fp16", "noise", "oracle/internal/emulate", "oracle/internal/evidence",
		"oracle/internal/facts", "oracle/internal/measure", "internal/oracle/table", "oracle/report", "tensor"},
	"oracle/internal/chain": {
		"internal/oracle/words",
		"diff", "fp16", "graph", "internal/op/act", "internal/op/pointwise", "internal/oracle/table", "noise",
		"operator", "oracle/internal/emulate", "oracle/internal/evidence", "oracle/internal/facts",
		"oracle/internal/fault", "internal/oracle/lower", "oracle/internal/measure", "internal/oracle/part",
		"oracle/internal/trial",
		"internal/oracle/judge", "oracle/report", "rollout", "safetensors", "tensor",
	},
	"oracle/internal/tape": {
		"diff", "fp16", "internal/exact/elem", "noise", "oracle/internal/evidence", "oracle/internal/facts",
		"oracle/report",
	},
	"oracle/internal/noisestat": {
		"internal/oracle/words", "internal/op/act", "diff", "fp16", "internal/exact/elem", "noise", "operator",
		"oracle/internal/emulate", "oracle/internal/evidence", "oracle/internal/facts", "oracle/internal/measure",
		"oracle/report", "rollout", "tensor"},
	"oracle/internal/replay": {
		"graph", "diff", "fp16", "internal/exact/elem", "noise", "operator", "oracle/internal/emulate",
		"oracle/internal/evidence", "oracle/internal/facts", "oracle/internal/measure", "internal/oracle/table",
		"oracle/internal/noisestat", "oracle/report", "rollout", "tensor"},
	"oracle/internal/probe": {"diff", "fp16", "internal/ground/disk", "noise", "operator", "oracle/internal/emulate",
		"oracle/internal/evidence", "oracle/internal/facts", "oracle/internal/measure", "internal/oracle/table",
		"oracle/report", "rollout", "safetensors", "tensor"},
	"oracle/internal/rig": {
		"graph", "fp16", "noise", "operator", "oracle/internal/emulate", "oracle/internal/evidence",
		"oracle/internal/facts", "oracle/internal/measure", "oracle/report", "rollout", "safetensors", "tensor"},
	"oracle": {
		"graph", "internal/oracle/forward", "internal/oracle/judge", "internal/oracle/words",
		"diff", "fp16", "internal/ground/fault", "operator", "oracle/internal/chain", "oracle/internal/emulate",
		"oracle/internal/evidence", "oracle/internal/facts", "oracle/internal/fault",
		"oracle/internal/measure", "oracle/internal/noisestat", "oracle/internal/probe",
		"oracle/internal/replay", "oracle/internal/structure", "internal/oracle/table",
		"oracle/internal/tape", "internal/oracle/render", "oracle/report", "rollout", "tensor",
	},
}

const module = "github.com/refrun/refrun/"

func TestImports(t *testing.T) {
	files, seen := 0, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != "." &&
				(strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || name == "testdata") || path == "cmd" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		if generator, err := ignored(path); generator || err != nil {
			return err
		}
		files++
		if dir := filepath.ToSlash(filepath.Dir(path)); unlisted(dir) && !seen[dir] {
			seen[dir] = true
			t.Errorf("%s has no row in inward: want one, with what it may import", dir)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		if math := forbiddenMath(path, f); math != "" {
			t.Errorf("%s calls %s, which differs between ports: use internal/exact/elem", path, math)
		}
		dir, test := filepath.ToSlash(filepath.Dir(path)), strings.HasSuffix(name, "_test.go")
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if why := forbidden(dir, imp, test); why != "" {
				t.Errorf("%s imports %s: %s", path, imp, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files found: the walk is broken", files)
	}
}

// osFiles are the functions of package os that reach files. Only internal/ground/disk
// calls them, so that a test can make each operation of the whole program fail.
var osFiles = map[string]bool{"Chdir": true, "Chmod": true, "Chtimes": true, "CopyFS": true, "Create": true,
	"CreateTemp": true, "DirFS": true, "Link": true, "Lstat": true, "Mkdir": true, "MkdirAll": true, "MkdirTemp": true,
	"NewFile": true, "Open": true, "OpenFile": true, "OpenInRoot": true, "OpenRoot": true, "ReadDir": true,
	"ReadFile": true, "Readlink": true, "Remove": true, "RemoveAll": true, "Rename": true, "Stat": true,
	"Symlink": true, "Truncate": true, "WriteFile": true}

// aroundDisk returns the first use in a file of a function that reaches files around
// internal/ground/disk, or "".
func aroundDisk(path string, f *ast.File) (name string) {
	if strings.HasSuffix(path, "_test.go") {
		return ""
	}
	for _, room := range []string{
		"internal/ground/disk/", "internal/judges/hashed/", "oracle/internal/rig/", // for tests, but for the first
		"cmd/refrun/internal/clitest/",                                     // for tests
		"internal/ground/memory/", "cmd/refrun/internal/cli/peak_linux.go", // /proc, which is no file of the user's
	} {
		if strings.HasPrefix(filepath.ToSlash(path), room) {
			return ""
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && name == "" {
			x, ok := s.X.(*ast.Ident)
			switch {
			case !ok:
			case x.Name == "os" && osFiles[s.Sel.Name],
				x.Name == "filepath" && (s.Sel.Name == "Glob" || s.Sel.Name == "Walk" || s.Sel.Name == "WalkDir" ||
					s.Sel.Name == "EvalSymlinks"),
				x.Name == "ioutil":
				name = x.Name + "." + s.Sel.Name
			}
		}
		return true
	})
	return name
}

// TestDisk holds that files are reached through internal/ground/disk only.
func TestDisk(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." &&
			(strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		if generator, err := ignored(path); generator || err != nil {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		if call := aroundDisk(path, f); call != "" {
			t.Errorf("%s: %s: want the function of internal/ground/disk", path, call)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files, %v: the walk is broken", files, err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "p.go",
		"package p; import \"os\"; var open, name = os.Open, os.Args", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := aroundDisk("p.go", f); got != "os.Open" {
		t.Errorf("%q: the ban cannot say no", got)
	}
}

// ignored reports whether a file is outside every build, as generators are.
func ignored(path string) (bool, error) {
	b, err := os.ReadFile(path)
	return strings.Contains(string(b), "\n//go:build ignore\n") || strings.HasPrefix(string(b), "//go:build ignore\n"), err
}

// portable are the functions of package math that give the same bits on every
// port: exact ones, and the square root.
var portable = map[string]bool{"Abs": true, "Ceil": true, "Copysign": true, "FMA": true, "Float32bits": true,
	"Float32frombits": true, "Float64bits": true, "Float64frombits": true, "Floor": true, "Frexp": true, "Ilogb": true,
	"Inf": true, "IsInf": true, "IsNaN": true, "Ldexp": true, "Mod": true, "NaN": true, "Nextafter": true,
	"RoundToEven": true, "Signbit": true, "Sqrt": true, "Trunc": true}

// forbiddenMath returns the first call in a production file of a function of
// package math that is not portable, or "".
func forbiddenMath(path string, f *ast.File) (name string) {
	if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.ToSlash(path), "internal/judges/bigref/") ||
		strings.HasPrefix(filepath.ToSlash(path), "oracle/internal/rig/") {
		return ""
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "math" && !portable[s.Sel.Name] && name == "" {
					name = "math." + s.Sel.Name
				}
			}
		}
		return true
	})
	return name
}

func forbidden(dir, imp string, test bool) string {
	own, ours := strings.CutPrefix(imp, module)
	switch {
	case ours && strings.HasPrefix(own, "cmd/"):
		return "nothing imports a command"
	case ours && own == "internal/judges/bigref" && !test:
		return "the judges are for tests only"
	case ours && own == "internal/ground/disk/faulty" && !test:
		return "faults are for tests only"
	case ours && own == "oracle/internal/rig" && !test:
		return "rigs are for tests only"
	case ours && own == "internal/ground/par/partest" && !test:
		return "changing threads are for tests only"
	case ours && !test:
		may, listed := inward[dir]
		if !listed || contains(may, own) {
			return ""
		}
		return "want only " + strings.Join(may, ", ")
	case ours:
		return ""
	case imp == "C" || imp == "unsafe" && dir != "internal/asm":
		return "pure, safe Go"
	case !strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		return "" // standard library
	}
	for _, a := range allowed {
		if imp == a || strings.HasSuffix(a, "/") && strings.HasPrefix(imp, a) {
			if strings.HasPrefix(imp, "gonum.org/") && !test && dir != "oracle" {
				return "gonum may not take part where digests are formed"
			}
			if imp == protowire && dir != "onnx" {
				return "only onnx reads protocol buffers"
			}
			return ""
		}
	}
	return "want the standard library or one of " + strings.Join(allowed, ", ")
}

// unlisted reports whether a package is one of the oracle's and has no row in inward. It
// could import anything.
func unlisted(dir string) bool {
	_, listed := inward[dir]
	return !listed && (strings.HasPrefix(dir+"/", "oracle/") || strings.HasPrefix(dir, "internal/oracle/"))
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// rooms lists, for each package of the command, the others that it may import: verbs stand on the ground and
// on no other verb.
var rooms = map[string][]string{
	// the ground
	"cli":   {"files"},
	"files": {},
	"model": {"cli", "files"},
	"setup": {"cli", "files"},
	// verbs
	"about":    {"cli", "model"},
	"bench":    {"cli", "files", "model", "setup"},
	"check":    {"cli", "files", "model", "setup"},
	"compare":  {"cli", "files"},
	"dataset":  {"cli", "files"},
	"kernel":   {"cli"},
	"molecule": {"cli", "model"},
	"run":      {"cli", "files", "model", "setup"},
	"serve":    {"cli", "model", "setup"},
	"study":    {"cli", "files", "model", "setup"},
	// for tests
	"clitest": {"cli"},
}

// inside says why a package of the command may not import another, or "".
func inside(dir, imp string, test bool) string {
	const folder = "cmd/refrun/internal/"
	of, ours := strings.CutPrefix(imp, module+folder)
	room, walled := strings.CutPrefix(dir, folder)
	may, listed := rooms[room]
	switch {
	case walled && !listed:
		return "has no row in rooms: want one, with what it may import"
	case !ours || test:
		return ""
	case of == "clitest":
		return "it is for tests only"
	case walled && !contains(may, of):
		return "want only " + strings.Join(may, ", ")
	}
	return ""
}

// TestRooms holds the walls between the verbs of the command.
func TestRooms(t *testing.T) {
	files := 0
	err := filepath.WalkDir("cmd/refrun", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			dir := filepath.ToSlash(filepath.Dir(path))
			if why := inside(dir, imp, strings.HasSuffix(path, "_test.go")); why != "" {
				t.Errorf("%s imports %s: %s", path, imp, why)
			}
		}
		return nil
	})
	if err != nil || files < 80 {
		t.Fatalf("%d files, %v: the walk is broken", files, err)
	}
	const folder = "cmd/refrun/internal/"
	for _, c := range []struct {
		dir, imp string
		test, ok bool
	}{
		{folder + "run", module + folder + "cli", false, true},
		{folder + "run", module + folder + "check", false, false},
		{folder + "files", module + folder + "cli", false, false},
		{folder + "serve", module + folder + "run", true, true},
		{folder + "run", module + folder + "clitest", false, false},
		{folder + "new", "fmt", false, false},
		{"cmd/refrun", module + folder + "check", false, true},
	} {
		if got := inside(c.dir, c.imp, c.test) == ""; got != c.ok {
			t.Errorf("%s importing %s (test %v): allowed %v, want %v", c.dir, c.imp, c.test, got, c.ok)
		}
	}
}

// TestForbidden shows that the rule above can say no.
func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		dir, imp string
		test, ok bool
	}{
		{"internal/op/conv", "fmt", false, true},
		{"internal/op/conv", module + "tensor", false, true},
		{"internal/op/conv", module + "operator", false, false},
		{"fp16", module + "tensor", false, false},
		{"internal/op/conv", module + "internal/judges/bigref", false, false},
		{"internal/op/conv", module + "internal/judges/bigref", true, true},
		{"internal/op/conv", module + "internal/ground/par/partest", false, false},
		{"operator", module + "internal/ground/par/partest", false, false},
		{"operator", module + "internal/ground/par/partest", true, true},
		{"oracle", "gonum.org/v1/gonum/stat", false, true},
		{"internal/op/conv", "gonum.org/v1/gonum/floats", false, false},
		{"internal/op/conv", "gopkg.in/yaml.v3", false, false},
		{"internal/op/conv", "github.com/klauspost/cpuid/v2evil", false, false},
		{"rollout", module + "cmd/refrun", false, false},
		{"noise", "C", false, false},
		{"onnx", protowire, false, true},
		{"onnx", "google.golang.org/protobuf/proto", false, false},
		{"graph", protowire, true, false},
	} {
		if got := forbidden(c.dir, c.imp, c.test) == ""; got != c.ok {
			t.Errorf("%s importing %s (test %v): allowed %v, want %v", c.dir, c.imp, c.test, got, c.ok)
		}
	}
	for dir, want := range map[string]bool{"oracle": false, "oracle/internal/chain": false, "oracle/internal/new": true,
		"oracle/new": true, "internal/oracle/new": true, "rollout": false} {
		if got := unlisted(dir); got != want {
			t.Errorf("%s has no row and needs one: %v, want %v", dir, got, want)
		}
	}
}

// TestForbiddenMath shows that the ban on functions that differ can say no.
func TestForbiddenMath(t *testing.T) {
	for src, want := range map[string]string{
		"package p; import \"math\"; var x = math.Exp(1)":                "math.Exp",
		"package p; import \"math\"; func f() { g(math.Sqrt(math.Pi)) }": "",
		"package p; import \"math\"; var x = math.Sqrt(math.Sin(1))":     "math.Sin",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := forbiddenMath("p.go", f); got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
	if f, _ := parser.ParseFile(token.NewFileSet(), "p.go", "package p; var x = math.Exp(1)",
		0); forbiddenMath("p_test.go", f) != "" {
		t.Error("tests may use what they like")
	}
}
