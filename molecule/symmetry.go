package molecule

import (
	"errors"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// ErrOneAtATime is the error of a network that takes one molecule at a time.
var ErrOneAtATime = errors.New("the network takes one molecule at a time")

// Symmetry is one test of a network: what it must not change, and by how much it does.
type Symmetry struct {
	Name string `json:"name"` // permutation, translation, rotation or batch
	// Energy and Forces are the largest deviations, of the energy and of the largest force; NaN if one
	// of those numbers is.
	Energy diff.Number `json:"energy"`
	Forces diff.Number `json:"forces"`
	Limit  diff.Number `json:"limit"` // of both; 0 is equal bits
	Holds  bool        `json:"holds"`
	Open   string      `json:"open,omitempty"` // why it was not tested
}

// symmetric is how far energies and forces of a network that has a symmetry may deviate in float64,
// relative to the largest: rounding moves positions by 2^-53 of themselves, and each operation errs by
// as much. The networks here are within 1e-12 of exact arithmetic, and one without the symmetry
// deviates by 1e-4 and more.
const symmetric = 1e-9

// Symmetries tests a network with one molecule, in float64:
//
//	permutation  the atoms in another order have the same energy, and their own forces
//	translation  so does the molecule elsewhere
//	rotation     and turned round, with forces that are turned too
//	batch        side by side with itself, its atoms in another order, it has the same bits
//
// The molecule must be away from where derivatives jump, such as two atoms exactly at the cutoff.
func Symmetries(n Network, m *Molecule) ([]Symmetry, error) {
	p, err := n.Problem(graph.Mode{Precision: fp16.Float64}, m)
	if err != nil {
		return nil, err
	}
	at, err := p.Run()
	if err != nil {
		return nil, err
	}
	order := shuffled(len(m.Numbers))
	var all []Symmetry
	for _, v := range []struct {
		name  string
		move  func(x [3]float64) [3]float64
		force func(f [3]float64) [3]float64
		order []int
	}{
		{"permutation", same, same, order},
		{"translation", shift, same, nil},
		{"rotation", turn, turn, nil},
	} {
		moved := m.mapped(v.move, v.order)
		s := Symmetry{Name: v.name, Limit: symmetric}
		q, err := n.Problem(p.Mode, moved)
		if err != nil {
			return nil, err
		}
		got, err := q.Run()
		if err != nil {
			return nil, err
		}
		want := &Molecule{Numbers: m.Numbers, Positions: at.Forces}
		s.compare(at.Energies[0], got.Energies[0], want.mapped(v.force, v.order).Positions, got.Forces)
		all = append(all, s)
	}
	s, err := batched(n, m, at, order)
	return append(all, s), err
}

// compare sets the deviations.
func (s *Symmetry) compare(e, got float64, forces, gotForces []float64) {
	s.Energy = relative(math.Abs(got-e), math.Abs(e))
	var worst, largest float64
	for i, f := range forces {
		d := math.Abs(gotForces[i] - f)
		if worst == worst && !(d <= worst) { // a NaN stays
			worst = d
		}
		largest = max(largest, math.Abs(f))
	}
	s.Forces = relative(worst, largest)
	s.Holds = s.Energy <= s.Limit && s.Forces <= s.Limit
}

func relative(d, size float64) diff.Number {
	if d == 0 {
		return 0
	}
	return diff.Number(d / max(size, 1e-300))
}

// batched compares a molecule side by side with others with the molecule alone, bit for bit.
func batched(n Network, m *Molecule, alone *Answer, order []int) (Symmetry, error) {
	s := Symmetry{Name: "batch"}
	p, err := n.Problem(graph.Mode{Precision: fp16.Float64}, m.mapped(turn, order), m, m.mapped(same, order))
	if errors.Is(err, ErrOneAtATime) {
		s.Open = err.Error()
		return s, nil
	}
	if err != nil {
		return s, err
	}
	got, err := p.Run()
	if err != nil {
		return s, err
	}
	k := len(m.Positions)
	s.compare(alone.Energies[0], got.Energies[1], alone.Forces, got.Forces[k:2*k])
	return s, nil
}

// mapped returns the molecule with each position mapped, and its atoms in another order if one is given.
func (m *Molecule) mapped(f func([3]float64) [3]float64, order []int) *Molecule {
	to := new(Molecule)
	for i := range m.Numbers {
		if order != nil {
			i = order[i]
		}
		x := f([3]float64(m.Positions[3*i : 3*i+3]))
		to.Numbers, to.Positions = append(to.Numbers, m.Numbers[i]), append(to.Positions, x[:]...)
	}
	return to
}

func same(x [3]float64) [3]float64 { return x }

// shift moves by a vector of numbers that float32 adds to molecules with little rounding.
func shift(x [3]float64) [3]float64 { return [3]float64{x[0] + 1.5, x[1] - 2.25, x[2] + 0.75} }

// turn is the rotation of the unit quaternion (1, 2, 3, 5)/sqrt(39), so none by an angle that a lattice
// has, and about none of its axes.
func turn(x [3]float64) (y [3]float64) {
	r := [3][3]float64{{-29, 2, 26}, {22, -19, 26}, {14, 34, 13}}
	for i := range y {
		for c := range x {
			y[i] += float64(r[i][c] / 39 * x[c])
		}
	}
	return y
}

// shuffled returns an order of n atoms, the same every time, in which one of two or more atoms moves.
func shuffled(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	state := uint64(1)
	for i := n - 1; i > 0; i-- {
		state = state*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		j := int(state >> 33 % uint64(i))                       // Sattolo: every atom moves
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// PermutedIfAdded returns by how much, relative to the energy, atoms in another order change it in a
// network in which numbers that are put to one place are added up there. See [Problem.Added].
func PermutedIfAdded(n Network, m *Molecule) (float64, error) {
	var energies [2]float64
	for k, x := range []*Molecule{m, m.mapped(same, shuffled(len(m.Numbers)))} {
		p, err := n.Problem(graph.Mode{Precision: fp16.Float64}, x)
		if err != nil {
			return 0, err
		}
		a, err := p.Added().Run()
		if err != nil {
			return 0, err
		}
		energies[k] = a.Energies[0]
	}
	return float64(relative(math.Abs(energies[1]-energies[0]), math.Abs(energies[0]))), nil
}
