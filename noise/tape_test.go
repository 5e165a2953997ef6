package noise

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// array is a tape array of consecutive numbers, or of the given ones.
type array struct {
	name   string
	dtype  safetensors.DType
	shape  []int
	values []float64
}

func tapeFile(t *testing.T, arrays ...array) *safetensors.File {
	t.Helper()
	var list []*safetensors.Tensor
	for _, a := range arrays {
		if a.dtype == "" {
			a.dtype = safetensors.F32
		}
		var x *safetensors.Tensor
		var err error
		if f, ok := a.dtype.Format(); ok {
			n := 1
			for _, d := range a.shape {
				n *= d
			}
			if a.values == nil {
				for i := range n {
					a.values = append(a.values, f.Round(float64(i)/8))
				}
			}
			x, err = safetensors.OfFloat64s(a.name, a.dtype, a.shape, a.values)
		} else {
			x, err = safetensors.New(a.name, a.dtype, a.shape, make([]byte, a.dtype.Size()))
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, list, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Parse("noise.safetensors", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustTape(t *testing.T, arrays ...array) *Tape {
	t.Helper()
	tape, err := OpenTape(tapeFile(t, arrays...))
	if err != nil {
		t.Fatal(err)
	}
	return tape
}

func mustDraws(t *testing.T, tape *Tape, batch, step, lo, hi int) Draws {
	t.Helper()
	d, err := tape.Draws(batch, step, lo, hi)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every element of every step, kind, name and type comes from its place, for
// every range of realizations.
func TestTapeReplays(t *testing.T) {
	const steps, batch = 3, 4
	zeroOne := make([]float64, steps*batch*2)
	for i := range zeroOne {
		zeroOne[i] = float64(i * i % 3 % 2)
	}
	for _, c := range []struct {
		array
		kind  Kind
		shape []int // of one realization, as asked for
	}{
		{array{name: "batch0", shape: []int{steps, batch, 2, 3, 5}}, Normal, []int{2, 3, 5}},
		{array{name: "batch0", shape: []int{steps, batch, 2, 1, 1}}, Normal, []int{2, 1, 1}},
		{array{name: "batch0.draw0.normal", shape: []int{steps, batch, 2, 3, 5}}, Normal, []int{2, 3, 5}},
		{array{name: "batch0.draw0.exponential", shape: []int{steps, batch, 2, 3, 5}}, Exponential, []int{2, 3, 5}},
		{array{name: "batch0", shape: []int{steps, batch, 2}, values: zeroOne}, Bernoulli, []int{2, 1, 1}},
		{array{name: "batch0", shape: []int{steps, batch, 2, 1, 1}, values: zeroOne}, Bernoulli, []int{2, 1, 1}},
		{array{name: "batch0.draw0.bernoulli", shape: []int{steps, batch, 2}, values: zeroOne}, Bernoulli, []int{2, 1, 1}},
		{array{name: "batch0", shape: []int{steps, batch, 2, 3, 5, 2}}, ComplexNormal, []int{2, 3, 5}},
		{array{name: "batch0.draw0.normal_complex", shape: []int{steps, batch, 2, 3, 5, 2}}, ComplexNormal, []int{2, 3, 5}},
	} {
		for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.F16, safetensors.BF16, safetensors.F64} {
			c.dtype = dtype
			file := tapeFile(t, c.array)
			tape, err := OpenTape(file)
			if err != nil {
				t.Fatal(err)
			}
			whole, _ := file.Tensor(c.name)
			all, err := whole.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			if tape.Steps() != steps {
				t.Fatalf("%d steps, want %d", tape.Steps(), steps)
			}
			one := len(all) / (steps * batch)
			for step := 1; step <= steps; step++ {
				for lo := range batch {
					for hi := lo; hi <= batch; hi++ {
						dst := make([]float64, (hi-lo)*one)
						if err := mustDraws(t, tape, 0, step, lo, hi).Draw(c.kind, 0.5,
							append([]int{hi - lo}, c.shape...), dst); err != nil {
							t.Fatal(err)
						}
						at := (step - 1) * batch * one
						sameBits(t, fmt.Sprintf("%s %s step %d [%d,%d)", c.name, dtype, step, lo, hi), dst, all[at+lo*one:at+hi*one])
					}
				}
			}
		}
	}
}

func TestTapeRoundsFloat64(t *testing.T) {
	tape := mustTape(t,
		array{name: "batch0", dtype: safetensors.F64, shape: []int{1, 1, 1, 1, 2}, values: []float64{0.1, 1 + 0x1p-24}})
	dst := make([]float64, 2)
	if err := mustDraws(t, tape, 0, 1, 0, 1).Draw(Normal, 0, []int{1, 1, 1, 2}, dst); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "F64", dst, []float64{float64(float32(0.1)), 1})
}

// Several draws per application, several batches of different size, from
// several goroutines.
func TestTapeOfLaplace(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	const steps, c, h, w = 2, 2, 3, 4
	var arrays []array
	for batch, size := range []int{3, 2} {
		for draw, kind := range []Kind{Exponential, Normal} {
			arrays = append(arrays, array{
				name:   fmt.Sprintf("batch%d.draw%d.%v", batch, draw, kind),
				shape:  []int{steps, size, c, h, w},
				values: normals(rng, steps*size*c*h*w),
			})
		}
	}
	tape := mustTape(t, arrays...)
	x := tensor.New(fp16.Float32, 2, c, h, w)
	var group sync.WaitGroup
	for batch := range 2 {
		group.Go(func() {
			d, err := tape.Draws(batch, 2, 0, 2)
			if err != nil {
				t.Error(err)
				return
			}
			dst := tensor.Like(x)
			if err := (&Block{Type: Laplace, Scale: 1}).Apply(dst, x, Time{}, d); err != nil {
				t.Error(err)
				return
			}
			e, n := arrays[2*batch], arrays[2*batch+1]
			at := e.shape[1] * c * h * w
			for i, v := range dst.Data {
				if want := math.Copysign(1, n.values[at+i]) * e.values[at+i]; v != want {
					t.Errorf("batch %d, element %d: %v, want %v", batch, i, v, want)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestOpenTapeErrors(t *testing.T) {
	shape := []int{2, 1, 1, 1, 2}
	for _, c := range []struct {
		arrays []array
		want   string
	}{
		{nil, "noise.safetensors: file: no arrays: want batch0"},
		{[]array{{name: "noise", shape: shape}}, `"noise": unknown array: want batchK or batchK.drawI.KIND, ` +
			`KIND one of normal, exponential, bernoulli, normal_complex`},
		{[]array{{name: "batch00", shape: shape}}, `"batch00": unknown array`},
		{[]array{{name: "batch-1", shape: shape}}, `"batch-1": unknown array`},
		{[]array{{name: "batch0.draw0", shape: shape}}, `"batch0.draw0": unknown array`},
		{[]array{{name: "batch0.draw0.uniform", shape: shape}}, `"batch0.draw0.uniform": unknown array`},
		{[]array{{name: "batch0.0.normal", shape: shape}}, `"batch0.0.normal": unknown array`},
		{[]array{{name: "batch0", dtype: safetensors.I64, shape: []int{1}}}, "batch0: dtype I64: want F32, F16, BF16 or F64"},
		{[]array{{name: "batch0", shape: []int{2, 3, 4, 5}}}, "batch0: shape [2,3,4,5]: want [T-1,B,C,H,W]"},
		{[]array{{name: "batch0", shape: []int{2, 1, 1, 1, 2, 3}}}, "batch0: shape [2,1,1,1,2,3]: want [T-1,B,C,H,W]"},
		{[]array{{name: "batch0", shape: []int{2, 0, 4, 5, 5}}}, "batch0: shape [2,0,4,5,5]: want"},
		{[]array{{name: "batch0.draw0.bernoulli", shape: shape}}, "shape [2,1,1,1,2]: want [T-1,B,C,1,1] or [T-1,B,C]"},
		{[]array{{name: "batch0.draw0.normal", shape: []int{2, 1, 1}}}, "shape [2,1,1]: want [T-1,B,C,H,W]"},
		{[]array{{name: "batch0.draw0.normal_complex", shape: shape}}, "shape [2,1,1,1,2]: want [T-1,B,C,H,W,2]"},
		{[]array{{name: "batch0", shape: shape}, {name: "batch1", shape: []int{3, 1, 1, 1, 2}}},
			"batch1: shape [3,1,1,1,2]: want 2 steps"},
		{[]array{
			{name: "batch0.draw0.exponential", shape: shape},
			{name: "batch0.draw1.normal", shape: []int{2, 2, 1, 1, 2}},
		}, "batch0.draw1.normal: shape [2,2,1,1,2]: want 1 realizations, as in batch0.draw0.exponential"},
		{[]array{{name: "batch0", shape: shape}, {name: "batch0.draw0.normal", shape: shape}},
			"batch0.draw0.normal: second array of the draw: want one, as is batch0"},
		{[]array{{name: "batch0.draw1.normal", shape: shape}, {name: "batch1", shape: shape}},
			"batch0.draw0: missing: want draws numbered from 0 without a gap"},
		{[]array{{name: "batch0.draw999999999.normal", shape: shape}},
			"batch0.draw999999999.normal: 1 arrays in all: want draws numbered from 0 without a gap"},
		{[]array{{name: "batch0", shape: shape, values: []float64{1, 2, fp16.NaN, 3}}},
			"batch0: value 2 is NaN: want finite float32 numbers"},
		{[]array{{name: "batch0", shape: shape, values: []float64{1, 2, 3, math.Inf(-1)}}},
			"batch0: value 3 is -Inf: want finite"},
		{[]array{{name: "batch0", dtype: safetensors.F64, shape: shape, values: []float64{1, 1e39, 3, 4}}},
			"batch0: value 1 is +Inf: want finite float32 numbers"},
	} {
		if _, err := OpenTape(tapeFile(t, c.arrays...)); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "noise.safetensors: ") {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	// Bad values beyond the first chunk of the check.
	for _, at := range []int{4096, 9999} {
		late := make([]float64, 10000)
		late[at] = fp16.NaN
		want := fmt.Sprintf("value %d is NaN", at)
		if _, err := OpenTape(tapeFile(t, array{name: "batch0", shape: []int{1, 1, 1, 100, 100}, values: late})); err ==
			nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestTapeDrawErrors(t *testing.T) {
	tape := mustTape(t,
		array{name: "batch0", shape: []int{11, 4, 2, 3, 3}},
		array{name: "batch1.draw0.exponential", shape: []int{11, 2, 2, 3, 3}},
		array{name: "batch1.draw1.normal", shape: []int{11, 2, 2, 3, 3}},
		array{name: "batch2", shape: []int{11, 1, 2}}, // 0, 1/8, ...: no mask
	)
	for _, c := range []struct {
		batch, step, hi int
		want            string
	}{
		{3, 1, 1, "noise.safetensors: batch3: missing: want one of the 3 batches of the tape"},
		{0, 0, 1, "noise.safetensors: batch0: step 0: want a step from 1 to 11"},
		{0, 12, 1, "noise.safetensors: batch0: step 12: want a step from 1 to 11"},
		{1, 11, 3, "noise.safetensors: batch1.draw0.exponential: shape [11,2,2,3,3]: want at least 3 realizations"},
	} {
		if _, err := tape.Draws(c.batch, c.step, 0, c.hi); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	for _, c := range []struct {
		batch int
		kind  Kind
		shape []int
		want  string
	}{
		{0, Normal, []int{1, 5, 3, 3}, "noise.safetensors: batch0: shape [11,4,2,3,3]: want [11,4,5,3,3]"},
		{0, Normal, []int{1, 2, 3, 4}, "noise.safetensors: batch0: shape [11,4,2,3,3]: want [11,4,2,3,4]"},
		{0, ComplexNormal, []int{1, 2, 3, 3}, "noise.safetensors: batch0: shape [11,4,2,3,3]: want [11,4,2,3,3,2]"},
		{0, Bernoulli, []int{1, 2, 1, 1}, "noise.safetensors: batch0: shape [11,4,2,3,3]: want [11,4,2,1,1]"},
		{0, Normal, []int{2, 2, 3, 3}, "noise.safetensors: batch0: 1 realizations opened: want 2"},
		{0, Exponential, []int{1, 2, 3, 3}, "noise.safetensors: batch0: another kind of draw: want batch0.draw0.exponential"},
		{1, Normal, []int{1, 2, 3, 3},
			"noise.safetensors: batch1.draw0.exponential: another kind of draw: want batch1.draw0.normal"},
		{2, Normal, []int{1, 2, 1, 1}, "noise.safetensors: batch2: shape [11,1,2]: want [11,1,2,1,1]"},
		{2, Bernoulli, []int{1, 2, 1, 1}, "noise.safetensors: batch2: value 1 is 0.125: want 0 or 1"},
	} {
		n := 1
		for _, d := range c.shape {
			n *= d
		}
		err := mustDraws(t, tape, c.batch, 1, 0, 1).Draw(c.kind, 0.5, c.shape, make([]float64, n))
		if err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	err := mustDraws(t, tape, 2, 9, 0, 1).Draw(Bernoulli, 0.5, []int{1, 2, 1, 1}, make([]float64, 2))
	if want := "noise.safetensors: batch2: value 16 is 2: want 0 or 1"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	d := mustDraws(t, tape, 0, 1, 0, 1)
	x := tensor.New(fp16.Float32, 1, 2, 3, 3)
	if err := (&Block{}).Apply(x, x, Time{}, d); err != nil {
		t.Fatal(err)
	}
	want := "noise.safetensors: batch0: 1 draws recorded: want batch0.draw1.normal"
	if err := (&Block{}).Apply(x, x, Time{}, d); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	mustPanic(t, "noise: realizations out of order", func() { tape.Draws(0, 1, 2, 1) })
	mustPanic(t, "noise: dst does not have the drawn shape", func() {
		mustDraws(t, tape, 0, 1, 0, 1).Draw(Normal, 0, []int{1, 2, 3, 3}, make([]float64, 17))
	})
}

// The tapes of recorded rollouts: T-1 steps, engine batches of 4.
func TestRecordedTapes(t *testing.T) {
	for _, c := range []struct {
		name           string
		steps, c, side int
		batches        []int
	}{
		{"autoregressive_batch_relu", 9, 10, 20, []int{2}},
		{"convex_layer_tanh_mult", 9, 32, 16, []int{4, 2}},
		{"minmax_residual", 19, 8, 16, []int{2}},
		{"residual_k5_group_silu", 15, 24, 24, []int{3}},
	} {
		file, err := safetensors.Open("../testdata/rollouts/" + c.name + "/noise.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		tape, err := OpenTape(file)
		if err != nil {
			t.Fatal(err)
		}
		if tape.Steps() != c.steps {
			t.Errorf("%s: %d steps, want %d", c.name, tape.Steps(), c.steps)
		}
		for batch, size := range c.batches {
			dst := make([]float64, size*c.c*c.side*c.side)
			if err := mustDraws(t, tape, batch, c.steps, 0, size).Draw(Normal, 0, []int{size, c.c, c.side, c.side},
				dst); err != nil {
				t.Fatal(err)
			}
			// Standard normal: mean and variance within 6 of their deviations.
			n, mean, square := float64(len(dst)), 0.0, 0.0
			for _, v := range dst {
				mean += v / n
				square += v * v / n
			}
			if math.Abs(mean) > 6/math.Sqrt(n) || math.Abs(square-1) > 6*math.Sqrt(2/n) {
				t.Errorf("%s, batch %d: mean %.3g, mean square %.3g of %v numbers, want 0 and 1", c.name, batch, mean, square, n)
			}
		}
		if _, err := tape.Draws(len(c.batches), 1, 0, 1); err == nil {
			t.Errorf("%s: batch %d exists", c.name, len(c.batches))
		}
	}
}

// TestTapeHash: the hash of a tape is that of its draws and their places, and draws that
// are others when they are replayed than when the tape was opened are an error.
func TestTapeHash(t *testing.T) {
	plain := array{name: "batch0", shape: []int{3, 2, 1, 2, 2}}
	want := mustTape(t, plain).Hash()
	if len(want) != 64 {
		t.Fatalf("hash %q", want)
	}
	sums := array{name: "integrity.sha256", dtype: safetensors.U8, shape: []int{1}}
	same := mustTape(t, plain, sums)
	if same.Hash() != want {
		t.Error("hashes of draws are taken for draws")
	}
	wide := plain
	wide.dtype = safetensors.F64
	if mustTape(t, wide).Hash() != want {
		t.Error("the same draws in another type have another hash")
	}
	other := array{name: "batch0", shape: plain.shape, values: make([]float64, 24)}
	for i := range other.values {
		other.values[i] = float64(i) / 8 * 1.5
	}
	for what, a := range map[string]array{
		"other draws": other, "another shape": {name: "batch0", shape: []int{3, 2, 2, 1, 2}},
		"a named kind":  {name: "batch0.draw0.normal", shape: plain.shape},
		"another batch": {name: "batch1", shape: plain.shape},
	} {
		if mustTape(t, a).Hash() == want {
			t.Errorf("%s: the same hash", what)
		}
	}
	file := tapeFile(t, plain)
	tape, err := OpenTape(file)
	if err != nil {
		t.Fatal(err)
	}
	x, err := file.Tensor("batch0")
	if err != nil {
		t.Fatal(err)
	}
	x.Bytes()[4*(1*8+5)] ^= 1 // of step 2
	dst := make([]float64, 4)
	for step, wrong := range []bool{false, true, false} {
		err := mustDraws(t, tape, 0, step+1, 0, 1).Draw(Normal, 0, []int{1, 1, 2, 2}, dst)
		if (err != nil) != wrong || wrong && err.Error() != "noise.safetensors: batch0: "+
			"step 2 is another one than when it was opened: want a tape that nobody changes while it is replayed" {
			t.Errorf("step %d: error %v", step+1, err)
		}
	}
}
