package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// A fault is one change of a file: the bytes from start to end become with.
type fault struct {
	file       string
	line       int
	start, end int
	with       string
	what       string
}

// apply returns the file with the fault in it.
func (f fault) apply(source []byte) []byte {
	return slices.Concat(source[:f.start], []byte(f.with), source[f.end:])
}

// swaps has each operator's fault.
var swaps = map[token.Token]string{
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&",
	token.SHL: ">>", token.SHR: "<<", token.AND: "|", token.OR: "&",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.MUL_ASSIGN: "/=", token.QUO_ASSIGN: "*=",
	token.INC: "--", token.DEC: "++",
}

// faultsOf returns every fault that a file can have, by line. Not every one of them compiles.
func faultsOf(file string, source []byte) (map[int][]fault, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	w := walker{file: file, source: source, set: set, faults: map[int][]fault{}}
	for _, d := range tree.Decls {
		ast.Walk(w, d)
	}
	return w.faults, nil
}

// A walker visits the nodes of a file. results returns from the function around the node.
type walker struct {
	file    string
	source  []byte
	set     *token.FileSet
	faults  map[int][]fault
	results string
}

func (w walker) offset(p token.Pos) int { return w.set.PositionFor(p, false).Offset }

func (w walker) text(n ast.Node) string { return string(w.source[w.offset(n.Pos()):w.offset(n.End())]) }

func (w walker) add(start, end token.Pos, with, what string) {
	line := w.set.PositionFor(start, false).Line
	w.faults[line] = append(w.faults[line], fault{w.file, line, w.offset(start), w.offset(end), with, what})
}

// swap is the fault of an operator that stands at p.
func (w walker) swap(p token.Pos, op token.Token) {
	if with, ok := swaps[op]; ok {
		w.add(p, p+token.Pos(len(op.String())), with, op.String()+" is "+with)
	}
}

func (w walker) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return nil
	case *ast.FuncDecl:
		w.results = w.leave(n.Type)
	case *ast.FuncLit:
		w.results = w.leave(n.Type)
	case *ast.BinaryExpr:
		w.swap(n.OpPos, n.Op)
	case *ast.AssignStmt:
		w.swap(n.TokPos, n.Tok)
	case *ast.IncDecStmt:
		w.swap(n.TokPos, n.Tok)
	case *ast.BasicLit:
		if n.Kind == token.INT || n.Kind == token.FLOAT {
			w.add(n.Pos(), n.End(), "("+n.Value+" + 1)", n.Value+" is one more")
			w.add(n.Pos(), n.End(), "("+n.Value+" - 1)", n.Value+" is one less")
		}
	case *ast.SliceExpr:
		for _, bound := range []ast.Expr{n.Low, n.High} {
			if bound != nil {
				text := w.text(bound)
				w.add(bound.Pos(), bound.End(), text+" + 1", "bound "+text+" is one more")
				w.add(bound.Pos(), bound.End(), text+" - 1", "bound "+text+" is one less")
			}
		}
	case *ast.IfStmt:
		w.negate(n.Cond)
	case *ast.ForStmt:
		w.negate(n.Cond)
	case *ast.BlockStmt:
		w.statements(n.List)
	case *ast.CaseClause:
		w.statements(n.Body)
	}
	return w
}

func (w walker) negate(condition ast.Expr) {
	if condition != nil {
		w.add(condition.Pos(), condition.End(), "!("+w.text(condition)+")", "condition is negated")
	}
}

// statements are dropped, and a return is put before the first of a block.
func (w walker) statements(list []ast.Stmt) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.ReturnStmt:
			continue
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				w.add(s.Pos(), s.End(), "", "statement is dropped")
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt, *ast.GoStmt:
			w.add(s.Pos(), s.End(), "", "statement is dropped")
		}
		if i == 0 {
			w.add(s.Pos(), s.Pos(), w.results+"; ", "returns before this")
		}
	}
}

// leave is a return of zeros from a function.
func (w walker) leave(t *ast.FuncType) string {
	if t.Results == nil {
		return "return"
	}
	var zeros []string
	for _, field := range t.Results.List {
		for range max(1, len(field.Names)) {
			zeros = append(zeros, "*new("+w.text(field.Type)+")")
		}
	}
	return "return " + strings.Join(zeros, ", ")
}
