package molecule

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// cloud is a molecule of n atoms near the points of a cubic lattice, 1.5 apart.
func cloud(n int, seed uint64) *Molecule {
	r := rand.New(rand.NewPCG(seed, 1))
	m, side := new(Molecule), 1
	for side*side*side < n {
		side++
	}
	for i := range n {
		m.Numbers = append(m.Numbers, 1+r.IntN(8))
		for _, c := range []int{i / side / side, i / side % side, i % side} {
			m.Positions = append(m.Positions, 1.5*float64(c)+0.1*r.NormFloat64())
		}
	}
	return m
}

// Energies and forces of one molecule, planned before.
func BenchmarkForces(b *testing.B) {
	m := fixtureModel(b)
	for _, atoms := range []int{12, 30, 60, 100} {
		x := m.Batch(cloud(atoms, 7))
		if atoms == 12 {
			x = fixtureBatch(b, openFixture(b, "benzene"))
		}
		b.Run(fmt.Sprintf("atoms=%d/pairs=%d", atoms, len(x.Pairs.I)), func(b *testing.B) {
			e := m.Evaluator(modeOf(b, "float32"))
			for b.Loop() {
				if _, err := e.Evaluate(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
