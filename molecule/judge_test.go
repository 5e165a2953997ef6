package molecule

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

var molecules = flag.Int("molecules", 6, "random molecules of each network whose forces are compared with exact ones")

// The judge evaluates networks once more by another method: loops over atoms and pairs on numbers of
// 128 bits, each with its derivatives by all positions (forward mode). It shares no code with graphs,
// operations and gradients.

const bits = 128

// jet is a number and its derivatives by all positions.
type jet []*big.Float

// judge is the arithmetic of jets of n derivatives.
type judge struct{ n int }

func zeroF() *big.Float { return new(big.Float).SetPrec(bits) }

func (j judge) constant(v float64) jet {
	y := make(jet, j.n+1)
	for i := range y {
		y[i] = zeroF()
	}
	y[0].SetFloat64(v)
	return y
}

func (j judge) add(a, b jet) jet {
	y := make(jet, j.n+1)
	for i := range y {
		y[i] = zeroF().Add(a[i], b[i])
	}
	return y
}

func (j judge) sub(a, b jet) jet {
	y := make(jet, j.n+1)
	for i := range y {
		y[i] = zeroF().Sub(a[i], b[i])
	}
	return y
}

func (j judge) mul(a, b jet) jet { // (a b)' = a' b + a b'
	y := make(jet, j.n+1)
	y[0] = zeroF().Mul(a[0], b[0])
	t := zeroF()
	for i := 1; i <= j.n; i++ {
		y[i] = zeroF().Mul(a[i], b[0])
		y[i].Add(y[i], t.Mul(a[0], b[i]))
	}
	return y
}

// scaled is a number times a jet.
func (j judge) scaled(c *big.Float, a jet) jet {
	y := make(jet, j.n+1)
	for i := range y {
		y[i] = zeroF().Mul(a[i], c)
	}
	return y
}

// of is f(a) by the value of f and of its derivative.
func (j judge) of(a jet, value, slope *big.Float) jet {
	y := j.scaled(slope, a)
	y[0] = value
	return y
}

func (j judge) reciprocal(a jet) jet {
	v := zeroF().Quo(zeroF().SetInt64(1), a[0])
	s := zeroF().Mul(v, v)
	return j.of(a, v, s.Neg(s))
}

func (j judge) sqrt(a jet) jet {
	v := zeroF().Sqrt(a[0])
	return j.of(a, v, zeroF().Quo(zeroF().SetFloat64(0.5), v))
}

func (j judge) sin(a jet) jet { return j.of(a, bigref.Sin(a[0], bits), bigref.Cos(a[0], bits)) }

func (j judge) cos(a jet) jet {
	s := bigref.Sin(a[0], bits)
	return j.of(a, bigref.Cos(a[0], bits), s.Neg(s))
}

func (j judge) exp(a jet) jet {
	v := bigref.Exp(a[0], bits)
	return j.of(a, v, v)
}

// sigmoid is 1/(1 + e^-a).
func (j judge) sigmoid(a jet) jet {
	return j.reciprocal(j.add(j.constant(1), j.exp(j.scaled(zeroF().SetInt64(-1), a))))
}

func (j judge) silu(a jet) jet { return j.mul(a, j.sigmoid(a)) }

// softplus is ln(1 + e^a).
func (j judge) shiftedSoftplus(a jet) jet {
	one := zeroF().SetInt64(1)
	e := bigref.Exp(a[0], bits)
	v := bigref.Log(zeroF().Add(one, e), bits)
	v.Sub(v, bigref.Log(zeroF().SetInt64(2), bits))
	return j.of(a, v, zeroF().Quo(e, zeroF().Add(one, e)))
}

// judged is a network for the judge: its weights and its sizes.
type judged struct {
	judge
	w map[string][]float64
	c Config
	s Sizes
}

// linear is a linear layer [out,in] of one vector; a bias if there is one.
func (n *judged) linear(name string, x []jet) []jet {
	w, bias := n.w[name+".weight"], n.w[name+".bias"]
	out := make([]jet, len(w)/len(x))
	t := zeroF()
	c := zeroF()
	for o := range out {
		y := n.constant(0)
		if bias != nil {
			y[0].SetFloat64(bias[o])
		}
		for i := range x {
			c.SetFloat64(w[o*len(x)+i])
			for k := range y {
				y[k].Add(y[k], t.Mul(c, x[i][k]))
			}
		}
		out[o] = y
	}
	return out
}

func (n *judged) each(f func(jet) jet, x []jet) (y []jet) {
	for _, v := range x {
		y = append(y, f(v))
	}
	return y
}

func (n *judged) mlp(name string, x []jet) []jet {
	return n.linear(name+".2", n.each(n.silu, n.linear(name+".0", x)))
}

// pair is what a network sees of i, which receives from j.
type pair struct {
	i, j   int
	d, fc  jet
	u      [3]jet
	radial []jet
}

// pairs finds them by exact distances, and their radial functions.
func (n *judged) pairs(x *Molecule) (all []pair) {
	at := make([][3]jet, len(x.Numbers))
	for i := range at {
		for c := range 3 {
			at[i][c] = n.constant(x.Positions[3*i+c])
			at[i][c][1+3*i+c].SetInt64(1)
		}
	}
	pi, rc := bigref.Pi(bits), zeroF().SetFloat64(n.c.Cutoff)
	for i := range at {
		for j := range at {
			if i == j {
				continue
			}
			p := pair{i: i, j: j}
			square := n.constant(0)
			for c := range 3 {
				p.u[c] = n.sub(at[j][c], at[i][c])
				square = n.add(square, n.mul(p.u[c], p.u[c]))
			}
			p.d = n.sqrt(square)
			if p.d[0].Cmp(rc) >= 0 {
				continue
			}
			one := p.d
			if n.c.Kind == PaiNNFilter {
				one = n.add(one, n.constant(float64(1e-8)))
			}
			one = n.reciprocal(one)
			for c := range 3 {
				p.u[c] = n.mul(p.u[c], one)
			}
			wave := n.cos(n.scaled(zeroF().Quo(pi, rc), p.d))
			p.fc = n.scaled(zeroF().SetFloat64(0.5), n.add(wave, n.constant(1)))
			p.radial = n.radial(p.d, pi, rc)
			all = append(all, p)
		}
	}
	return all
}

func (n *judged) radial(d jet, pi, rc *big.Float) (of []jet) {
	for r := range n.s.Radial {
		if n.c.Kind == PaiNN {
			k := zeroF().Quo(zeroF().Mul(pi, zeroF().SetInt64(int64(r+1))), rc)
			of = append(of, n.mul(n.sin(n.scaled(k, d)), n.reciprocal(d)))
			continue
		}
		var away jet
		c := zeroF()
		if n.c.Kind == PaiNNFilter {
			away = n.sub(d, n.constant(n.w["rbf.centers"][r]))
			w := zeroF().SetFloat64(n.w["rbf.widths"][r])
			c.Quo(zeroF().SetInt64(-1), w.Mul(w, w))
		} else {
			o := n.w["distance_expansion.offset"]
			away = n.sub(d, n.constant(o[r]))
			w := zeroF().Sub(zeroF().SetFloat64(o[1]), zeroF().SetFloat64(o[0]))
			c.Quo(zeroF().SetFloat64(-0.5), w.Mul(w, w))
		}
		of = append(of, n.exp(n.scaled(c, n.mul(away, away))))
	}
	return of
}

// energy is the sum over all atoms.
func (n *judged) energy(x *Molecule) jet {
	pairs := n.pairs(x)
	h := n.s.Hidden
	q := make([][]jet, len(x.Numbers))
	v := make([][3][]jet, len(q))
	for i, z := range x.Numbers {
		for k := range h {
			q[i] = append(q[i], n.constant(n.w["embedding.weight"][z*h+k]))
			for c := range 3 {
				v[i][c] = append(v[i][c], n.constant(0))
			}
		}
	}
	for l := range n.s.Layers {
		switch n.c.Kind {
		case PaiNN:
			n.painn(l, q, v, pairs)
		case PaiNNFilter:
			n.filter(l, q, v, pairs)
		default:
			n.schnet(l, q, pairs)
		}
	}
	total := n.constant(0)
	for i := range q {
		var e []jet
		switch n.c.Kind {
		case PaiNN:
			e = n.mlp("readout", q[i])
		case PaiNNFilter:
			e = n.linear("energy_head.4", n.each(n.silu, n.mlp("energy_head", q[i])))
		default:
			e = n.linear("lin2", n.each(n.shiftedSoftplus, n.linear("lin1", q[i])))
		}
		total = n.add(total, e[0])
	}
	return total
}

// painn is one layer.
func (n *judged) painn(l int, q [][]jet, v [][3][]jet, pairs []pair) {
	h := n.s.Hidden
	sends := make([][]jet, len(q))
	for i := range q {
		sends[i] = n.mlp(fmt.Sprintf("message.%d", l), q[i])
	}
	old := make([][3][]jet, len(v))
	for i := range v {
		for c := range 3 {
			old[i][c] = append([]jet{}, v[i][c]...)
		}
		q[i] = append([]jet{}, q[i]...)
	}
	for _, p := range pairs {
		f := n.linear(fmt.Sprintf("filters.%d", l), p.radial)
		for k := range f {
			f[k] = n.mul(n.mul(f[k], p.fc), sends[p.j][k])
		}
		for k := range h {
			q[p.i][k] = n.add(q[p.i][k], f[k])
			for c := range 3 {
				along := n.add(n.mul(p.u[c], f[h+k]), n.mul(old[p.j][c][k], f[2*h+k]))
				v[p.i][c][k] = n.add(v[p.i][c][k], along)
			}
		}
	}
	for i := range q {
		var mixed [3][]jet
		for c := range 3 {
			mixed[c] = n.linear(fmt.Sprintf("mix.%d", l), v[i][c])
		}
		in := append([]jet{}, q[i]...)
		dots := make([]jet, h)
		for k := range h {
			square := n.constant(0)
			square[0].SetFloat64(1e-8)
			dots[k] = n.constant(0)
			for c := range 3 {
				square = n.add(square, n.mul(mixed[c][k], mixed[c][k]))
				dots[k] = n.add(dots[k], n.mul(mixed[c][k], mixed[c][h+k]))
			}
			in = append(in, n.sqrt(square))
		}
		abc := n.mlp(fmt.Sprintf("update.%d", l), in)
		for k := range h {
			for c := range 3 {
				v[i][c][k] = n.add(v[i][c][k], n.mul(mixed[c][h+k], abc[k]))
			}
			q[i][k] = n.add(q[i][k], n.add(abc[h+k], n.mul(abc[2*h+k], dots[k])))
		}
	}
}

// filter is one layer of the student's form.
func (n *judged) filter(l int, q [][]jet, v [][3][]jet, pairs []pair) {
	h := n.s.Hidden
	at := fmt.Sprintf("interactions.%d.", l)
	oldQ, oldV := make([][]jet, len(q)), make([][3][]jet, len(v))
	for i := range q {
		oldQ[i] = append([]jet{}, q[i]...)
		for c := range 3 {
			oldV[i][c] = append([]jet{}, v[i][c]...)
		}
	}
	for _, p := range pairs {
		r := n.each(func(x jet) jet { return n.mul(x, p.fc) }, p.radial)
		f := n.mlp(at+"message.rbf_to_scalar", r)
		for k := range h {
			q[p.i][k] = n.add(q[p.i][k], n.mul(oldQ[p.j][k], f[k]))
			for c := range 3 {
				v[p.i][c][k] = n.add(v[p.i][c][k], n.add(n.mul(oldV[p.j][c][k], f[h+k]), n.mul(p.u[c], f[2*h+k])))
			}
		}
	}
	mix := n.w[at+"update.mixing_matrix"]
	for i := range q {
		in := append([]jet{}, q[i]...)
		for k := range h {
			square := n.constant(0)
			for c := range 3 {
				square = n.add(square, n.mul(v[i][c][k], v[i][c][k]))
			}
			in = append(in, n.sqrt(square))
		}
		abc := n.mlp(at+"update.update_mlp", in)
		for k := range h {
			q[i][k] = n.add(q[i][k], abc[k])
			var mixed [3]jet
			for c := range 3 {
				mixed[c] = n.constant(0)
				for e := range 3 {
					mixed[c] = n.add(mixed[c], n.mul(n.constant(mix[3*c+e]), v[i][e][k]))
				}
			}
			for c := range 3 {
				v[i][c][k] = n.add(n.mul(v[i][c][k], abc[h+k]), n.mul(mixed[c], abc[2*h+k]))
			}
		}
	}
}

// schnet is one layer.
func (n *judged) schnet(l int, q [][]jet, pairs []pair) {
	at := fmt.Sprintf("interactions.%d.", l)
	width := len(n.w[at+"conv.lin1.weight"]) / n.s.Hidden
	sends, sums := make([][]jet, len(q)), make([][]jet, len(q))
	for i := range q {
		sends[i] = n.linear(at+"conv.lin1", q[i])
		for range width {
			sums[i] = append(sums[i], n.constant(0))
		}
	}
	for _, p := range pairs {
		f := n.linear(at+"mlp.2", n.each(n.shiftedSoftplus, n.linear(at+"mlp.0", p.radial)))
		for k := range f {
			sums[p.i][k] = n.add(sums[p.i][k], n.mul(n.mul(f[k], p.fc), sends[p.j][k]))
		}
	}
	for i := range q {
		y := n.linear(at+"lin", n.each(n.shiftedSoftplus, n.linear(at+"conv.lin2", sums[i])))
		for k := range y {
			q[i][k] = n.add(q[i][k], y[k])
		}
	}
}

// randomNetwork returns a network of random weights, and the same for the judge.
func randomNetwork(t *testing.T, kind Kind, r *rand.Rand) (*Model, *judged) {
	t.Helper()
	s := Sizes{Elements: 10, Hidden: 6, Radial: 4, Layers: 2}
	c := Config{kind, 3 + 2*r.Float64()}
	shapes := s.Weights(kind)
	n := &judged{w: map[string][]float64{}, c: c, s: s}
	var file []*safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		shape := shapes[name]
		v := make([]float64, tensor.Size(shape))
		scale := 1 / math.Sqrt(float64(shape[len(shape)-1]))
		for i := range v {
			switch name {
			case "rbf.centers", "distance_expansion.offset":
				v[i] = float64(float32(c.Cutoff / 4 * float64(i)))
			case "rbf.widths":
				v[i] = 0.5 + 0.125*float64(i)
			default:
				v[i] = float64(float32(scale * r.NormFloat64()))
			}
		}
		n.w[name] = v
		w, err := safetensors.OfFloat64s(name, safetensors.F32, shape, v)
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, w)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, file, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Parse("random", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(c, s, f)
	if err != nil {
		t.Fatal(err)
	}
	return m, n
}

// randomMolecule returns 2 to 6 atoms, no two of them nearer than 0.7.
func randomMolecule(r *rand.Rand) *Molecule {
	m := new(Molecule)
	for atoms := 2 + r.IntN(5); len(m.Numbers) < atoms; {
		x := [3]float64{2.5 * r.Float64(), 2.5 * r.Float64(), 2.5 * r.Float64()}
		near := Neighbours(append(append([]float64{}, m.Positions...), x[:]...), 0.7, true)
		if len(near.I) == 0 {
			m.Numbers, m.Positions = append(m.Numbers, 1+r.IntN(9)), append(m.Positions, x[:]...)
		}
	}
	return m
}

// TestExact: energies and forces in float64 are within 1e-12 of the largest of exact arithmetic's. Where the
// forces of atoms all but cancel, the positions themselves do not say them to 1e-12: the exact forces of
// positions of which each is the next float64 number differ by more. There the error is below that difference.
func TestExact(t *testing.T) {
	type answer struct {
		molecule *Molecule
		result   *Result
		judge    *judged
	}
	for _, kind := range []Kind{PaiNN, PaiNNFilter, SchNet} {
		t.Run(string(kind), func(t *testing.T) {
			r := rand.New(rand.NewPCG(23, 5))
			var all []answer
			for range *molecules {
				m, n := randomNetwork(t, kind, r)
				x := randomMolecule(r)
				all = append(all, answer{x, evaluate(t, m, "float64", m.Batch(x)), n})
			}
			worst := make([][2]float64, len(all))
			var wait sync.WaitGroup
			slots := make(chan bool, 2)
			for k, a := range all {
				wait.Add(1)
				slots <- true
				go func() {
					defer func() { <-slots; wait.Done() }()
					a.judge.n = len(a.molecule.Positions)
					worst[k] = compareExact(a.result, a.judge.energy(a.molecule))
				}()
			}
			wait.Wait()
			var most [2]float64
			for k, w := range worst {
				most = [2]float64{max(most[0], w[0]), max(most[1], w[1])}
				if w[0] <= 1e-12 && w[1] <= 1e-12 {
					continue
				}
				next := all[k].judge.nextPositions(all[k].molecule)
				line := fmt.Sprintf("molecule %d, %v: energy %.3g, forces %.3g of the largest; "+
					"the next positions' exact forces differ by %.3g", k, all[k].molecule.Numbers, w[0], w[1], next)
				if t.Log(line); !(w[0] <= 1e-12 && next > 1e-12 && w[1] <= next) {
					t.Error("which is not the last place of the positions")
				}
			}
			t.Logf("%d molecules: energies within %.3g of their size, forces within %.3g of the largest", len(all),
				most[0], most[1])
		})
	}
}

// nextPositions returns by how much the exact forces change if each position becomes the next float64 number,
// one after the other and added up, relative to the largest component.
func (n *judged) nextPositions(m *Molecule) (sum float64) {
	at, largest := n.energy(m), 0.0
	for _, f := range at[1:] {
		v, _ := f.Float64()
		largest = max(largest, math.Abs(v))
	}
	for i, old := range m.Positions {
		m.Positions[i] = math.Nextafter(old, math.Inf(1))
		most := 0.0
		for k, f := range n.energy(m)[1:] {
			d, _ := zeroF().Sub(f, at[1+k]).Float64()
			most = max(most, math.Abs(d))
		}
		m.Positions[i], sum = old, sum+most/largest
	}
	return sum
}

// compareExact returns the error of the energy, relative to the largest of atoms', and that of the
// forces, relative to the largest component.
func compareExact(got *Result, want jet) (worst [2]float64) {
	off := func(x float64, of *big.Float) float64 {
		d, _ := zeroF().Sub(zeroF().SetFloat64(x), of).Float64()
		return math.Abs(d)
	}
	size := 0.0
	for _, e := range got.AtomEnergies {
		size = max(size, math.Abs(e))
	}
	worst[0] = off(got.Energies[0], want[0]) / size
	largest, d := 0.0, 0.0
	for i, f := range got.Forces {
		w, _ := want[1+i].Float64()
		largest = max(largest, math.Abs(w))
		d = max(d, off(-f, want[1+i]))
	}
	if worst[1] = d; largest > 0 { // atoms may have no neighbours
		worst[1] /= largest
	}
	return worst
}
