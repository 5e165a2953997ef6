package judge

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// TestLibraries: what PyTorch, JAX and ONNX Runtime returned of operations that they compute in forms of their own
// passes, and the form is found (interop/kernels/libraries.py --record). Without that form it does not.
func TestLibraries(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "libraries", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]struct {
		File, Op string
		Attrs    json.RawMessage
		Contract Contract
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	if len(index) < 14 {
		t.Errorf("%d recordings", len(index))
	}
	for name, c := range index {
		f, err := safetensors.Open(filepath.Join("testdata", "libraries", c.File))
		if err != nil {
			t.Fatal(err)
		}
		g, order, err := Kernel(c.Op, c.Attrs,
			slices.DeleteFunc(slices.Clone(f.Names()), func(n string) bool { return n == "output" }))
		if err != nil {
			t.Fatal(name, err)
		}
		q := Question{Graph: g, Output: readTensor(t, f, "output")}
		for _, n := range order {
			q.Inputs = append(q.Inputs, readTensor(t, f, n))
		}
		r, err := Check(q)
		if err != nil || r.Verdict != Pass || !reflect.DeepEqual(r.Contract, c.Contract) {
			t.Errorf("%s: %+v %v: want PASS, %v", name, r, err, c.Contract)
		}
		q.Claimed = &Contract{}
		if r, err = Check(q); err != nil || (r.Verdict == Fail) != !reflect.DeepEqual(c.Contract, Contract{}) {
			t.Errorf("%s without its form: %s %v", name, r.Verdict, err)
		}
	}
}

// normed is an instance norm of bfloat16 numbers as a kernel computes it that rounds some of its statistics.
func normed(t *testing.T, mean, rstd bool) Question {
	r := rand.New(rand.NewPCG(5, 6))
	const n, size = 6, 110
	x, y := tensor.New(fp16.BFloat16, 1, n, size), tensor.New(fp16.BFloat16, 1, n, size)
	round := fp16.BFloat16.Round
	for c := range n {
		var s, v float64
		shift, part := r.NormFloat64(), x.Data[c*size:(c+1)*size]
		for i := range part {
			part[i] = round(r.NormFloat64() + shift)
			s += part[i] / size
		}
		for _, a := range part {
			v += (a - s) * (a - s) / size
		}
		d := 1 / math.Sqrt(v+1e-5)
		if mean {
			s = round(s)
		}
		if rstd {
			d = round(d)
		}
		for i, a := range part {
			y.Data[c*size+i] = round(float64(float32((a - s) * d)))
		}
	}
	g, _, err := Kernel("instance_norm", []byte(`{"eps":1e-5}`), []string{"input"})
	if err != nil {
		t.Fatal(err)
	}
	return Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y}
}

// TestStatistics: a library keeps a norm's mean and deviation in bfloat16, both or none. Who rounds one has a fault.
func TestStatistics(t *testing.T) {
	for _, c := range []struct {
		mean, rstd bool
		want       string
		fault      string
	}{
		{false, false, Pass, ""},
		{true, true, Pass, ""},
		{true, false, Fail, "the step mean is rounded to bfloat16"},
		{false, true, Fail, "the step rstd is rounded to bfloat16"},
	} {
		r, err := Check(normed(t, c.mean, c.rstd))
		if err != nil || r.Verdict != c.want || r.Fault != c.fault {
			t.Errorf("%+v: %+v %v", c, r, err)
		}
	}
}

// TestFlips: right attentions with operands in TF32 pass, also where a probability that is next to an edge between
// two roundings goes to the other side, by which all results of its row are off far more than others are.
func TestFlips(t *testing.T) {
	g, _, err := Kernel("scaled_dot_product_attention", nil, []string{"query", "key", "value"})
	if err != nil {
		t.Fatal(err)
	}
	flips := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 8))
		q := Question{Graph: g, Claimed: &Contract{Form: Form{Operands: "tf32"}}, Output: tensor.New(fp16.Float32, 1, 12, 16)}
		for range 3 {
			x := tensor.New(fp16.Float32, 1, 12, 16)
			for i := range x.Data {
				x.Data[i] = float64(float32(r.NormFloat64()))
			}
			q.Inputs = append(q.Inputs, x)
		}
		for row := range 12 {
			out, flip := attend(q.Inputs, row)
			copy(q.Output.Data[row*16:], out)
			if flip {
				flips++
			}
		}
		a, err := Check(q)
		if err != nil || a.Verdict != Pass {
			t.Errorf("seed %d: %+v %v", seed, a, err)
		}
	}
	if flips == 0 {
		t.Error("no probability is next to an edge")
	}
}

// attend is one row of an attention in float32, with operands in TF32, and whether it rounds a probability otherwise
// than exact arithmetic.
func attend(in []*tensor.Tensor, row int) ([]float64, bool) {
	cut := func(v float64) float64 { return fp16.RoundTF32(v, fp16.NearestEven) }
	var p [12]float64
	var e [12]float32
	var sum float32
	total := 0.0
	for k := range p {
		s, exact := float32(0), 0.0
		for j := 15; j >= 0; j-- {
			a := cut(in[0].Data[row*16+j]) * cut(in[1].Data[k*16+j])
			s += float32(a)
			exact += a
		}
		e[k] = float32(math.Exp(float64(s * .25)))
		p[k] = math.Exp(exact * .25)
		sum += e[k]
		total += p[k]
	}
	out, flip := make([]float64, 16), false
	for j := range out {
		var s float32
		for k := range p {
			a := cut(float64(e[k] / sum))
			flip = flip || a != cut(p[k]/total)
			s += float32(a * cut(in[2].Data[k*16+j]))
		}
		out[j] = float64(s)
	}
	return out, flip
}
