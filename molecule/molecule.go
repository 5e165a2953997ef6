package molecule

// Molecule is atoms in space, and what a file says of them.
type Molecule struct {
	Numbers   []int     // atomic numbers, 0 for unknown
	Positions []float64 // x, y and z of each atom

	Energy *float64  // if the file has one
	Forces []float64 // x, y and z of each atom, if the file has them

	Info []Entry // what else its comment line says, in its order
}

// Entry is a key of a comment line and its value, as they stand there.
type Entry struct{ Key, Value string }
