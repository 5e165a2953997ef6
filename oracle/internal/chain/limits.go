package chain

// The numbers that decide, each with its class, as in package judge.
const (
	// set: how many times the errors that right devices have no other form of an operation explains.
	mostFormed = 1e3
	// set: how far a constant of another step is off, along whose direction errors may lie by any amount.
	wrongBy = 1. / 64
	// set: the bits by which numbers that no right device has must be together by more than chance, to have a place.
	leastTogether = 30
	// work: the elements that are farthest off of which a report tells.
	mostWorst = 10
	// work: the contracts that are tried.
	mostTried = 8
	// work: the wrong steps that contracts are looked for at.
	mostClimbed = 3
	// work: the steps that are right by themselves at which faults are looked for, spread over all.
	fewLooked = 3
	// work: the steps whose inputs are kept.
	mostGiven = 4
	// work: the operations or results that a text names.
	mostNamed = 6
)
