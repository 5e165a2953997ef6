package table

// The kinds of probes.
const (
	IntegerFill     = "integer-fill"
	AccumulatorSum  = "accumulator"
	Impulse         = "impulse"
	VarianceLadder  = "variance-ladder"
	MeanLadder      = "mean-ladder"
	AmplitudeLadder = "amplitude-ladder"
	SubnormalLadder = "subnormal-ladder"
	ConstantChannel = "constant-channel"
	Nonfinite       = "nonfinite"
)
