package molecule

import (
	"math"
	"testing"
)

func benzene(t testing.TB) *Molecule {
	b := fixtureBatch(t, openFixture(t, "benzene"))
	return &Molecule{Numbers: b.Numbers, Positions: b.Positions}
}

func TestSymmetries(t *testing.T) {
	m := fixtureModel(t)
	all, err := Symmetries(m, benzene(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if !s.Holds || s.Open != "" {
			t.Errorf("%+v", s)
		}
	}
	if len(all) != 4 || all[3].Energy != 0 || all[3].Forces != 0 {
		t.Errorf("%+v: want four tests, and equal bits in a batch", all)
	}
}

func methane(t testing.TB) *Molecule {
	b := fixtureBatch(t, openFixture(t, "ch4"))
	return &Molecule{Numbers: b.Numbers, Positions: b.Positions}
}

// A device is right, or one fault away from what is right.
func TestCheck(t *testing.T) {
	m := fixtureModel(t)
	recorded := numbersOf(t, openFixture(t, "ch4"), "forces_f32")
	var energy float64
	for _, e := range numbersOf(t, openFixture(t, "ch4"), "atom_energies_f32") {
		energy += e
	}
	none := func(*float64, []float64) {}
	for _, v := range []struct {
		name, claim, verdict, fault string
		change                      func(energy *float64, forces []float64)
	}{
		{"PyTorch", "float32", Pass, "", none},
		{"float32 under a wider claim", "bfloat16", Pass, "", none},
		{"sign", "float32", Fail, outputs[0].name, func(_ *float64, f []float64) {
			for i := range f {
				f[i] = -f[i]
			}
		}},
		{"one component", "float32", Fail, "", func(_ *float64, f []float64) { f[7] += 2e-5 }},
		{"energy", "float32", Fail, "", func(e *float64, _ []float64) { *e += 1e-4 }},
		{"NaN", "float32", Fail, "", func(_ *float64, f []float64) { f[3] = math.NaN() }},
		{"TF32", "float32", Fail, "errors are those of tf32", answered(t, m, "tf32", "")},
		{"overwrites", "float32", Fail, faultOverwrites, answered(t, m, "float32", faultOverwrites)},
		{"no cutoff", "float32", Fail, faultCutoff, answered(t, m, "float32", faultCutoff)},
		{"half", "float32", Fail, faultHalf, answered(t, m, "float32", faultHalf)},
		{"sender", "float32", Fail, faultSender, answered(t, m, "float32", faultSender)},
	} {
		x := methane(t)
		e, f := energy, append([]float64{}, recorded...)
		v.change(&e, f)
		x.Energy, x.Forces = &e, f
		r, err := Check(m, modeOf(t, v.claim), []*Molecule{x})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != v.verdict || r.Fault != v.fault {
			t.Errorf("%s: %s %q, want %s %q: %+v", v.name, r.Verdict, r.Fault, v.verdict, v.fault, r.Of)
		}
	}
}

// TestUnjudged: a device that passes does not where it left energies or forces out, or where one of both shows nothing.
func TestUnjudged(t *testing.T) {
	m := fixtureModel(t)
	right := func() *Molecule {
		x := methane(t)
		a, err := answer(m, modeOf(t, "float32"), x)
		if err != nil {
			t.Fatal(err)
		}
		x.Energy, x.Forces = &a.Energies[0], a.Forces
		return x
	}
	for name, k := range map[string]struct {
		want   string
		change func(x *Molecule)
	}{
		"all":       {Pass, func(*Molecule) {}},
		"no energy": {NoPower, func(x *Molecule) { x.Energy = nil }},
		"no forces": {NoPower, func(x *Molecule) { x.Forces = nil }},
		"NaN":       {Fail, func(x *Molecule) { x.Energy = nil; x.Forces[2] = math.NaN() }},
	} {
		x := right()
		k.change(x)
		r, err := Check(m, modeOf(t, "float32"), []*Molecule{right(), x})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != k.want || (r.Verdict == NoPower) != (len(r.Unjudged) > 0) && k.want != Fail {
			t.Errorf("%s: %s, not judged: %q, want %s", name, r.Verdict, r.Unjudged, k.want)
		}
	}
	c := &check{network: m, all: []*Molecule{right()}}
	if err := c.prepare(modeOf(t, "float32")); err != nil {
		t.Fatal(err)
	}
	if c.noise[0] = math.Abs(c.truth[0].Energies[0]); c.judge(c.truth).Verdict != NoPower { // energies show nothing
		t.Error("passes by its forces alone")
	}
}

// answered sets what a device of that arithmetic with that fault returns.
func answered(t *testing.T, m *Model, precision, fault string) func(*float64, []float64) {
	return func(e *float64, f []float64) {
		p, err := m.problem(modeOf(t, precision), m.Batch(methane(t)), fault)
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.Run()
		if err != nil {
			t.Fatal(err)
		}
		*e = a.Energies[0]
		copy(f, a.Forces)
	}
}

// TestNaNStays: a NaN is a deviation, wherever it is among the forces, and no report loses it.
func TestNaNStays(t *testing.T) {
	for at := range 3 {
		got := []float64{1, 2, 3}
		got[at] = math.NaN()
		s := Symmetry{Limit: symmetric}
		if s.compare(1, 1, []float64{1, 2, 3}, got); s.Holds || s.Forces == s.Forces {
			t.Errorf("NaN at %d: %+v", at, s)
		}
		m := &Molecule{Numbers: []int{1}, Forces: got}
		c := &check{all: []*Molecule{m}, truth: []*Answer{{Energies: []float64{1}, Forces: []float64{1, 2, 3}}},
			deviation: []*Answer{{Energies: []float64{1}, Forces: []float64{1, 1, 1}}}, noise: [2]float64{1, 1}}
		if v := c.judge(c.truth).Of[0]; v.Verdict != Fail || v.Worst == v.Worst || v.Beyond != 1 {
			t.Errorf("NaN at %d: %+v", at, v)
		}
		c.truth[0].Forces = got // undefined, and the device has it so
		if v := c.judge(c.truth).Of[0]; v.Verdict == Fail || v.Worst != 0 || v.Beyond != 0 {
			t.Errorf("NaN as defined at %d: %+v", at, v)
		}
	}
}
