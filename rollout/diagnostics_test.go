package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/judges/bigref"
)

// edgeZone is the relative distance from an edge at which PyTorch's float32
// bins may differ from ours: four roundings of 2^-24.
const edgeZone = 0x1p-22

// nearEdge returns the inner edge, 1 to 49, within edgeZone of v, or 0.
func nearEdge(v, lo, hi float64) int {
	q := (v - lo) * bins / (hi - lo)
	k := math.Round(q)
	if k < 1 || k > bins-1 || math.Abs(q-k) > edgeZone*k {
		return 0
	}
	return int(k)
}

func bounds(x []float64) (lo, hi float64) {
	lo, hi = x[0], x[0]
	for _, v := range x {
		lo, hi = math.Min(lo, v), math.Max(hi, v)
	}
	return lo, hi
}

// atEdges returns the histogram of the numbers of x that are not near an edge,
// and the edges that the others are near.
func atEdges(x []float64) (counts [bins]int, edges []int) {
	lo, hi := bounds(x)
	counts, _ = counted(x, lo, hi)
	for _, v := range x {
		if k := nearEdge(v, lo, hi); k > 0 {
			edges = append(edges, k)
			counts[int((v-lo)*bins/(hi-lo))]--
		}
	}
	return counts, edges
}

// reachable calls f with the entropy of each set of counts that moving the
// numbers at these edges to either side gives.
func reachable(counts [bins]int, edges []int, n int, f func(h float64)) {
	if len(edges) > 0 {
		k := edges[0]
		for _, to := range [2]int{k - 1, k} {
			counts[to]++
			reachable(counts, edges[1:], n, f)
			counts[to]--
		}
		return
	}
	h := 0.0
	for _, c := range counts {
		if c > 0 {
			p := float64(c) / float64(n)
			h -= p * math.Log(p)
		}
	}
	f(h)
}

// TestDiagnoseRecorded compares every recorded state with the metrics that
// Spinlock recorded for it.
func TestDiagnoseRecorded(t *testing.T) {
	dirs, err := os.ReadDir("../testdata/rollouts")
	if err != nil {
		t.Fatal(err)
	}
	states, atEdge := 0, 0
	for _, dir := range dirs {
		c, err := OpenCase(filepath.Join("../testdata/rollouts", dir.Name()))
		if err != nil {
			t.Fatal(err)
		}
		traj, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		want := make([][]float64, len(DiagnosticNames))
		for i, name := range DiagnosticNames {
			m, err := c.Trajectory.Tensor("metrics." + name)
			if err != nil {
				t.Fatal(err)
			}
			if want[i], err = m.Float64s(); err != nil || len(want[i]) != traj.M*traj.T {
				t.Fatalf("%s: %s: %d numbers, error %v", dir.Name(), name, len(want[i]), err)
			}
		}
		for m := range traj.M {
			for step := range traj.T {
				x, prev := traj.At(m, step), []float64(nil)
				if step > 0 {
					prev = traj.At(m, step-1)
				}
				got := Diagnose(x, prev).Values()
				for i, name := range DiagnosticNames {
					w := want[i][m*traj.T+step]
					d := math.Abs(got[i] - w)
					ok := d <= 1e-5*math.Abs(w)
					switch name {
					case "autocorrelation":
						ok = d <= 1e-5
					case "entropy":
						// Both must be an entropy that the numbers at an
						// edge allow, ours and the recorded one.
						counts, edges := atEdges(x)
						if len(edges) > 10 {
							t.Fatalf("%s: %d numbers at an edge", dir.Name(), len(edges))
						}
						theirs, ours := math.Inf(1), math.Inf(1)
						reachable(counts, edges, len(x), func(h float64) {
							theirs = min(theirs, math.Abs(h-w))
							ours = min(ours, math.Abs(h-got[i]))
						})
						ok = theirs <= 1e-6 && ours <= 1e-13
						atEdge += len(edges)
					}
					if !ok {
						t.Errorf("%s: realization %d, step %d: %s is %.9g, recorded %.9g, distance %.2g",
							dir.Name(), m, step, name, got[i], w, d)
					}
				}
				states++
			}
		}
	}
	t.Logf("%d states, %d numbers within %g of an edge", states, atEdge, edgeZone)
	if states < 300 {
		t.Errorf("only %d states compared", states)
	}
}

// TestHistogramFloat32 puts numbers around every edge and compares their bins
// with the exact ones, in rational arithmetic, and with those of the same rule
// in float32, PyTorch's.
func TestHistogramFloat32(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 7))
	moved := 0
	for range 60 {
		lo := float32(r.NormFloat64())
		hi := lo + float32(math.Exp(3*r.NormFloat64()))
		for k := range bins + 1 {
			for range 5 {
				v := float32(float64(lo) + float64(k)*(float64(hi)-float64(lo))/bins)
				for range r.IntN(4) {
					v = math.Nextafter32(v, float32(math.Inf(r.IntN(2)*2-1)))
				}
				v = max(lo, min(hi, v))
				counts, ok := counted([]float64{float64(v)}, float64(lo), float64(hi))
				bin := 0
				for bin < bins-1 && counts[bin] == 0 {
					bin++
				}
				if !ok || counts[bin] != 1 {
					t.Fatalf("%v in [%v,%v]: counts %v, %v", v, lo, hi, counts, ok)
				}

				q := bigref.Rat(float64(v))
				q.Sub(q, bigref.Rat(float64(lo))).Mul(q, big.NewRat(bins, 1))
				span := bigref.Rat(float64(hi))
				q.Quo(q, span.Sub(span, bigref.Rat(float64(lo))))
				exact := min(int(new(big.Int).Quo(q.Num(), q.Denom()).Int64()), bins-1)
				if bin != exact {
					edge := big.NewRat(int64(max(bin, exact)), 1)
					off, _ := new(big.Rat).Quo(q.Sub(q, edge), edge).Float64()
					if math.Abs(off) > 0x1p-51 || bin-exact > 1 || exact-bin > 1 {
						t.Errorf("%v in [%v,%v]: bin %d, want %d", v, lo, hi, bin, exact)
					}
				}

				torch := min(int(float32(float32(v-lo)*bins)/float32(hi-lo)), bins-1)
				if torch == bin {
					continue
				}
				moved++
				if k := nearEdge(float64(v), float64(lo), float64(hi)); k == 0 || torch+bin != 2*k-1 {
					t.Errorf("%v in [%v,%v]: bin %d, PyTorch's %d, at edge %d", v, lo, hi, bin, torch, k)
				}
			}
		}
	}
	if moved == 0 {
		t.Error("no number was counted differently: the zone was not tested")
	}
}

// TestHistogramIntegers counts integers, many of them exactly on an edge, where
// integer division knows the bin.
func TestHistogramIntegers(t *testing.T) {
	for span := 1; span <= 300; span++ {
		var x []float64
		var want [bins]int
		for v := range span + 1 {
			x = append(x, float64(v-7))
			want[min(v*bins/span, bins-1)]++
		}
		if got, ok := counted(x, -7, float64(span-7)); !ok || got != want {
			t.Errorf("0 to %d: counts %v, want %v", span, got, want)
		}
	}
}

// judgement is what exact arithmetic says of a state.
func judgement(x, prev []float64) (d Diagnostics) {
	n := big.NewRat(int64(len(x)), 1)
	float := func(r *big.Rat) float64 { v, _ := r.Float64(); return v }
	center := func(x []float64) []*big.Rat {
		mean := new(big.Rat)
		for _, v := range x {
			mean.Add(mean, bigref.Rat(v))
		}
		mean.Quo(mean, n)
		var c []*big.Rat
		for _, v := range x {
			c = append(c, new(big.Rat).Sub(bigref.Rat(v), mean))
		}
		return c
	}
	dot := func(a, b []*big.Rat) *big.Rat {
		s := new(big.Rat)
		for i := range a {
			s.Add(s, new(big.Rat).Mul(a[i], b[i]))
		}
		return s
	}
	energy, magnitude := new(big.Rat), new(big.Rat)
	for _, v := range x {
		q := bigref.Rat(v)
		energy.Add(energy, new(big.Rat).Mul(q, q))
		magnitude.Add(magnitude, q.Abs(q))
	}
	d.Energy, d.MeanMagnitude = float(energy), float(magnitude.Quo(magnitude, n))
	a, b := center(x), center(prev)
	xx, yy, xy := dot(a, a), dot(b, b), dot(a, b)
	d.Variance = float(new(big.Rat).Quo(xx, big.NewRat(int64(len(x)-1), 1)))
	wide := func(r *big.Rat) *big.Float { return new(big.Float).SetPrec(200).SetRat(r) }
	root := new(big.Float).SetPrec(200).Sqrt(wide(xx.Mul(xx, yy)))
	d.Autocorrelation, _ = root.Quo(wide(xy), root).Float64()

	lo, hi := bounds(x)
	w := bigref.Rat(hi)
	w.Sub(w, bigref.Rat(lo)).Quo(w, big.NewRat(bins, 1))
	counts := map[int64]int64{}
	for _, v := range x {
		q := bigref.Rat(v)
		q.Sub(q, bigref.Rat(lo)).Quo(q, w)
		counts[min(new(big.Int).Quo(q.Num(), q.Denom()).Int64(), bins-1)]++
	}
	h := new(big.Float).SetPrec(200)
	for _, c := range counts {
		p := wide(new(big.Rat).Quo(big.NewRat(c, 1), n))
		h.Sub(h, new(big.Float).Mul(p, bigref.Log(p, 100)))
	}
	d.Entropy, _ = h.Float64()
	return d
}

// TestDiagnoseExact holds small states against exact arithmetic.
func TestDiagnoseExact(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	for _, c := range []struct {
		name string
		draw func() float64
	}{
		{"normal", r.NormFloat64},
		{"far off zero", func() float64 { return 1e4 + 1e-3*r.NormFloat64() }},
		{"farther", func() float64 { return -1e9 + 1e-3*r.NormFloat64() }},
		{"wide", func() float64 { return math.Ldexp(r.NormFloat64(), r.IntN(200)-100) }},
		{"large float32", func() float64 { return fp16.Float32.Round(3e38 * (2*r.Float64() - 1)) }},
		{"least float32", func() float64 { return float64(r.IntN(5)) * 0x1p-149 }},
		{"integers", func() float64 { return float64(r.IntN(101)) }},
		{"two values", func() float64 { return 1 + float64(r.IntN(2))*0x1p-52 }},
		{"bfloat16", func() float64 { return fp16.BFloat16.Round(r.NormFloat64()) }},
		{"one-sided tail", func() float64 { return math.Exp(4 * r.NormFloat64()) }},
	} {
		for _, n := range []int{2, 3, 8, 57, 300} {
			x, prev := make([]float64, n), make([]float64, n)
			for i := range x {
				x[i], prev[i] = c.draw(), c.draw()
			}
			x[0], x[1] = x[0]+0x1p-20*math.Abs(x[0])+0x1p-149, prev[1]
			prev[0] = prev[0] - 0x1p-20*math.Abs(prev[0]) - 0x1p-149
			lo, hi := bounds(x)
			if plo, phi := bounds(prev); lo == hi || plo == phi {
				t.Fatalf("%s, n = %d: constant field", c.name, n)
			}
			got, want := Diagnose(x, prev).Values(), judgement(x, prev).Values()
			bound := float64(n+8) * 0x1p-53
			for i, what := range DiagnosticNames {
				e := bound * math.Abs(want[i])
				if what == "autocorrelation" {
					e = 4 * bound
				}
				if !(math.Abs(got[i]-want[i]) <= e) {
					t.Errorf("%s, n = %d: %s is %.17g, want %.17g", c.name, n, what, got[i], want[i])
				}
			}
		}
	}
}

func TestDiagnoseSpecials(t *testing.T) {
	nan, inf, big := math.NaN(), math.Inf(1), math.MaxFloat64
	odd := math.Float64frombits(0xfff8000000000001)
	ln2 := math.Ln2
	for _, c := range []struct {
		what    string
		x, prev []float64
		want    Diagnostics
	}{
		{"first step", []float64{3, -1}, nil, Diagnostics{10, ln2, 0, 8, 2}},
		{"same again", []float64{3, -1}, []float64{3, -1}, Diagnostics{10, ln2, 1, 8, 2}},
		{"turned over", []float64{3, -1}, []float64{-3, 1}, Diagnostics{10, ln2, -1, 8, 2}},
		{"uncorrelated", []float64{1, -1, 1, -1}, []float64{1, 1, -1, -1}, Diagnostics{4, ln2, 0, 4. / 3, 1}},
		{"constant", []float64{0.1, 0.1, 0.1}, []float64{1, 2, 4}, Diagnostics{3 * 0.1 * 0.1, 0, nan, 0, 0.1}},
		{"constant before", []float64{1, 2}, []float64{0.1, 0.1}, Diagnostics{5, ln2, nan, 0.5, 1.5}},
		{"large constant", []float64{1e30, 1e30}, nil, Diagnostics{2e60, 0, 0, 0, 1e30}},
		{"zeros of both signs", []float64{0, math.Copysign(0, -1)}, []float64{1, 2}, Diagnostics{0, 0, nan, 0, 0}},
		{"single number", []float64{-2}, []float64{1}, Diagnostics{4, 0, nan, nan, 2}},
		{"NaN", []float64{1, nan, 2}, []float64{1, 2, 3}, Diagnostics{nan, nan, nan, nan, nan}},
		{"NaN first", []float64{odd, 1, 2}, []float64{1, 2, 3}, Diagnostics{nan, nan, nan, nan, nan}},
		{"NaN at the first step", []float64{1, nan}, nil, Diagnostics{nan, nan, 0, nan, nan}},
		{"NaN before", []float64{3, -1}, []float64{odd, 1}, Diagnostics{10, ln2, nan, 8, 2}},
		{"infinity", []float64{1, inf}, []float64{1, 2}, Diagnostics{inf, nan, nan, nan, inf}},
		{"infinity first", []float64{-inf, 1}, []float64{1, 2}, Diagnostics{inf, nan, nan, nan, inf}},
		{"infinities alone", []float64{inf, inf}, nil, Diagnostics{inf, nan, 0, nan, inf}},
		{"infinity before", []float64{3, -1}, []float64{inf, 1}, Diagnostics{10, ln2, nan, 8, 2}},
		{"sums overflow", []float64{1e200, -1e200}, []float64{1, 2}, Diagnostics{inf, ln2, nan, inf, 1e200}},
		{"range overflows", []float64{big, -big}, []float64{1, 2}, Diagnostics{inf, nan, nan, nan, inf}},
		{"bins overflow", []float64{0, big / 2}, nil, Diagnostics{inf, nan, 0, inf, big / 4}},
	} {
		got, want := Diagnose(c.x, c.prev).Values(), c.want.Values()
		for i, name := range DiagnosticNames {
			g, w := got[i], want[i]
			if math.Float64bits(g) == math.Float64bits(w) || w != w && math.Float64bits(g) == math.Float64bits(fp16.NaN) {
				continue
			}
			if w == w && w != 0 && math.Abs(g-w) <= 0x1p-51*math.Abs(w) {
				continue
			}
			t.Errorf("%s: %s is %v (%#016x), want %v", c.what, name, g, math.Float64bits(g), w)
		}
	}
	// PyTorch puts a constant in the middle of [v-1,v+1].
	if counts, ok := counted([]float64{7, 7, 7}, 7, 7); !ok || counts[25] != 3 {
		t.Errorf("histogram of a constant is %v", counts)
	}
	// However it rounds, a correlation is one.
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		x := numbers(r, 5, 1)
		if a := Diagnose(x, x).Autocorrelation; a > 1 || a < 1-0x1p-50 {
			t.Errorf("a state's correlation with itself is 1%+g", a-1)
		}
	}
	for _, c := range [][2][]float64{{{}, nil}, {{1, 2}, {1}}, {{1}, {1, 2}}, {{1}, {}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for states of %d and %d numbers", len(c[0]), len(c[1]))
				}
			}()
			Diagnose(c[0], c[1])
		}()
	}
}

// TestDiagnoseBits pins the bits of the diagnostics of a whole rollout, and of
// short states with all bits of float64, where every product's rounding counts:
// they are the same on every machine and with every compiler setting.
func TestDiagnoseBits(t *testing.T) {
	const want = "cd6a2a4216cba28e763802e38c6ba2493bcb274c4ae103b87dd14f7cb4042140"
	c, err := OpenCase("../testdata/rollouts/seed_small")
	if err != nil {
		t.Fatal(err)
	}
	traj, err := c.ReadTrajectory()
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	diagnose := func(x, prev []float64) {
		for _, v := range Diagnose(x, prev).Values() {
			all = binary.LittleEndian.AppendUint64(all, math.Float64bits(v))
		}
	}
	for m := range traj.M {
		diagnose(traj.At(m, 0), nil)
		for step := 1; step < traj.T; step++ {
			diagnose(traj.At(m, step), traj.At(m, step-1))
		}
	}
	r := rand.New(rand.NewPCG(6, 1))
	for range 200 {
		x, prev := make([]float64, 5), make([]float64, 5)
		for i := range x {
			x[i], prev[i] = r.Float64()-0.25, r.Float64()/3
		}
		diagnose(x, prev)
	}
	sum := sha256.Sum256(all)
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("digest of the diagnostics is %s, want %s", got, want)
	}
}

// TestDiagnoser: the diagnostics of states as they come are those of each pair of them, bit for
// bit, on every instruction set, whatever they hold, and after an interruption.
func TestDiagnoser(t *testing.T) {
	was := asm.ISA()
	t.Cleanup(func() { asm.Use(was) })
	r := rand.New(rand.NewPCG(8, 1))
	for _, n := range []int{1, 2, 3, 4, 5, 12, 1023, 3 * together / 2} {
		states := make([][]float64, 30)
		for i := range states {
			states[i] = numbers(r, n, 1)
			switch at := r.IntN(n); i % 10 {
			case 3:
				states[i][at] = math.NaN()
			case 5:
				states[i][at] = math.Inf(1)
			case 7:
				states[i][at] = math.MaxFloat64
			case 8:
				states[i] = make([]float64, n)
			case 9:
				states[i][at] = math.Copysign(0, -1)
			}
		}
		var want [][len(DiagnosticNames)]float64
		for _, isa := range append([]string{"purego"}, asm.ISAs()...) {
			if err := asm.Use(isa); err != nil {
				t.Fatal(err)
			}
			var d diagnoser
			for i, x := range states {
				if i == 20 {
					d = nil
				}
				var prev []float64
				if i > 0 {
					prev = states[i-1]
				}
				got := d.values(i, 3, x, prev)
				if isa == "purego" && len(want) == i {
					want = append(want, Diagnose(x, prev).Values())
				}
				for k, v := range got {
					if math.Float64bits(v) != math.Float64bits(want[i][k]) {
						t.Errorf("%s, n = %d, state %d: %s is %v, want %v", isa, n, i, DiagnosticNames[k], v, want[i][k])
					}
				}
			}
		}
	}
}

// TestDiagnosticsOfTwo: states that are taken two at a time have the diagnostics that each has
// alone, on every instruction set, whatever numbers they hold.
func TestDiagnosticsOfTwo(t *testing.T) {
	was := asm.ISA()
	t.Cleanup(func() { asm.Use(was) })
	r := rand.New(rand.NewPCG(8, 2))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 3, 4, 7, 1000, together + 6} {
			var d diagnoser
			var prev [2][]float64
			for step := range 12 {
				var x [2][]float64
				for i := range x {
					x[i] = numbers(r, n, 1)
					if at := r.IntN(n); step%4 == 1+i {
						x[i][at] = []float64{math.NaN(), math.Inf(-1), math.Copysign(0, -1)}[r.IntN(3)]
					}
				}
				if step%5 != 3 { // sometimes they are not told of
					d.take(2, step, 4, x, prev)
				}
				for i := range x {
					got, want := d.values(step, 4+i, x[i], prev[i]), Diagnose(x[i], prev[i]).Values()
					for k, v := range got {
						if math.Float64bits(v) != math.Float64bits(want[k]) {
							t.Errorf("%s, n = %d, state %d of %d: %s is %v, want %v", isa, n, step, i, DiagnosticNames[k], v, want[k])
						}
					}
				}
				prev = x
			}
		}
	}
}

// counted returns the histogram of x over [lo,hi].
func counted(x []float64, lo, hi float64) (counts [bins]int, ok bool) {
	var h [2]histogram
	h[0].begin(lo, hi)
	all := [2][]float64{x}
	count(1, all, all, &h, new([2]moments), [2]float64{})
	return h[0].counts(), h[0].ok
}

// BenchmarkDiagnose measures the diagnostics of a step after a step.
func BenchmarkDiagnose(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	x, prev := numbers(r, 3*64*64, 1), numbers(r, 3*64*64, 1)
	was := [2]moments{momentsOf(prev)}
	b.SetBytes(int64(8 * len(x)))
	b.ReportAllocs()
	for b.Loop() {
		_, is := diagnose(1, [2][]float64{x}, [2][]float64{prev}, was)
		x, prev, was = prev, x, is
	}
}
