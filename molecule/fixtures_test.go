package molecule

import (
	"math"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/safetensors"
)

func openFixture(t testing.TB, name string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open("testdata/" + name + ".safetensors")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func fixtureModel(t testing.TB) *Model {
	t.Helper()
	m, err := New(Config{PaiNN, 5}, Sizes{Hidden: 32, Radial: 20, Layers: 3}, openFixture(t, "weights"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func numbersOf(t testing.TB, f *safetensors.File, name string) []float64 {
	t.Helper()
	x, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := x.DType.Format(); ok {
		v, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	whole, err := x.Int64s()
	if err != nil {
		t.Fatal(err)
	}
	var v []float64
	for _, n := range whole {
		v = append(v, float64(n))
	}
	return v
}

func wholeOf(t testing.TB, f *safetensors.File, name string) []int {
	t.Helper()
	var v []int
	for _, x := range numbersOf(t, f, name) {
		v = append(v, int(x))
	}
	return v
}

// fixtureBatch is a recorded molecule with its recorded pairs.
func fixtureBatch(t testing.TB, f *safetensors.File) *Batch {
	t.Helper()
	e := wholeOf(t, f, "edges")
	return &Batch{Numbers: wholeOf(t, f, "atomic_numbers"), Positions: numbersOf(t, f, "positions"), First: []int{0},
		Pairs: Pairs{I: e[:len(e)/2], J: e[len(e)/2:]}}
}

func modeOf(t testing.TB, precision string) graph.Mode {
	t.Helper()
	m, err := graph.ParseMode(precision, "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func evaluate(t testing.TB, m *Model, precision string, b *Batch) *Result {
	t.Helper()
	r, err := m.Evaluator(modeOf(t, precision)).Evaluate(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// distance is the root mean square of the differences, and of the second numbers.
func distance(a, b []float64) (d, size float64) {
	for i := range a {
		d += (a[i] - b[i]) * (a[i] - b[i])
		size += b[i] * b[i]
	}
	return math.Sqrt(d / float64(len(a))), math.Sqrt(size / float64(len(a)))
}

// Molecules that PyTorch 2.9.1 has recorded, with the neighbours it had.
func TestFixtures(t *testing.T) {
	m := fixtureModel(t)
	for _, name := range []string{"h2", "h2o", "ch4", "benzene"} {
		f := openFixture(t, name)
		b := fixtureBatch(t, f)
		wide, single := evaluate(t, m, "float64", b), evaluate(t, m, "float32", b)
		for _, v := range []struct {
			name         string
			wide, single []float64
		}{{"atom_energies", wide.AtomEnergies, single.AtomEnergies}, {"forces", wide.Forces, single.Forces}} {
			d, size := distance(v.wide, numbersOf(t, f, v.name+"_f64"))
			if !(d <= 1e-13*size) {
				t.Errorf("%s: %s: float64: %.3g from PyTorch's of size %.3g", name, v.name, d, size)
			}
			ours, _ := distance(v.single, v.wide)
			theirs, _ := distance(numbersOf(t, f, v.name+"_f32"), v.wide)
			t.Logf("%s: %s: float32: refrun %.3g, PyTorch %.3g, of size %.3g", name, v.name, ours, theirs, size)
		}
	}
}
