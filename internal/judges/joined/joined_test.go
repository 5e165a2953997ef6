package joined

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// TestStrings: strings that stand side by side in a sum are one, and what stands between parts them.
func TestStrings(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "p.go",
		"package p; var x = a + \"b \" + `c` + \"\\n\" + d(\"e\"+\"f\") + \"g\"; var y = \"h\"", 0)
	if err != nil {
		t.Fatal(err)
	}
	Strings(f)
	Strings(f) // once more changes nothing
	var got []string
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && text(l) != "" {
			got = append(got, text(l))
		}
		return true
	})
	if want := []string{"b c\n", "ef", "g", "h"}; !slices.Equal(got, want) {
		t.Fatalf("%q: want %q", got, want)
	}
}
