package check

import (
	"fmt"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// modelPairs are what is concluded of networks.
func layerPairs() []clitest.Pair {
	return []clitest.Pair{
		{Says: "--layers: no values of the network: a", Is: fmt.Sprint(layerNotes([]string{"a"})),
			IsNot: fmt.Sprint(layerNotes(nil))},
	}
}

// probePairs are those of probe.
func probePairs() []clitest.Pair {
	probes := func(files ...string) string { return clitest.Printed(func(c *cli.Command) { printProbes(c, files) }) }
	return []clitest.Pair{
		{Says: "with the draws of\nnoise.safetensors", Is: probes("p/integers/case.json", "p/integers/noise.safetensors"),
			IsNot: probes("p/integers/case.json")},
	}
}
