// Package joined reads strings that source code goes on with in the next line, for tests of what a program says.
package joined

import (
	"go/ast"
	"go/token"
	"strconv"
)

// Strings makes one literal of those that a file adds up: the first has the text of all, and the others are empty.
func Strings(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		sum, ok := n.(*ast.BinaryExpr)
		if !ok || sum.Op != token.ADD {
			return true
		}
		var first *ast.BasicLit
		for _, x := range terms(sum) {
			lit, ok := x.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				first = nil
				continue
			}
			if first == nil {
				first = lit
				continue
			}
			first.Value, lit.Value = strconv.Quote(text(first)+text(lit)), `""`
		}
		return true
	})
}

// terms are what a sum adds up, from left to right.
func terms(x ast.Expr) []ast.Expr {
	if sum, ok := x.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return append(terms(sum.X), terms(sum.Y)...)
	}
	return []ast.Expr{x}
}

func text(l *ast.BasicLit) string {
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		panic(err) // the parser takes no such literal
	}
	return s
}
