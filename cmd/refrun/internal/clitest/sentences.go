package clitest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/internal/judges/joined"
)

// everySentence fails if the command's source holds a text that is neither among the
// labels nor printed in one half of a pair and missing in the other.
func everySentence(t *testing.T, found []string, all []Pair, labels []string) {
	t.Helper()
	for _, text := range found {
		covered := slices.ContainsFunc(all, func(k Pair) bool { return k.covers(text) })
		switch label := slices.Contains(labels, text); {
		case !covered && !label:
			t.Errorf("%q: states something, and no pair of situations has it true and false: "+
				"want one, or a place among the labels", text)
		case covered && label:
			t.Errorf("%q: has a pair: want it removed from the labels", text)
		}
	}
	for _, l := range labels {
		if !slices.Contains(found, l) {
			t.Errorf("%q: a label that the source does not hold: want it removed", l)
		}
	}
}

var (
	formatVerb = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z%]`)
	aWord      = regexp.MustCompile(`[A-Za-z]{2,}`)
)

// flat writes a text on one line, since many are folded.
func flat(s string) string { return " " + strings.Join(strings.Fields(s), " ") + " " }

// covers reports whether the pair is about what a format prints: that is in one half, it
// is not in the other, and it is part of what the pair says, or holds it.
func (k Pair) covers(format string) bool {
	p, says := pattern(format), strings.TrimSpace(flat(k.Says))
	at := strings.TrimSpace(p.FindString(flat(k.Is)))
	return at != "" && (strings.Contains(says, at) || strings.Contains(at, says)) && !p.MatchString(flat(k.IsNot))
}

// pattern matches what a format prints, on one line, from its first fixed word to its last.
func pattern(format string) *regexp.Regexp {
	format = strings.Join(strings.Fields(format), " ")
	parts := formatVerb.Split(format, -1)
	for len(parts) > 1 && !aWord.MatchString(parts[0]) {
		parts = parts[1:]
	}
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(strings.Join(parts, `.*?`))
}

// texts returns the strings of the source that may be printed: those of several words,
// or with a verb or a sign between. Errors, help and flags state no result.
func texts(t *testing.T, folders []string) (all []string) {
	t.Helper()
	add := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false
		case *ast.CompositeLit:
			kind, ok := n.Type.(*ast.SelectorExpr)
			return !ok || kind.Sel.Name != "Verb"
		case *ast.CallExpr:
			return !refuses(n)
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			s, err := strconv.Unquote(n.Value)
			if err != nil {
				t.Fatal(err)
			}
			if aWord.MatchString(formatVerb.ReplaceAllString(s, " ")) && strings.ContainsAny(s, " \n:%") &&
				!slices.Contains(all, s) {
				all = append(all, s)
			}
		}
		return true
	}
	var names []string
	for _, folder := range folders {
		of, err := filepath.Glob(filepath.Join(here, folder, "*.go"))
		if err != nil || len(of) == 0 {
			t.Fatalf("%s: no source: %v", folder, err)
		}
		names = append(names, of...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "completion.go" { // which writes programs
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		joined.Strings(f)
		ast.Inspect(f, add)
	}
	return all
}

// refuses reports whether a call makes an error or declares a flag.
func refuses(call *ast.CallExpr) bool {
	name, of := "", ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
		switch x := f.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
	}
	switch name {
	case "Errorf", "New", "panic", "complain", "MustCompile":
		return true
	case "Int", "String", "Bool", "Float64":
		return of == "Flags" || of == "f"
	}
	return strings.HasSuffix(name, "Var") && (of == "Flags" || of == "f")
}

// Pair is a sentence that states a conclusion, with what is printed where it is true and
// where it is false, the two as near to each other as can be.
type Pair struct{ Says, Is, IsNot string }

// Sentences holds what the source in these folders may print to the pairs, but for labels.
func Sentences(t *testing.T, all []Pair, labels []string, folders ...string) {
	t.Helper()
	for _, k := range all {
		says := Unfolded(k.Says)
		if !strings.Contains(Unfolded(k.Is), says) {
			t.Errorf("does not say %q where it is true:\n%s", k.Says, k.Is)
		}
		if strings.Contains(Unfolded(k.IsNot), says) {
			t.Errorf("says %q where it is false:\n%s", k.Says, k.IsNot)
		}
	}
	everySentence(t, texts(t, folders), all, labels)
}

// Printed returns what f prints.
func Printed(f func(c *cli.Command)) string {
	var out bytes.Buffer
	c := &cli.Command{Stdout: &out}
	f(c)
	c.Ended()
	return out.String()
}

// Lines is lines of a program of these verbs.
func Lines(t *testing.T, verbs []cli.Verb, args ...string) string {
	t.Helper()
	r := Run(t, verbs, args...)
	if r.Stderr != "" {
		t.Errorf("%q: exit code %d, %s", args, r.Code, r.Stderr)
	}
	return r.Stdout
}
