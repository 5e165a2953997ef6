package quantizer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/tensor"
)

// A scene is a quantizer with a shape for which its faults show.
type scene struct {
	format string
	quantize.Options
	shape  []int
	packed bool
	global bool
}

func (c scene) String() string {
	return strings.Trim(fmt.Sprintf("%s %s %s", c.format, c.Rule, c.Block), " ")
}

// scenes are all formats, with their rules and blocks.
func scenes() (all []scene) {
	for _, f := range []string{"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1"} {
		for _, r := range []string{"floor", "ceil", "even", "rceil"} {
			all = append(all, scene{f, quantize.Options{Rule: r}, []int{64, 32}, f == "mxfp4_e2m1", false})
		}
	}
	all = append(all, scene{"nvfp4", quantize.Options{}, []int{32, 64}, true, true},
		scene{"nvfp4", quantize.Options{}, []int{32, 64}, true, false})
	for _, f := range []string{"fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz"} {
		for _, b := range []string{"tensor", "row", "1x16", "16x16"} {
			shape := map[string][]int{"tensor": {9, 40}, "row": {40, 40}, "1x16": {40, 40}, "16x16": {40, 56}}[b]
			all = append(all, scene{f, quantize.Options{Block: b}, shape, false, false})
		}
	}
	for _, f := range []string{"int8", "uint8", "int4", "uint4"} {
		rules := []string{"amax", "minmax", "given"}
		if f[0] == 'u' {
			rules = rules[1:]
		}
		for _, r := range rules {
			for _, b := range []string{"tensor", "channel", "32"} {
				shape := map[string][]int{"tensor": {9, 40}, "channel": {40, 40}, "32": {60, 60}}[b]
				all = append(all, scene{f, quantize.Options{Rule: r, Block: b}, shape, f[len(f)-1] == '4', false})
			}
		}
	}
	return all
}

// input has numbers of many sizes, some blocks of one sign, and zeros.
func input(rng *rand.Rand, shape []int) *tensor.Tensor {
	x := tensor.New(fp16.Float32, shape...)
	row := shape[len(shape)-1]
	for i := range x.Data {
		v := rng.NormFloat64() * math.Ldexp(1, int(rng.Uint32()%3)+i/row%7)
		if i/row%5 == 1 {
			v = -math.Abs(v)
		}
		if i/row%8 == 6 { // so small that their scales are the least
			v *= 0x1p-24
		}
		x.Data[i] = fp16.Float32.Round(v)
	}
	return x
}

// question makes a right output.
func (c scene) question(t testing.TB, rng *rand.Rand) Question {
	s, err := quantize.Parse(c.format, c.Options)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Op: "quantize", Spec: s, Input: input(rng, c.shape), Packed: c.packed, Global: c.global}
	global := 1.0
	if c.global {
		global = quantize.GlobalScale(q.Input)
	}
	q.shape = c.shape
	if q.grid, err = s.Grid(c.shape); err != nil {
		t.Fatal(err)
	}
	q.Output = &quantize.Tensor{Shape: c.shape, Global: global}
	if c.Rule == "given" {
		for range q.grid.Scales() {
			q.Output.Scales = append(q.Output.Scales, fp16.Float32.Round(math.Exp2(rng.Float64()*4-5)))
			q.Output.Zeros = append(q.Output.Zeros, 1+rng.IntN(5))
		}
	}
	if q.Output, err = s.Quantize(q.Input, global, q.Output); err != nil {
		t.Fatal(err)
	}
	return q
}

// wrong makes a fault's output of the same question.
func (f *fault) wrong(t testing.TB, q Question) Question {
	y, err := f.spec.Quantize(q.Input, q.Output.Global, q.Output)
	if err != nil {
		t.Fatal(err)
	}
	if f.swap {
		y.Codes = quantize.Unpack(quantize.Pack(y.Codes, true), false)
	}
	q.Output = y
	return q
}

// TestFaultsOfQuantizers: in every format each of the table's faults is caught and named, and what is right
// passes. A fault that leaves what right kernels write is blind there, and the report of the right output says so.
func TestFaultsOfQuantizers(t *testing.T) {
	rights, wrongs, blind := 0, 0, 0
	seen := map[string]int{}
	for _, c := range scenes() {
		for seed := range uint64(2) {
			q := c.question(t, rand.New(rand.NewPCG(seed, 1)))
			r, err := Check(q)
			if err != nil || r.Verdict != Pass {
				t.Fatalf("%v: %+v, %v", c, r, err)
			}
			rights++
			passed, made := map[string]int{}, map[string]int{}
			for _, f := range q.faults() {
				id := f.row().ID
				made[id]++
				bad, err := Check(f.wrong(t, q))
				if err != nil {
					t.Fatal(err)
				}
				if bad.Verdict == Pass {
					blind++
					passed[id]++
					continue
				}
				wrongs++
				if strings.Contains(bad.Fault, "%") || bad.Advice == "" {
					t.Errorf("%s: %q, %q", id, bad.Fault, bad.Advice)
				}
				seen[strings.SplitN(id, ":", 2)[0]]++
				if bad.FaultID != id {
					// another fault may write the same
					same := false
					for _, g := range q.faults() {
						if g.row().ID == bad.FaultID {
							e, err := (&Question{Op: q.Op, Spec: q.Spec, Input: q.Input, Output: f.wrong(t, q).Output}).explain(&g, 0)
							same = same || err == nil && e.Wrong() == 0
						}
					}
					if !same {
						t.Errorf("%v: %s is named %q, of which %d are unexplained", c, id, bad.FaultID, bad.Unexplained)
					}
				}
			}
			for id, n := range made {
				if (passed[id] == n) != contains(r.Blind, id) {
					t.Errorf("%v: %s passes %d of %d times, and what this data does not show is %v", c, id, passed[id], n, r.Blind)
				}
			}
		}
	}
	t.Logf("%d right pass, %d wrong fail with their name, %d faults change nothing: %v", rights, wrongs, blind, seen)
	for _, id := range []string{"nibbles-swapped", "scale-rule", "amax-signed", "padding-counted",
		"global-scale-missing", "global-scale-twice", "zero-point-ignored", "least-scale-missing", "scales-transposed",
		"scale-of-other-block", "other-axis", "not-saturated", "other-elements", "truncated"} {
		if seen["quantize."+id] == 0 {
			t.Errorf("quantize.%s is never seen", id)
		}
	}
}

func contains(l []string, s string) bool {
	for _, v := range l {
		if v == s {
			return true
		}
	}
	return false
}

// TestFaultsOfDequantizers: the way back, in every format.
func TestFaultsOfDequantizers(t *testing.T) {
	rights, wrongs, blind := 0, 0, 0
	seen := map[string]int{}
	for _, c := range scenes() {
		q := c.question(t, rand.New(rand.NewPCG(9, 1)))
		q.Op = "dequantize"
		for _, to := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			back := func(s *quantize.Spec, swap bool) *tensor.Tensor {
				from := *q.Output
				if swap {
					from.Codes = quantize.Unpack(quantize.Pack(from.Codes, true), false)
				}
				y, err := s.Dequantize(&from, to)
				if err != nil {
					t.Fatal(err)
				}
				return y
			}
			q.Input = back(&q.Spec, false)
			if r, err := Check(q); err != nil || r.Verdict != Pass {
				t.Fatalf("%v: %+v, %v", c, r, err)
			}
			rights++
			for _, f := range q.faults() {
				bad := q
				bad.Input = back(&f.spec, f.swap)
				r, err := Check(bad)
				if err != nil {
					t.Fatal(err)
				}
				if r.Verdict == Pass {
					blind++
					continue
				}
				wrongs++
				seen[f.id]++
				if r.FaultID != f.row().ID && r.Unexplained > 0 {
					t.Errorf("%v: %s is named %q", c, f.row().ID, r.FaultID)
				}
			}
		}
	}
	t.Logf("%d right pass, %d wrong fail with a name, %d faults change nothing: %v", rights, wrongs, blind, seen)
	for _, id := range []string{"nibbles-swapped", "global-scale-missing", "global-scale-twice", "zero-point-ignored",
		"scales-transposed", "scale-of-other-block", "other-axis", "other-elements"} {
		if seen["quantize."+id] == 0 {
			t.Errorf("quantize.%s is never seen", id)
		}
	}
}

// TestNoFault: what no fault explains fails without a name: numbers off by one code at random, and noise.
func TestNoFault(t *testing.T) {
	n := 0
	for _, c := range scenes() {
		rng := rand.New(rand.NewPCG(11, 1))
		for _, share := range []float64{0.02, 1} {
			q := c.question(t, rng)
			wrong := *q.Output
			wrong.Codes = make([]uint8, len(q.Output.Codes))
			for i, code := range q.Output.Codes {
				if wrong.Codes[i] = code; rng.Float64() < share {
					wrong.Codes[i] ^= uint8(1 + rng.IntN(7))
				}
			}
			q.Output = &wrong
			if r, err := Check(q); err != nil || r.Verdict != Fail || r.Fault != "" {
				t.Errorf("%v, %v of all: %v %q, %v", c, share, r.Verdict, r.Fault, err)
			}
			n++
		}
	}
	t.Logf("%d fail without a name", n)
}
