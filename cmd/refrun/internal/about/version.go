package about

import (
	"runtime"
	"runtime/debug"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/graph"
)

var Version = cli.Verb{
	Name:    "version",
	Summary: "which build this is: version, commit, compiler, modules",
	Help: `Prints the version of the command and, where the build knows it, the commit that
it was built from. With --json also the numerical contract, the compiler, its
settings, and every module with its version and hash, as in go.sum.

example: refrun version --json`,
	Run: func(c *cli.Command) error {
		if err := c.Parse(0); err != nil {
			return err
		}
		info, ok := debug.ReadBuildInfo()
		if !ok {
			info = new(debug.BuildInfo)
		}
		r := newVersionReport(info)
		if c.Json {
			return c.PrintJSON(r)
		}
		c.Printf("%s\n", r)
		return nil
	},
}

type versionReport struct {
	Version  string            `json:"version"`
	Contract string            `json:"contract"`
	Go       string            `json:"go"`
	OS       string            `json:"os"`
	Arch     string            `json:"arch"`
	Level    string            `json:"level"` // GOAMD64, GOARM64
	VCS      *vcsReport        `json:"vcs"`   // null if the build does not know
	Settings map[string]string `json:"settings"`
	Main     moduleReport      `json:"main"`
	Modules  []moduleReport    `json:"modules"`
}

type vcsReport struct {
	Revision string `json:"revision"`
	Time     string `json:"time"`
	Modified bool   `json:"modified"`
}

type moduleReport struct {
	Path    string        `json:"path"`
	Version string        `json:"version"`
	Sum     string        `json:"sum"`
	Replace *moduleReport `json:"replace,omitempty"` // what was built instead
}

func newVersionReport(info *debug.BuildInfo) versionReport {
	r := versionReport{
		Version: cli.Version, Contract: graph.Contract, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Settings: map[string]string{}, Main: newModuleReport(&info.Main), Modules: []moduleReport{},
	}
	for _, s := range info.Settings {
		r.Settings[s.Key] = s.Value
		switch s.Key {
		case "GOAMD64", "GOARM64":
			r.Level = s.Value
		}
	}
	if rev := r.Settings["vcs.revision"]; rev != "" {
		r.VCS = &vcsReport{rev, r.Settings["vcs.time"], r.Settings["vcs.modified"] == "true"}
	}
	for _, m := range info.Deps {
		r.Modules = append(r.Modules, newModuleReport(m))
	}
	return r
}

func newModuleReport(m *debug.Module) moduleReport {
	r := moduleReport{Path: m.Path, Version: m.Version, Sum: m.Sum}
	if m.Replace != nil {
		by := newModuleReport(m.Replace)
		r.Replace = &by
	}
	return r
}

// String is the report in one line.
func (r versionReport) String() string {
	s := "refrun " + r.Version
	if r.VCS == nil {
		return s
	}
	s += " (" + r.VCS.Revision[:min(12, len(r.VCS.Revision))]
	if r.VCS.Modified {
		s += ", modified"
	}
	return s + ")"
}
