package grad

import (
	"maps"
	"slices"
)

// rule adds the gradients of a node by its inputs.
type rule func(s *step)

// rules are those of all operations that have one, by name.
var rules = map[string]rule{}

// severalOutputs are the operations whose rule counts all outputs.
var severalOutputs = map[string]bool{"split": true, "chunk": true, "unbind": true}

// flat are the operations whose derivative is 0 wherever there is one: nothing that they make
// depends on their inputs for gradients.
var flat = map[string]bool{
	"sign": true, "floor": true, "ceil": true, "trunc": true, "round": true, "floor_divide": true,
}

func init() {
	for _, of := range []map[string]rule{
		functions(), arithmetic(), products(), reductions(), norms(), convolutions(), moves(), indexed(), scattered(),
	} {
		maps.Copy(rules, of)
	}
}

// Operations returns the names of the operations that have rules, sorted.
func Operations() []string { return slices.Sorted(maps.Keys(rules)) }
