package rollout

import (
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

// TestUpdate holds every policy against rational arithmetic, rounded where the
// contract rounds.
func TestUpdate(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	rn := func(v float64) float64 { return bigref.Round(bigref.Rat(v), fp16.Float32) }
	mul := func(a, b float64) float64 {
		x := bigref.Rat(a)
		return bigref.Round(x.Mul(x, bigref.Rat(b)), fp16.Float32)
	}
	plus := func(a, b float64) float64 {
		x := bigref.Rat(a)
		return bigref.Round(x.Add(x, bigref.Rat(b)), fp16.Float32)
	}
	x := tensor.Of(fp16.Float32, numbers(r, 4000, 1), 4, 1, 10, 100)
	o := tensor.Of(fp16.Float32, numbers(r, 4000, 100), 4, 1, 10, 100)
	for i := range 100 { // subnormal products and sums
		x.Data[i] = math.Ldexp(x.Data[i], -140)
		x.Data[i] = rn(x.Data[i])
		o.Data[i] = rn(math.Ldexp(o.Data[i], -140))
	}
	c := Config{Alpha: 0.1, Dt: 0.01} // 1-0.1 in double and rn(1)-rn(0.1) differ as float32
	for _, p := range []struct {
		policy Policy
		want   func(x, o float64) float64
	}{
		{Autoregressive, func(_, o float64) float64 { return o }},
		{Residual, func(x, o float64) float64 { return plus(x, mul(rn(0.01), o)) }},
		{Convex, func(x, o float64) float64 { return plus(mul(rn(0.1), x), mul(rn(1-c.Alpha), o)) }},
	} {
		c.Policy = p.policy
		next := tensor.Like(x)
		update(next, x, o, c, graph.Mode{Precision: fp16.Float32})
		for i := range x.Data {
			if want := p.want(x.Data[i], o.Data[i]); !same(next.Data[i], want) {
				t.Fatalf("%s: X %v, O %v gives %v, want %v", p.policy, x.Data[i], o.Data[i], next.Data[i], want)
			}
		}
	}
	// In float64 no constant is rounded to float32.
	c.Policy = Residual
	X, O, Y := tensor.New(fp16.Float64, 1, 1, 1, 1), tensor.New(fp16.Float64, 1, 1, 1, 1),
		tensor.New(fp16.Float64, 1, 1, 1, 1)
	O.Data[0] = 1
	update(Y, X, O, c, graph.Mode{Precision: fp16.Float64})
	if Y.Data[0] != 0.01 {
		t.Errorf("float64 residual step of 0.01 is %v", Y.Data[0])
	}
}

// TestHalfPolicies: the operator's share rounds to its own half type and is
// added to float32; constants are float32 numbers beside it, except on the CPU
// of PyTorch 1.13, where they are rounded as well.
func TestHalfPolicies(t *testing.T) {
	rn := func(f fp16.Format, x *big.Rat) float64 { return bigref.Round(x, f) }
	mul := func(f fp16.Format, a, b float64) float64 {
		return rn(f, new(big.Rat).Mul(bigref.Rat(a), bigref.Rat(b)))
	}
	plus := func(a, b float64) float64 { return rn(fp16.Float32, new(big.Rat).Add(bigref.Rat(a), bigref.Rat(b))) }
	for _, k := range []struct {
		precision, autocast string
		half                fp16.Format
		narrow              bool
	}{
		{"float16", "cuda", fp16.Float16, false}, {"float16", "cpu", fp16.Float16, false},
		{"bfloat16", "cuda:1.13", fp16.BFloat16, false}, {"bfloat16", "cpu", fp16.BFloat16, false},
		{"bfloat16", "cpu:1.13", fp16.BFloat16, true},
	} {
		m, err := graph.ParseMode(k.precision, k.autocast)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(4, 4))
		x := tensor.Of(fp16.Float32, numbers(r, 1000, 1), 1, 1, 10, 100)
		o := tensor.Of(k.half, numbers(r, 1000, 3), 1, 1, 10, 100)
		for i, v := range o.Data {
			o.Data[i] = rn(k.half, bigref.Rat(v))
		}
		constant := func(v float64) float64 {
			v = float64(float32(v))
			if k.narrow {
				v = rn(k.half, bigref.Rat(v))
			}
			return v
		}
		c := Config{Alpha: 0.3, Dt: 0.01}
		for _, p := range []struct {
			policy Policy
			want   func(x, o float64) float64
		}{
			{Autoregressive, func(_, o float64) float64 { return o }},
			{Residual, func(x, o float64) float64 { return plus(x, mul(k.half, constant(0.01), o)) }},
			{Convex, func(x, o float64) float64 {
				return plus(mul(fp16.Float32, float64(float32(0.3)), x), mul(k.half, constant(1-c.Alpha), o))
			}},
		} {
			c.Policy = p.policy
			next := tensor.New(c.StateFormat(k.half), 1, 1, 10, 100)
			update(next, x, o, c, m)
			for i := range x.Data {
				if want := p.want(x.Data[i], o.Data[i]); !same(next.Data[i], want) {
					t.Fatalf("%v, %s: X %v, O %v gives %v, want %v", m, p.policy, x.Data[i], o.Data[i], next.Data[i], want)
				}
			}
		}
	}
}

// TestGrouping steps a case with its work cut in every way and finds the same
// bits: groups of realizations, numbers of threads.
func TestGrouping(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, name := range []string{"convex_layer_tanh_mult", "minmax_residual"} {
		c, err := OpenCase(filepath.Join("../testdata/rollouts", name))
		if err != nil {
			t.Fatal(err)
		}
		op, err := c.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		traj, err := c.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		step := func(stream string, batch, threads int) string {
			runtime.GOMAXPROCS(threads)
			s, err := c.OpenStream(stream, op, graph.Mode{Precision: fp16.Float32})
			if err != nil {
				t.Fatal(err)
			}
			st := &Stepper{Operator: op, Config: c.Rollout, Mode: graph.Mode{Precision: fp16.Float32}, Batch: batch}
			d := NewDigest(fp16.Float32, traj.M, 1, traj.C, traj.H, traj.W)
			for k, b := range c.Rollout.EngineBatches() {
				x := tensor.New(fp16.Float32, b[1]-b[0], traj.C, traj.H, traj.W)
				for m := b[0]; m < b[1]; m++ {
					copy(x.Samples(m-b[0], m-b[0]+1).Data, traj.At(m, 3))
				}
				draws, err := s.Draws(k, b[0], b[1], 4)
				if err != nil {
					t.Fatal(err)
				}
				y, err := st.Step(x, draws)
				if err != nil {
					t.Fatal(err)
				}
				for m := b[0]; m < b[1]; m++ {
					d.Add(m, y.Samples(m-b[0], m-b[0]+1).Data)
				}
			}
			return d.Hex()
		}
		want := step("tape", 0, 1)
		for _, stream := range []string{"tape", "torch-cpu"} {
			for _, batch := range []int{0, 1, 3, 100} {
				for _, threads := range []int{1, 2, 7} {
					if got := step(stream, batch, threads); got != want {
						t.Errorf("%s: noise %s, batch %d, %d threads: digest %.12s, want %.12s", name, stream, batch, threads, got, want)
					}
				}
			}
		}
		if step("none", 0, 2) == want {
			t.Errorf("%s: without noise the digest is the same", name)
		}
	}
}

func TestDigest(t *testing.T) {
	a := NewDigest(fp16.Float32, 2, 2, 1, 1, 1)
	b := NewDigest(fp16.Float32, 2, 2, 1, 1, 1)
	// The order in which realizations arrive does not matter, their steps' does.
	for _, v := range []struct {
		m int
		x float64
	}{{0, 1}, {0, 2}, {1, 3}, {1, math.NaN()}} {
		a.Add(v.m, []float64{v.x})
	}
	for _, v := range []struct {
		m int
		x float64
	}{{1, 3}, {0, 1}, {1, math.Float64frombits(0xfff8000000000001)}, {0, 2}} {
		b.Add(v.m, []float64{v.x})
	}
	if a.Hex() != b.Hex() {
		t.Error("digest depends on the order of realizations or on a NaN's payload")
	}
	// sha256("float32 [1,1,1,1,1]\n" + sha256(00 00 80 3f))
	c := NewDigest(fp16.Float32, 1, 1, 1, 1, 1)
	c.Add(0, []float64{1})
	const want = "3820dd0b7593aa6a7555ecb015f3fa1fde4b077610ec92e6b424cb5b5202353d"
	if got := c.Hex(); got != want {
		t.Errorf("digest of one 1 is %s, want %s", got, want)
	}
	d := NewDigest(fp16.Float64, 1, 1, 1, 1, 1)
	d.Add(0, []float64{1})
	if d.Hex() == c.Hex() {
		t.Error("digest does not depend on the format")
	}
}
