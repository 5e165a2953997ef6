package main

import (
	"runtime"
	"strings"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/operator"
)

var infoVerb = verb{
	name:    "info",
	summary: "what this machine and this version are",
	help: `Prints the CPU, the features kernels may use, the kernels chosen, and the
versions of the command and of the numerical contract.

example: refrun info --json`,
	run: info,
}

func info(c *command) error {
	if err := c.parse(0); err != nil {
		return err
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
	}{version, operator.Contract, c.isa, asm.CPU(), append([]string{}, asm.Features()...), runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
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
