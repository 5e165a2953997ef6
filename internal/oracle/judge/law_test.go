package judge

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

var lawDevices = flag.Int("judge.devices", 40, "right devices that the law is held to, of each kernel")

// TestLawOfRightDevices: right devices of the simulation itself, each held to the law that others of them make, fail
// with no more than the stated chance, and for each way to divide an output low chances are no more frequent than they
// say, by Kolmogorov's and Smirnov's one-sided test. Devices with errors of four times the size are not right.
func TestLawOfRightDevices(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(47, 3))
	for _, c := range []struct {
		op, attributes string
		f              fp16.Format
		shapes         [][]int
		round          []string
	}{
		{"layer_norm", `{"normalized_shape":[96]}`, fp16.Float32, [][]int{{12, 96}}, nil},
		{"instance_norm", `{}`, fp16.Float32, [][]int{{2, 8, 6, 6}}, nil},
		{"softmax", `{"dim":1}`, fp16.BFloat16, [][]int{{8, 64}}, []string{"shifted"}},
		{"softmax", `{"dim":1}`, fp16.Float32, [][]int{{20, 33}}, nil},
		{"matmul", `{}`, fp16.Float32, [][]int{{16, 80}, {80, 24}}, nil},
		{"mm", `{}`, fp16.Float16, [][]int{{16, 50}, {50, 24}}, nil},
		{"sum", `{"dim":[1]}`, fp16.Float32, [][]int{{64, 40}}, nil},
		{"gelu", `{}`, fp16.Float32, [][]int{{300}}, nil},
	} {
		var in []*tensor.Tensor
		for _, s := range c.shapes {
			in = append(in, drawn(r, c.f, s...))
		}
		names := []string{"input", map[string]string{"mm": "mat2"}[c.op]}
		if names[1] == "" {
			names[1] = "other"
		}
		g, _, err := Kernel(c.op, []byte(c.attributes), names[:len(in)])
		if err != nil {
			t.Fatal(err)
		}
		q := Question{Graph: g, Inputs: in}
		for _, times := range []float64{1, 4} {
			if times > 1 && c.f.Half() { // few of whose errors are seen in what they store
				continue
			}
			chances, failed := heldToOthers(t, q, c.f, c.round, times)
			if (failed > 0) != (times > 1) {
				t.Errorf("%s of %v: of errors times %v fail %d of %d", c.op, c.f, times, failed, *lawDevices)
			}
			for way, p := range chances {
				n := float64(len(p))
				if d := below(p); (d > math.Sqrt(-math.Log(1e-6)/(2*n))) && times == 1 {
					t.Errorf("%s of %v, %s: chances %.3v are lower than they say by %.2f", c.op, c.f, way, p, d)
				}
			}
		}
	}
}

// heldToOthers holds simulated devices, their errors times so much, to what 16 others show: the chances of what they
// have, by way, and how many fail.
func heldToOthers(
	t *testing.T, q Question, f fp16.Format, round []string, times float64,
) (chances map[string][]float64, failed int) {
	t.Helper()
	const others = 16
	types, err := q.types()
	if err != nil {
		t.Fatal(err)
	}
	out := types[q.Graph.Outputs[0]].Shape
	q.Output, q.whole, q.Narrow = tensor.New(f, out...), out, f
	all := &trial{Contract: Contract{Round: round}, b: expand(q.Graph, types, Form{}, built{})}
	values, err := all.b.values(round)
	if err != nil {
		t.Fatal(err)
	}
	all.round = all.b.rounds(values, f)
	if err := q.simulate(types, all, others+*lawDevices, false); err != nil {
		t.Fatal(err)
	}
	chances = map[string][]float64{}
	for _, device := range all.right[others:] {
		k := *all
		k.right, k.ways, k.stored = all.right[:others], ways{}, make([]float64, len(all.y))
		k.store(f, k.stored, k.y)
		for i, v := range device {
			q.Output.Data[i] = f.Round(k.stored[i] + times*(v-k.stored[i]))
		}
		k.expect(f)
		q.statistics(&k)
		if err := q.scales(types, &k); err != nil {
			t.Fatal(err)
		}
		if k.excess, _ = k.ways.excess(); k.excess > 1 {
			failed++
		}
		for way, w := range k.ways {
			chances[way] = append(chances[way], among(w.chance, w.count))
		}
	}
	return chances, failed
}

// below is by how much the share of chances up to p is more than p, at most.
func below(chances []float64) (most float64) {
	slices.Sort(chances)
	for i, p := range chances {
		most = max(most, float64(i+1)/float64(len(chances))-p)
	}
	return most
}

// TestStatedOdds: what fails says how it is known, and the chance of what passes is more than one in a million.
func TestStatedOdds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 9))
	x := drawn(r, fp16.Float32, 30, 40)
	right := tensor.New(fp16.Float32, 30, 40)
	for i, v := range x.Data {
		right.Data[i] = fp16.Float32.Round(math.Exp(v))
	}
	off := func(share float64) *tensor.Tensor { // of the bound
		y := right.Clone()
		for i, v := range y.Data {
			y.Data[i] = fp16.Float32.Round(v * (1 + share*float64(1-2*(i%2))*exponential(x.Data[i])))
		}
		return y
	}
	for _, c := range []struct {
		y     *tensor.Tensor
		known string
	}{{right, ""}, {off(.8), report.ByOdds}, {off(3), report.Proved}} {
		a, err := Check(question(t, "exp", "", c.y, x))
		if err != nil {
			t.Fatal(err)
		}
		if a.Known != c.known || (a.Verdict == Fail) != (c.known != "") || (a.Chance < falseAlarm) != (c.known != "") ||
			c.known == report.Proved && a.Chance != 0 {
			t.Errorf("%s: %q with a chance of %v: want %q", fmt.Sprint(a.Verdict), a.Known, a.Chance, c.known)
		}
	}
}
