package molecule

// What a wrong network has, and a right one not.
const (
	faultOverwrites = "messages overwrite each other where they should add up"
	faultCutoff     = "the cutoff function is missing"
	faultHalf       = "each pair sends one way only: the neighbour list has half of the pairs"
	faultSender     = "atoms receive their own features in place of their neighbours'"
)

// networks are faults that are built into the graph.
var networks = []string{faultOverwrites, faultCutoff, faultHalf, faultSender}

// outputs are faults of right numbers: what a device makes of them.
var outputs = []struct {
	name string
	of   func(a *Answer) *Answer
}{
	{"forces have the wrong sign: they are minus the gradient", func(a *Answer) *Answer { return scaled(a, 1, -1) }},
	{"forces are half of what they are: each pair may be counted once",
		func(a *Answer) *Answer { return scaled(a, 1, 0.5) }},
	{"forces are twice what they are: each pair may be counted twice", func(a *Answer) *Answer { return scaled(a, 1, 2) }},
	{"energies and forces are in eV where the network has hartree",
		func(a *Answer) *Answer { return scaled(a, hartree, hartree) }},
	{"energies and forces are in hartree where the network has eV",
		func(a *Answer) *Answer { return scaled(a, 1/hartree, 1/hartree) }},
	{"energies and forces are in kcal/mol where the network has eV",
		func(a *Answer) *Answer { return scaled(a, kcal, kcal) }},
	{"the mean force is subtracted", centred},
}

// hartree is one in eV (CODATA 2018), and kcal is one eV in kcal/mol.
const (
	hartree = 27.211386245988
	kcal    = 23.060547830619
)

func scaled(a *Answer, energy, forces float64) *Answer {
	b := new(Answer)
	for _, v := range a.Energies {
		b.Energies = append(b.Energies, energy*v)
	}
	for _, v := range a.Forces {
		b.Forces = append(b.Forces, forces*v)
	}
	return b
}

func centred(a *Answer) *Answer {
	b := scaled(a, 1, 1)
	for c := range 3 {
		var sum float64
		for i := c; i < len(b.Forces); i += 3 {
			sum += b.Forces[i]
		}
		for i := c; i < len(b.Forces); i += 3 {
			b.Forces[i] -= sum / float64(len(b.Forces)/3)
		}
	}
	return b
}
