package forward

// The numbers that decide, each with its class, as in package judge.
const (
	// set: the share of how far an output is from an earlier contract's numbers that a later one has at most where it
	// is the device's.
	farNearer = .7
	// work: the pieces in which single steps that are rounded are looked for, by nodes.
	mostSearched = 8
	// work: the outputs and operations that a text names.
	mostUnjudged, mostNames, mostOperations = 5, 6, 3
)
