package main

import (
	"errors"
	"runtime"
	"strings"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
)

var infoVerb = verb{
	name:    "info",
	summary: "what this machine and this version are, or an ONNX file",
	help: `Prints the CPU, the features kernels may use, the kernels chosen, and the
versions of the command and of the numerical contract.

With --onnx, says of a network what its inputs, outputs, operations, parameters
and FLOPs are, and lists every node that is not supported.

example: refrun info --onnx resnet.onnx
example: refrun info --json`,
	run: info,
}

func info(c *command) error {
	m := c.modelFlags()
	if err := c.parse(0); err != nil {
		return err
	}
	switch {
	case m.given():
		return c.modelInfo(m)
	case len(m.inputs) > 0:
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
	}{version, graph.Contract, c.isa, asm.CPU(), append([]string{}, asm.Features()...), runtime.GOMAXPROCS(0),
		runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, verbNames(c.all)}
	if c.json {
		return c.printJSON(out)
	}
	c.printf("refrun %s, numerical contract %s\n", out.Version, out.Contract)
	c.printf("cpu       %s (%s), %s\n", out.CPU, out.Platform, plural(out.Threads, "thread"))
	c.printf("features  %s\n", strings.Join(out.Features, " "))
	c.printf("kernels   %s\n", out.ISA)
	c.printf("built by  %s\n", out.Go)
	return nil
}
