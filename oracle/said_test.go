package oracle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/joined"
	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/fault"
	"github.com/refrun/refrun/oracle/report"
)

// saying is a sentence of a gate, or a part of one, as the source has it; in brackets a
// diagnosis. It is printed in these scenes, of which it is true, and in no other one.
type saying struct {
	says   string
	scenes []string
}

// printedAs makes a format a pattern of what is printed with it.
func printedAs(format string) *regexp.Regexp {
	s := regexp.MustCompile(`%[-+.0-9]*[a-z]`).ReplaceAllString(regexp.QuoteMeta(strings.ReplaceAll(format, "%.", "%")),
		".*?")
	return regexp.MustCompile(strings.ReplaceAll(s, "%%", "%"))
}

// TestSaid: what gates find is said of the devices that have it and of no other, the
// right ones least of all.
func TestSaid(t *testing.T) {
	t.Parallel()
	printed := map[string]string{}
	scenes := slices.Concat(structureScenes(), rolloutScenes(), unknownScenes(), otherScenes())
	reports := make([]*report.Report, len(scenes))
	t.Run("scenes", func(t *testing.T) {
		for i, s := range scenes {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				reports[i] = s.report(t)
			})
		}
	})
	for i, s := range scenes {
		r := reports[i]
		if r == nil {
			t.Fatalf("%s: no report", s.name)
		}
		lines := r.Notes
		for _, f := range r.Findings {
			if f.Gate != "test" {
				lines = append(lines, f.Text, "["+f.Diagnosis+"]")
			}
		}
		if _, twice := printed[s.name]; twice {
			t.Errorf("two scenes are called %s", s.name)
		}
		printed[s.name] = strings.Join(lines, "\n")
	}
	for _, k := range said {
		p := printedAs(k.says)
		for name, text := range printed {
			if got, want := p.MatchString(text), slices.Contains(k.scenes, name); got != want {
				t.Errorf("%q in %s: printed %v, want %v:\n%s", k.says, name, got, want, text)
			}
		}
		if len(k.scenes) == 0 {
			t.Errorf("%q is printed nowhere", k.says)
		}
	}
	for _, s := range sceneless {
		p := printedAs(s)
		for name, text := range printed {
			if p.MatchString(text) {
				t.Errorf("%q in %s, of which it is false:\n%s", s, name, text)
			}
		}
	}
}

// sources are the files whose sentences are read.
var sources = []string{"check.go", "internal/facts/facts.go", "internal/measure/slices.go", "internal/emulate/[op]*.go",
	"internal/structure/*.go", "internal/chain/*.go", "internal/noisestat/*.go", "internal/tape/*.go",
	"internal/replay/*.go", "internal/probe/gate.go"}

// TestGates: the sentences of each gate are read, and what it finds without a name has a row
// of the table of faults.
func TestGates(t *testing.T) {
	files, err := filepath.Glob("internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	gates := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.ToSlash(file), "internal/rig/") {
			continue
		}
		if strings.Contains(string(b), "\nfunc Check(") {
			gates++
			if !slices.ContainsFunc(sources,
				func(s string) bool { ok, _ := filepath.Match(s, filepath.ToSlash(file)); return ok }) {
				t.Errorf("%s is a gate, and not among the sources", file)
			}
		}
		for _, m := range regexp.MustCompile(`Gate: +"(\w+)"`).FindAllStringSubmatch(string(b), -1) {
			if !slices.ContainsFunc(table.Rows(),
				func(r table.Row) bool { return r.ID == "unnamed."+m[1] }) {
				t.Errorf("%s: the table has no row unnamed.%s", file, m[1])
			}
		}
	}
	if gates < 5 {
		t.Errorf("%d gates: want those that examine runs", gates)
	}
}

// TestGatesReported: what a gate finds has a failed case in the JUnit file, of the gate or of
// its layer, and the comment on report.Finding.Gate has the gate's word.
func TestGatesReported(t *testing.T) {
	check, err := os.ReadFile("check.go")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`gates := \[\]facts.Check\{([^}]*)\}`).FindStringSubmatch(string(check))
	if list == nil {
		t.Fatal("check.go has no list of gates")
	}
	rooms := []string{"chain"} // whose gates have other names
	for _, m := range regexp.MustCompile(`(\w+)\.Check\b`).FindAllStringSubmatch(list[1], -1) {
		rooms = append(rooms, m[1])
	}
	words := map[string]bool{}
	for _, room := range rooms {
		of := gateWords(t, room)
		if len(of) == 0 {
			t.Errorf("internal/%s says nowhere which gate its findings are of", room)
		}
		for _, word := range of {
			words[word] = true
		}
	}
	if len(words) < 7 {
		t.Errorf("gates %v: want those of docs/ORACLE.md", words)
	}
	source, err := os.ReadFile("report/report.go")
	if err != nil {
		t.Fatal(err)
	}
	comment := regexp.MustCompile(`// (.*)\n\tGate +string `).FindStringSubmatch(string(source))
	if comment == nil {
		t.Fatal("report.Finding.Gate has no comment")
	}
	for word := range words {
		f := report.Finding{Verdict: report.FailLogic, Gate: word, Step: 1, Text: "it is wrong"}
		r, kind, name := &report.Report{Verdict: report.FailLogic}, "gate", word
		if f.Layer = "conv"; f.OfLayers() {
			r.Layers = []report.LayerRow{{Step: 1, Name: f.Layer}}
			kind, name = "layer", "conv, step 1"
		}
		r.Findings = []report.Finding{f}
		var b strings.Builder
		if err := render.WriteJUnit(&b, r); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`<testcase classname="` + kind + `" name="` + name + `">\s*<failure`).MatchString(b.String()) {
			t.Errorf("a finding of gate %s fails no case of the JUnit file: want it in gateNames of render/junit.go", word)
		}
		if !slices.Contains(strings.Split(comment[1], ", "), word) {
			t.Errorf("the comment on report.Finding.Gate lacks %s", word)
		}
	}
}

// gateWords returns what a room calls the gate of its findings: the strings that its source
// gives to what is called gate.
func gateWords(t *testing.T, room string) (words []string) {
	t.Helper()
	files, err := filepath.Glob("internal/" + room + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	see := func(to, value ast.Expr) {
		if s, ok := to.(*ast.SelectorExpr); ok {
			to = s.Sel
		}
		name, named := to.(*ast.Ident)
		lit, ok := value.(*ast.BasicLit)
		if !named || !ok || !strings.EqualFold(name.Name, "gate") {
			return
		}
		if word, err := strconv.Unquote(lit.Value); err == nil && word != "" {
			words = append(words, word)
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				see(n.Key, n.Value)
			case *ast.AssignStmt:
				for i := range min(len(n.Lhs), len(n.Rhs)) {
					see(n.Lhs[i], n.Rhs[i])
				}
			}
			return true
		})
	}
	return words
}

// TestEverySentence: each sentence that the gates' source has is in the table of sayings,
// or among those that another test holds.
func TestEverySentence(t *testing.T) {
	var files []string
	for _, pattern := range sources {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	covered := map[string]bool{}
	for _, k := range said {
		s, diagnosis := strings.CutPrefix(k.says, "[")
		if diagnosis {
			s = strings.TrimSuffix(s, "]")
		}
		covered[s] = true
	}
	tests := ""
	here, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	rooms, err := filepath.Glob("internal/*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(here, rooms) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(b)
	}
	for names, list := range heldElsewhere {
		for name := range strings.FieldsSeq(names) {
			if !strings.Contains(tests, "func "+name+"(t *testing.T)") {
				t.Errorf("there is no %s", name)
			}
		}
		for _, s := range list {
			if covered[s] {
				t.Errorf("%q is in the table, too", s)
			}
			covered[s] = true
		}
	}
	for _, s := range sceneless {
		if covered[s] {
			t.Errorf("%q has a scene, and is listed as if it had none", s)
		}
		covered[s] = true
	}
	seen := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, s := range sentencesOf(t, file) {
			if seen[s] = true; !covered[s] {
				t.Errorf("%s: %q: want a case in which it is printed and one in which it is not", file, s)
			}
		}
	}
	made := map[string]bool{}
	for _, h := range fault.Library() {
		base, _, _ := strings.Cut(h.ID, ":")
		made[h.ID], made[base] = true, true
	}
	for _, r := range table.Rows() {
		room, _, _ := strings.Cut(r.ID, ".")
		if room == "kernel" || room == "quantize" || room == "factor" { // whose own tests hold them
			continue
		}
		if seen[r.Name] = true; r.Name != "" && !made[r.ID] && !covered[r.Name] {
			t.Errorf("%s: %q: want a case in which a gate names it and one in which it does not", r.ID, r.Name)
		}
	}
	for s := range covered {
		if !seen[s] {
			t.Errorf("%q is in no gate's source", s)
		}
	}
}

// sentencesOf returns the texts of a file that have a space in them: but for errors and
// for what the budget left out, which conclude nothing about the device.
func sentencesOf(t *testing.T, file string) []string {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	joined.Strings(tree)
	var all []string
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.StructType:
			return false
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.SelectorExpr:
				return !slices.Contains([]string{"Errorf", "New", "Late", "Missed"}, f.Sel.Name)
			case *ast.Ident:
				return f.Name != "panic"
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return true
			}
			if s, err := strconv.Unquote(n.Value); err == nil && strings.Contains(strings.TrimSpace(s), " ") {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}
