package oracle_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rooms are those that judge any graph, and how many numbers decide in each, by class. Fewer are better: lower a count
// with the number that goes. A new one needs the sentence why no derivation gives it.
var rooms = map[string]map[string]int{
	"../internal/oracle/judge":   {"derived": 22, "set": 49, "work": 41},
	"../internal/oracle/forward": {"set": 1, "work": 4},
	"../internal/oracle/kernel":  {"set": 4, "work": 1},
	"../internal/oracle/factor":  {"derived": 12, "set": 2, "work": 3},
	"internal/chain":             {"set": 3, "work": 6},
}

// arithmetic are the files of the operations themselves: the numbers in them are of an operation's definition, or of
// its bound, beside its derivation, or of a published generator.
var arithmetic = regexp.MustCompile(`^(bound.*|expand.*|chance|function|mix|others|resize|steps|thin|scratch)\.go$`)

// TestNumbersThatDecide: each room has its numbers in limits.go, each with its class, and no others: elsewhere there is
// no constant of a package, and, in what is compared, multiplied or divided, no number but 0, 1, 2 and 1/2. Numbers of
// axes are what is compared with a len.
func TestNumbersThatDecide(t *testing.T) {
	t.Parallel()
	for room, want := range rooms {
		files, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(room, err)
		}
		got := map[string]int{}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			switch base := filepath.Base(name); {
			case base == "limits.go":
				for _, wrong := range classes(file, got) {
					t.Errorf("%s: %s: want a comment that begins with derived, simulated, set or work", name, wrong)
				}
			case !arithmetic.MatchString(base):
				for _, n := range numbers(file) {
					t.Errorf("%v: %s: want a name in limits.go", set.Position(n.Pos()), n.Value)
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: numbers by class: %v, want %v", room, got, want)
		}
	}
}

// classes counts the names of a file by class, and returns those that have none.
func classes(file *ast.File, count map[string]int) (wrong []string) {
	for _, d := range file.Decls {
		decl, is := d.(*ast.GenDecl)
		if !is || decl.Tok == token.IMPORT {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			doc := spec.Doc
			if doc == nil {
				doc = decl.Doc
			}
			class, _, _ := strings.Cut(doc.Text(), ":")
			if !slices.Contains([]string{"derived", "simulated", "set", "work"}, class) {
				wrong = append(wrong, fmt.Sprint(spec.Names))
			}
			count[class] += len(spec.Names)
		}
	}
	return wrong
}

// numbers are those that a file compares with, multiplies or divides by, or gives a name of the package.
func numbers(file *ast.File) (all []*ast.BasicLit) {
	add := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.ParenExpr:
				e = x.X
				continue
			case *ast.UnaryExpr:
				e = x.X
				continue
			case *ast.BasicLit:
				if (x.Kind == token.INT || x.Kind == token.FLOAT) &&
					!slices.Contains([]string{"0", "1", "2", ".5", "0.0", "1.0"}, x.Value) {
					all = append(all, x)
				}
			}
			return
		}
	}
	for _, d := range file.Decls {
		if decl, is := d.(*ast.GenDecl); is && decl.Tok == token.CONST {
			for _, s := range decl.Specs {
				for _, v := range s.(*ast.ValueSpec).Values {
					add(v)
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BasicLit:
			if x.Kind == token.FLOAT {
				add(x)
			}
		case *ast.BinaryExpr:
			switch x.Op {
			case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
				if axes(x.X) || axes(x.Y) {
					return true
				}
			case token.MUL, token.QUO:
			default:
				return true
			}
			add(x.X)
			add(x.Y)
		case *ast.CallExpr:
			if f, is := x.Fun.(*ast.Ident); is && (f.Name == "min" || f.Name == "max") {
				for _, a := range x.Args {
					add(a)
				}
			}
		}
		return true
	})
	return slices.CompactFunc(all, func(a, b *ast.BasicLit) bool { return a == b })
}

// axes reports whether an expression is how many there are of something.
func axes(e ast.Expr) bool {
	call, is := e.(*ast.CallExpr)
	if !is {
		return false
	}
	f, is := call.Fun.(*ast.Ident)
	return is && f.Name == "len"
}
