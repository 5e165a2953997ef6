package oracle

import (
	"context"
	"time"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// Network is one evaluation of a network on a device, for [CheckNetwork].
type Network struct {
	Name   string // for the report
	Graph  *graph.Graph
	Inputs []*tensor.Tensor // of the graph, as the device had them
	// Precision and Autocast are the arithmetic that the device says it has: float64, float32, tf32, float16 or bfloat16;
	// and cuda or cpu, none for a half precision without autocast, as after module.half(), and "" for cuda's.
	Precision, Autocast string
	// Outputs are the device's outputs, in the order of the graph's, in the format in which it stores them; nil for one
	// that is not known.
	Outputs []*tensor.Tensor
	// Layers are the device's numbers of other values of the graph, by the number of the value.
	Layers map[int]*tensor.Tensor
	// Budget is the time after which no further piece is judged. The report names what is left out. 0 is no limit.
	Budget time.Duration
	// Progress, if not nil, is called after each piece.
	Progress func(done, all int)
}

// CheckNetwork judges whether the outputs of a network are what a device of the claimed arithmetic returns for these
// inputs, and if not, which layer is wrong.
//
// A network is judged in pieces. Each recorded layer ends one: the part of the graph from what the device had
// recorded before to what it recorded there, held against the device's own numbers, so that an error stays where it
// is made. Without layers the whole graph is one piece for each output. A piece that is not as claimed is tried
// under contracts of fewer roundings, and passes as more accurate, under the contract's name. Numbers of other
// shapes than the graph's, and a network that the claim's autocast refuses, are errors. CheckNetwork ends early
// with the context's error.
func CheckNetwork(ctx context.Context, n Network) (*report.Report, error) {
	claim, err := forward.ParseClaim(n.Precision, n.Autocast)
	if err != nil {
		return nil, err
	}
	return forward.Check(ctx, forward.Question{
		Name: n.Name, Graph: n.Graph, Inputs: n.Inputs, Claim: claim, Outputs: n.Outputs, Layers: n.Layers,
		Budget: n.Budget, Progress: n.Progress,
	})
}
