package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// flushed32 is a float32 number as units have it that flush, or not.
func flushed32(v float64, flushes bool) float64 {
	v = float64(float32(v))
	if flushes && math.Abs(v) < 0x1p-126 {
		return 0
	}
	return v
}

// TestSubnormal: functions of numbers of which some are subnormal, or have subnormal results, pass as kernels have
// them that flush and that do not; and a wrong function fails, or these numbers show nothing.
func TestSubnormal(t *testing.T) {
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	elu := func(x float64) float64 {
		if x > 0 {
			return x
		}
		return math.Expm1(x)
	}
	for _, of := range []struct {
		op           string
		right, wrong func(x float64) float64
	}{
		{"elu", elu, func(x float64) float64 { return 1.03 * elu(x) }},
		{"elu", elu, func(x float64) float64 { return max(x, 0) }},
		{"silu", silu, func(x float64) float64 { return x / (1 + math.Exp(-1.03*x)) }},
		{"exp", math.Exp, func(x float64) float64 { return math.Exp(x + .03) }},
		{"relu", func(x float64) float64 { return max(x, 0) }, math.Abs},
		{"tanh", math.Tanh, func(x float64) float64 { return 1.03 * math.Tanh(x) }},
	} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			for i, scale := range []float64{0x1p-130, 0x1p-126, 1} { // of some of the rows
				for k, shift := range []float64{0, -88} {
					if !share.All() && (i+k+int(f))%2 > 0 { // in the other format
						continue
					}
					r := rand.New(rand.NewPCG(uint64(i), uint64(len(of.op))))
					x := tensor.New(f, 8, 40)
					for i := range x.Data {
						if x.Data[i] = r.NormFloat64()*scale + shift; i%3 == 0 {
							x.Data[i] = 2 * r.NormFloat64()
						}
					}
					f.RoundSlice(x.Data, x.Data)
					for _, flushes := range []bool{false, true} {
						ask := func(function func(x float64) float64) *Report {
							y := tensor.New(f, x.Shape...)
							for i, v := range x.Data {
								y.Data[i] = f.Round(flushed32(function(flushed32(v, flushes)), flushes))
							}
							g, _, err := Kernel(of.op, nil, []string{"input"})
							if err != nil {
								t.Fatal(err)
							}
							a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
							if err != nil {
								t.Fatal(err)
							}
							return a
						}
						if a := ask(of.right); a.Verdict != Pass {
							t.Errorf("%s %v, %v from %v, flushed %v: %+v", of.op, f, scale, shift, flushes, a)
						}
						if a := ask(of.wrong); a.Verdict != Fail {
							t.Errorf("wrong %s %v, %v from %v, flushed %v: %+v", of.op, f, scale, shift, flushes, a)
						}
					}
				}
			}
		}
	}
}

// TestSubnormalAttention: an attention whose values, or whose queries, are subnormal numbers and others passes, flushed
// or not, and with a scale that is missing it fails.
func TestSubnormalAttention(t *testing.T) {
	const l, s, e = 16, 24, 8
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		for _, flushes := range []bool{false, true} {
			for n, small := range []float64{0x1p-130, 0x1p-126, 0x1p-122} {
				r := rand.New(rand.NewPCG(uint64(n), 5))
				q, k, v := drawn(r, f, 1, l, e), drawn(r, f, 1, s, e), drawn(r, f, 1, s, e)
				for i := range v.Data {
					if i%e < e/2 {
						v.Data[i] = f.Round(v.Data[i] * small)
					}
				}
				ask := func(scale float64) *Report {
					y := tensor.New(f, 1, l, e)
					for i := range l {
						attendRow(q.Data[i*e:(i+1)*e], k.Data, v.Data, y.Data[i*e:(i+1)*e], scale, flushes)
					}
					f.RoundSlice(y.Data, y.Data)
					g, _, err := Kernel("scaled_dot_product_attention", nil, []string{"query", "key", "value"})
					if err != nil {
						t.Fatal(err)
					}
					a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{q, k, v}, Output: y})
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				if a := ask(1 / math.Sqrt(e)); a.Verdict != Pass {
					t.Errorf("%v, values of %v, flushed %v: %+v", f, small, flushes, a)
				}
				if a := ask(1); a.Verdict != Fail {
					t.Errorf("%v, values of %v, flushed %v, not scaled: %+v", f, small, flushes, a)
				}
			}
		}
	}
}

// attendRow is one query of an attention, in float32.
func attendRow(q, k, v, y []float64, scale float64, flushes bool) {
	at := func(v float64) float64 { return flushed32(v, flushes) }
	e, s := len(q), len(k)/len(q)
	p, most, sum := make([]float64, s), math.Inf(-1), 0.0
	for j := range p {
		for i := range q {
			p[j] = at(p[j] + at(at(q[i])*at(k[j*e+i])))
		}
		p[j] = at(p[j] * at(scale))
		most = max(most, p[j])
	}
	for j := range p {
		p[j] = at(math.Exp(at(p[j] - most)))
		sum = at(sum + p[j])
	}
	for i := range y {
		y[i] = 0
		for j := range p {
			y[i] = at(y[i] + at(at(p[j]/sum)*at(v[j*e+i])))
		}
	}
}

// TestKeptNumbers: an output whose subnormal results are there shows that its units flush none, and a row of the other
// sign is then no flush.
func TestKeptNumbers(t *testing.T) {
	g, _, err := Kernel("mul", nil, []string{"input", "other"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		for _, scale := range []float64{0x1p-130, 0x1p-128} {
			r := rand.New(rand.NewPCG(9, uint64(f)))
			x := drawn(r, f, 22, 43)
			for i := range x.Data[:21*43] { // that of the last row shows something
				x.Data[i] = f.Round(x.Data[i] * scale)
			}
			for _, of := range []struct {
				row    float64 // what one row is times
				rest   float64 // and the rest
				passes bool
			}{{2, 2, true}, {-2, 2, false}, {0, 0, true}} {
				out := tensor.New(f, x.Shape...)
				for i, v := range x.Data {
					switch y := 2 * v; {
					case i/43 == 1:
						out.Data[i] = f.Round(of.row * v)
					case subnormal(v), subnormal(y):
						out.Data[i] = f.Round(of.rest * v)
					default:
						out.Data[i] = y
					}
				}
				two := tensor.Of(f, []float64{2}, 1)
				a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x, two}, Output: out})
				if err != nil || (a.Verdict == Pass) != of.passes {
					t.Errorf("%v, %v: times %v and %v: %+v, %v", f, scale, of.row, of.rest, a, err)
				}
			}
		}
	}
}

// TestKeptElsewhere: an output whose results are subnormal, but those of no kernel, shows that its units flush none, so
// that a part in a thousand of their mean is seen.
func TestKeptElsewhere(t *testing.T) {
	for _, op := range []string{"elu", "silu", "relu"} {
		g, _, err := Kernel(op, nil, []string{"input"})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(9, 10))
		x := drawn(r, fp16.Float32, 13, 56)
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(math.Abs(x.Data[i]) * 0x1p-128)
		}
		for _, off := range []float64{0, 0x1p-138} {
			out := tensor.New(fp16.Float32, x.Shape...)
			for i, v := range x.Data {
				if op == "silu" {
					v /= 2
				}
				out.Data[i] = fp16.Float32.Round(v + off*(float64(i%56)/28-1.01))
			}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: out})
			if err != nil || (a.Verdict == Pass) != (off == 0) {
				t.Errorf("%s, off by %v: %+v, %v", op, off, a, err)
			}
		}
	}
}

// TestPartlyFlushed: a row of zeros among numbers that are subnormal, or not much larger, does not pass as flushed
// where other rows are not. (A tanh by exp is 0 there.)
func TestPartlyFlushed(t *testing.T) {
	for _, op := range []string{"gelu", "silu", "elu", "relu"} {
		for seed, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			for _, scale := range []float64{0x1p-129, 0x1p-126, 0x1p-125} {
				r := rand.New(rand.NewPCG(uint64(seed), 5))
				x := drawn(r, f, 20, 60)
				for i := range x.Data[:19*60] { // that of the last row shows something
					x.Data[i] = f.Round(x.Data[i] * scale)
				}
				g, _, err := Kernel(op, nil, []string{"input"})
				if err != nil {
					t.Fatal(err)
				}
				right, err := apply(g.Nodes[0].Op, x)
				if err != nil {
					t.Fatal(err)
				}
				for _, zeros := range []int{0, 60} {
					out := tensor.New(f, x.Shape...)
					f.RoundSlice(out.Data, right[0].Data)
					clear(out.Data[5*60 : 5*60+zeros])
					a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: out})
					if err != nil || (a.Verdict == Pass) != (zeros == 0) {
						t.Errorf("%s of %v, %v, %d zeros: %+v, %v", op, f, scale, zeros, a, err)
					}
				}
			}
		}
	}
}

// TestLeastPowers: e^x may be 0 below 2^-125.5, and not above.
func TestLeastPowers(t *testing.T) {
	for _, c := range []struct {
		power float64
		want  string
	}{{-125.6, Pass}, {-125.2, Fail}} {
		x, y := tensor.New(fp16.Float32, 8, 40), tensor.New(fp16.Float32, 8, 40)
		r := rand.New(rand.NewPCG(125, 126))
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(20 * r.Float64())
		}
		for row := range 8 {
			in, out := x.Data[40*row:][:40], y.Data[40*row:][:40]
			most := slices.Max(in)
			in[3] = fp16.Float32.Round(most + (c.power+.05*r.Float64())*math.Ln2)
			sum := 0.
			for _, v := range in {
				sum += elem.Exp(v - most)
			}
			for i, v := range in {
				out[i] = fp16.Float32.Round(elem.Exp(v-most) / sum)
			}
			out[3] = 0
		}
		if a := ask(t, "softmax", `{"dim":-1}`, x, y); a.Verdict != c.want {
			t.Errorf("0 for 2^%v: %s, %s", c.power, a.Verdict, a.Reason)
		}
	}
}

// TestLastPlaces: a function of subnormal numbers may be off by their last place, as PyTorch's log1p is of half of
// them, and not by two.
func TestLastPlaces(t *testing.T) {
	for places, want := range map[float64]string{1: Pass, 2: Fail} {
		x, y := tensor.New(fp16.Float32, 8, 40), tensor.New(fp16.Float32, 8, 40)
		r := rand.New(rand.NewPCG(25, 26))
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(1e-39 * r.NormFloat64())
			y.Data[i] = x.Data[i] - float64(i%2)*places*fp16.Float32.Smallest()
		}
		if a := ask(t, "log1p", "{}", x, y); a.Verdict != want {
			t.Errorf("%v places: %s, %s, want %s", places, a.Verdict, a.Reason, want)
		}
	}
}
