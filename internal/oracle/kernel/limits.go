package kernel

// The numbers that decide, each with its class, as in package judge.
const (
	// work: how many products other devices' answers are made of.
	mostProducts = 1 << 18
)

// set: the parts of K that are tried.
var splits = []int{1, 2, 3, 4, 6, 8, 16}

// set: the tiles of K that are tried, of which parts are made.
var tiles = []int{32, 64, 128}

// What is tried to find the order of a sum.
var (
	// set: the tiles of k, of which 0 is none.
	sumTiles = []int{0, 16, 32, 64, 128}
	// set: the parts of k.
	sumParts = []int{2, 3, 4, 6, 8, 16}
)
