package operator

import "github.com/refrun/refrun/graph"

// Mode says in which arithmetic an operator is evaluated: see [graph.Mode].
type Mode = graph.Mode

// The rule sets of autocast: see [graph.Autocast].
const (
	NoAutocast = graph.NoAutocast
	CUDA113    = graph.CUDA113
	CUDA2      = graph.CUDA2
	CPU113     = graph.CPU113
	CPU2       = graph.CPU2
)

// ParseAutocast returns the rule set of that name: see [graph.ParseAutocast].
func ParseAutocast(name string) (graph.Autocast, error) { return graph.ParseAutocast(name) }

// ParseMode returns the mode of a precision and an autocast: see [graph.ParseMode].
func ParseMode(precision, autocast string) (Mode, error) { return graph.ParseMode(precision, autocast) }

// Contract is the version of the numerical contract: see [graph.Contract].
const Contract = graph.Contract
