package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// A pkg is what the go command says of a package.
type pkg struct {
	ImportPath, Dir                          string
	GoFiles, TestGoFiles, XTestGoFiles       []string
	Imports, TestImports, XTestImports, Deps []string
	Module                                   *struct{ Path string }
}

func (p *pkg) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

func (p *pkg) name() string { return "." + strings.TrimPrefix(p.ImportPath, p.Module.Path) }

// packages returns the module's packages that match patterns, by import path.
func packages(patterns ...string) (map[string]*pkg, error) {
	command := exec.Command("go", append([]string{"list", "-json"}, patterns...)...)
	out, err := command.Output()
	if err != nil {
		return nil, errors.New("go list: " + err.Error())
	}
	all := map[string]*pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(pkg)
		if err := d.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
}

// shipped keeps the packages that users meet: those that they can import, the command, and what these need. Judges,
// which only tests import, and programs that show something are left out.
func shipped(all map[string]*pkg) []*pkg {
	keep := map[string]bool{}
	for path, p := range all {
		if slices.ContainsFunc([]string{"/internal/", "/examples/", "/interop/"}, func(room string) bool {
			return strings.Contains(path, room)
		}) {
			continue
		}
		keep[path] = true
		for _, d := range p.Deps {
			keep[d] = true
		}
	}
	var list []*pkg
	for path, p := range all {
		if keep[path] {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pkg) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return list
}

// witnesses returns the packages with tests that a change of p reaches, the nearest first, and p itself before all.
func witnesses(all map[string]*pkg, p *pkg) []*pkg {
	distance := map[string]int{p.ImportPath: 0}
	for near := []string{p.ImportPath}; len(near) > 0; {
		var next []string
		for path, q := range all {
			if _, seen := distance[path]; seen {
				continue
			}
			imports := slices.Concat(q.Imports, q.TestImports, q.XTestImports)
			if slices.ContainsFunc(near, func(n string) bool { return slices.Contains(imports, n) }) {
				next = append(next, path)
			}
		}
		for _, path := range next {
			distance[path] = distance[near[0]] + 1
		}
		near = next
	}
	var list []*pkg
	for path := range distance {
		if all[path].hasTests() {
			list = append(list, all[path])
		}
	}
	slices.SortFunc(list, func(a, b *pkg) int {
		if d := distance[a.ImportPath] - distance[b.ImportPath]; d != 0 {
			return d
		}
		return strings.Compare(a.ImportPath, b.ImportPath)
	})
	return list
}
