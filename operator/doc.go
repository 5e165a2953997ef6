// Package operator builds Spinlock's stochastic operators from their parameters and
// weights, and applies them: an image-to-image network O of states [N,C,H,W], N
// realizations of C channels of H x W pixels. The CNN has noise on its last hidden layer,
// the U-AFNO on its output.
//
//	config, err := operator.ReadConfig("config.json", "", data)
//	file, err := safetensors.Open("weights.safetensors")
//	op, err := operator.Load(config, file)
//	mode, err := graph.ParseMode("float16", "cuda")
//	y, err := op.Forward(&operator.Pass{Mode: mode, Draws: draws}, x)
//
// A [Config] says the shape of the network: the parameters of Spinlock's CNN or of its U-AFNO or of neuraloperator's
// FNO, or, as Nodes, any graph of operations. What it leaves out has a default, so that NumLayers and BaseChannels are
// enough. The weights come from a file ([Load]) or are those that PyTorch draws from a seed ([Init]). Package rollout
// steps states with an operator; package graph evaluates it and package plan compiles it.
//
// # Arithmetic
//
// The operator is a tree of PyTorch-named modules; each layer is one of the
// operations that packages conv, norm, act and noise define, so a Forward is their
// composition, each rounding once to the format of the [graph.Mode]. Results have the same
// bits on every machine, for every number of threads and every instruction set, and
// [Operator.Compile] has those of [Operator.Forward], several times faster.
//
// # Errors
//
// What files and configurations say wrongly is an error of one line that names file,
// field, value and what was expected. So are a mode in which PyTorch refuses the
// operator, an input of the wrong shape, and draws that a source does not have.
package operator
