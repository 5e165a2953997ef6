package refrun_test

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// public returns the folders of the packages that others may import.
func public(t *testing.T) []string {
	var dirs []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case !d.IsDir() || path == ".":
			return nil
		case name == "internal" || name == "cmd" || name == "examples" || name == "testdata" ||
			strings.HasPrefix(name, "_") || strings.HasPrefix(name, "."):
			return filepath.SkipDir
		}
		if p, err := build.ImportDir(path, 0); err == nil && p.Name != "main" {
			dirs = append(dirs, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil || len(dirs) < 15 {
		t.Fatalf("%q, %v: the walk is broken", dirs, err)
	}
	return dirs
}

// source imports the project's packages from their source, and of all others none:
// what is made of their types is invalid, and no type of ours.
type source struct {
	files *token.FileSet
	known map[string]*types.Package
}

func (s *source) Import(path string) (*types.Package, error) {
	if p := s.known[path]; p != nil {
		return p, nil
	}
	dir, ours := strings.CutPrefix(path, module)
	if !ours {
		p := types.NewPackage(path, filepath.Base(path))
		p.MarkComplete()
		s.known[path] = p
		return p, nil
	}
	b, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, name := range b.GoFiles {
		f, err := parser.ParseFile(s.files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	p, _ := s.check(path, parsed...)
	s.known[path] = p
	return p, nil
}

func (s *source) check(path string, files ...*ast.File) (*types.Package, error) {
	c := types.Config{Importer: s, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	return c.Check(path, s.files, files, nil)
}

// doors returns the types that a package gives a name that others can say: type T = internal.T.
func doors(p *types.Package) map[types.Type]bool {
	named := map[types.Type]bool{}
	for _, name := range p.Scope().Names() {
		if t, is := p.Scope().Lookup(name).(*types.TypeName); is && t.IsAlias() && t.Exported() {
			named[types.Unalias(t.Type())] = true
		}
	}
	return named
}

// leaks returns what a package exports that cannot be said outside the module: a
// function, method, field or value of a type of an internal package that has no door.
func leaks(p *types.Package, doors map[types.Type]bool) []string {
	internalIn := func(t types.Type) string { return internalType(t, maps.Clone(doors)) }
	var found []string
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		t := o.Type()
		if inner := internalIn(t); inner != "" {
			found = append(found, name+": "+inner)
			continue
		}
		if _, is := o.(*types.TypeName); !is {
			continue
		}
		if inner := internalIn(t.Underlying()); inner != "" {
			found = append(found, name+": "+inner)
		}
		for _, of := range []types.Type{t, types.NewPointer(t)} {
			methods := types.NewMethodSet(of)
			for i := range methods.Len() {
				m := methods.At(i).Obj()
				if inner := internalIn(m.Type()); m.Exported() && inner != "" {
					found = append(found, name+"."+m.Name()+": "+inner)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// internalType returns the first internal type that a type is made of, as far as others
// can see, or "".
func internalType(t types.Type, seen map[types.Type]bool) string {
	t = types.Unalias(t)
	if seen[t] {
		return ""
	}
	seen[t] = true
	first := func(of ...types.Type) string {
		for _, o := range of {
			if s := internalType(o, seen); s != "" {
				return s
			}
		}
		return ""
	}
	switch t := t.(type) {
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.Contains(p.Path()+"/", "/internal/") {
			return t.String()
		}
		for a := range t.TypeArgs().Types() {
			if s := first(a); s != "" {
				return s
			}
		}
	case *types.Signature:
		return first(t.Params(), t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			if s := first(v.Type()); s != "" {
				return s
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if s := first(f.Type()); f.Exported() && s != "" {
				return s
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if s := first(m.Type()); m.Exported() && s != "" {
				return s
			}
		}
	case *types.Map:
		return first(t.Key(), t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		return first(t.Elem())
	}
	return ""
}

// alone lists what packages plan and internal/oracle/judge read of graph for the sake of an internal type. Its docs
// say that it is for nobody else.
var alone = []string{"graph.Interpolate.Axes", "graph.Kernel", "graph.Kernel.Fast", "graph.Kernel.Prepare",
	"graph.MaxPool.Windows", "graph.Program.FastKernel", "graph.Program.FastLayer", "graph.Program.FastPatches"}

// TestInternalTypes holds that everything exported can be used from outside the module, but for what
// is listed as for the module alone.
func TestInternalTypes(t *testing.T) {
	s := &source{token.NewFileSet(), map[string]*types.Package{}}
	names, seen := 0, []string(nil)
	all, named := map[string]*types.Package{}, map[types.Type]bool{}
	for _, dir := range public(t) {
		p, err := s.Import(module + dir)
		if err != nil {
			t.Fatal(err)
		}
		names += p.Scope().Len()
		all[dir] = p
		maps.Copy(named, doors(p))
	}
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		for _, l := range leaks(all[dir], named) {
			if name, _, _ := strings.Cut(dir+"."+l, ":"); slices.Contains(alone, name) {
				seen = append(seen, name)
				continue
			}
			t.Errorf("%s.%s: want a type that others can name", dir, l)
		}
	}
	if slices.Sort(seen); !slices.Equal(seen, alone) {
		t.Errorf("for the module alone are %q, and not all of %q", seen, alone)
	}
	if names < 200 {
		t.Fatalf("%d names: the packages were not read", names)
	}
}

// TestLeaks shows that the rule above can say no.
func TestLeaks(t *testing.T) {
	s := &source{token.NewFileSet(), map[string]*types.Package{}}
	for src, want := range map[string]string{
		"func F(*disk.File)":                            "F",
		"func F() (n int, err []disk.File)":             "F",
		"func F(func(map[string]disk.File))":            "F",
		"type T struct{ F [2]disk.File }":               "T",
		"type T struct{ f disk.File }":                  "",
		"type T struct{}; func (*T) M() chan disk.File": "T.M",
		"type T struct{}; func (*T) m() chan disk.File": "",
		"type t struct{}; func (*t) M(disk.File)":       "",
		"type T = disk.File":                            "",
		"type T = disk.File; func F(*disk.File)":        "",
		"type T = *disk.File; func F(disk.File)":        "F",
		"type T = disk.File; func F(disk.System)":       "F",
		"type t = disk.File; func F(disk.File)":         "F",
		"type T interface{ M(disk.File) }":              "T.M",
		"type G[X any] struct{}; var V G[disk.File]":    "V",
		"var V disk.File":                               "V",
		"var v disk.File":                               "",
		"type T struct{ *T }":                           "",
	} {
		const imports = "package p; import \"github.com/refrun/refrun/internal/ground/disk\"; "
		f, err := parser.ParseFile(s.files, "p.go", imports+src, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := s.check(module+"p", f)
		got := strings.Join(leaks(p, doors(p)), "; ")
		if got, _, _ := strings.Cut(got, ":"); got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
}

// TestExamples holds that every public package shows how it is used: an Example with
// its output, which go test compares.
func TestExamples(t *testing.T) {
	for _, dir := range public(t) {
		tests, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		shown := false
		for _, path := range tests {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			shown = shown || strings.Contains(string(src), "\nfunc Example") && strings.Contains(string(src), "// Output:")
		}
		if !shown {
			t.Errorf("%s: no Example with an Output", dir)
		}
	}
}

// TestManuals holds that the doc of every public package shows its use.
func TestManuals(t *testing.T) {
	for _, dir := range public(t) {
		files := token.NewFileSet()
		b, err := build.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		use := regexp.MustCompile(`(?m)^\t.*\b` + b.Name + `\.[A-Z]`)
		docs, shown := 0, false
		for _, name := range b.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil && strings.HasPrefix(f.Doc.Text(), "Package "+b.Name+" ") {
				docs, shown = docs+1, use.MatchString(f.Doc.Text())
			}
		}
		if docs != 1 || !shown {
			t.Errorf("%s: %d docs of the package: want one, with a few lines of code", dir, docs)
		}
	}
}

// TestLinks holds that docs of public packages link to what there is: go doc keeps the brackets
// of a link that leads nowhere, and of one in a list that it takes for lines of code.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\[\*?[A-Z][a-z]\w*(\.\w+)*\]`)
	for _, dir := range public(t) {
		p := documented(t, dir)
		texts := []string{p.Doc}
		add := func(funcs []*doc.Func, values ...*doc.Value) {
			for _, f := range funcs {
				texts = append(texts, f.Doc)
			}
			for _, v := range values {
				texts = append(texts, v.Doc)
			}
		}
		add(p.Funcs, append(p.Consts, p.Vars...)...)
		for _, of := range p.Types {
			texts = append(texts, of.Doc)
			add(append(of.Funcs, of.Methods...), append(of.Consts, of.Vars...)...)
		}
		for _, text := range texts {
			for _, l := range link.FindAllString(string(p.Text(text)), -1) {
				t.Errorf("%s: %s leads nowhere", dir, l)
			}
		}
	}
}

// TestDoor holds how much a user has to read: the public packages, and what go doc -short lists of them, functions,
// types and groups of constants or variables. A name more is a decision: raise the number with the reason in the
// commit.
func TestDoor(t *testing.T) {
	const packages, names = 21, 421
	dirs, listed := public(t), 0
	for _, dir := range dirs {
		listed += len(lists(documented(t, dir)))
	}
	if len(dirs) != packages || listed != names {
		t.Errorf("%d public packages with %d names: want %d with %d", len(dirs), listed, packages, names)
	}
}

// documented returns the doc of a package's exported names.
func documented(t *testing.T, dir string) *doc.Package {
	b, err := build.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	files, parsed := token.NewFileSet(), []*ast.File(nil)
	for _, name := range b.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	p, err := doc.NewFromFiles(files, parsed, module+dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lists returns what go doc -short lists, a group by its first name that is exported.
func lists(p *doc.Package) (names []string) {
	add := func(funcs []*doc.Func, groups []*doc.Value) {
		for _, f := range funcs {
			names = append(names, f.Name)
		}
		for _, g := range groups {
			if i := slices.IndexFunc(g.Names, token.IsExported); i >= 0 {
				names = append(names, g.Names[i])
			}
		}
	}
	add(p.Funcs, slices.Concat(p.Consts, p.Vars))
	for _, of := range p.Types {
		names = append(names, of.Name)
		add(of.Funcs, slices.Concat(of.Consts, of.Vars))
	}
	return names
}
