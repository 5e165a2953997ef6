package about

import (
	"errors"
	"runtime"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
)

var Info = cli.Verb{
	Name:    "info",
	Summary: "what this machine and this version are, or an ONNX file",
	Help: `Prints the CPU, the features kernels may use, the kernels chosen, and the
versions of the command and of the numerical contract.

With --onnx, says of a network what its inputs, outputs, operations, parameters
and FLOPs are, and lists every node that is not supported.

example: refrun info --onnx resnet.onnx
example: refrun info --json`,
	Run: info,
}

func info(c *cli.Command) error {
	m := model.Declare(c)
	if err := c.Parse(0); err != nil {
		return err
	}
	switch {
	case m.Given():
		return infoOfNetwork(c, m)
	case len(m.Inputs) > 0:
		return errors.New("--input: want --onnx or --graph as well")
	}
	out := struct {
		Version  string   `json:"version"`
		Contract string   `json:"contract"`
		ISA      string   `json:"isa"`
		CPU      string   `json:"cpu"`
		Features []string `json:"features"`
		Threads  int      `json:"threads"`
		Go       string   `json:"go"`
		Platform string   `json:"platform"`
		Verbs    []string `json:"verbs"` // by which a program of another language sees what there is
	}{cli.Version, graph.Contract, c.Isa, asm.CPU(), append([]string{}, asm.Features()...), runtime.GOMAXPROCS(0),
		runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, cli.VerbNames(c.All)}
	if c.Json {
		return c.PrintJSON(out)
	}
	c.Printf("refrun %s, numerical contract %s\n", out.Version, out.Contract)
	c.Printf("cpu       %s (%s), %s\n", out.CPU, out.Platform, cli.Plural(out.Threads, "thread"))
	c.Printf("features  %s\n", strings.Join(out.Features, " "))
	c.Printf("kernels   %s\n", out.ISA)
	c.Printf("built by  %s\n", out.Go)
	return nil
}
