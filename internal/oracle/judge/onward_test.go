package judge

import (
	"math/rand/v2"
	"testing"
)

// TestOnward: errors that are below the limit of each evaluation, but above what is expected from one evaluation on,
// are found together, and those of right devices are not.
func TestOnward(t *testing.T) {
	const n, numbers, begins = 8, 60., 3
	r := rand.New(rand.NewPCG(7, 11))
	mean := func() (m float64) { // of so many squares
		for range int(numbers) {
			z := r.NormFloat64()
			m += z * z / numbers
		}
		return m
	}
	draw := func(times func(i int) float64) []Each {
		l := squaresLaw{slack: usualSlack, expected: 30, variance: 2 * 30 * 30 / numbers, alike: 1, flips: 1}
		l.devices, l.all = asTheory+thinKernels, numbers
		var all []Each
		for i := range n {
			of := times(i) * l.expected * mean()
			w := farthest{law: l, of: of, at: everywhere, chance: l.tail(of), count: 1}
			all = append(all, Each{ways: ways{everywhere: w}})
		}
		return all
	}
	right, wrong, alone, dated := 0, 0, 0, 0
	for range 2000 {
		j := &Joint{Each: draw(func(int) float64 { return 1 })}
		if j.late(); j.First() >= 0 {
			t.Error("a right device fails")
		}
		right++
	}
	for range 200 {
		all := draw(func(i int) float64 {
			if i < begins {
				return .2
			}
			return 3.2
		})
		for _, e := range all {
			if e.ways[everywhere].chance < atOdds(1000) {
				alone++
			}
		}
		j := &Joint{Each: all}
		if j.late(); j.First() < 0 {
			t.Error("a wrong device passes")
		}
		if wrong++; j.First() == begins {
			dated++
		}
	}
	if dated < wrong*9/10 || alone > wrong/2 {
		t.Errorf("of %d wrong devices %d dated right; %d evaluations wrong alone", wrong, dated, alone)
	}
	t.Logf("%d right, %d wrong, %d dated right, %d evaluations wrong alone", right, wrong, dated, alone)
}
