package pointwise

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
)

// No definition is misread: what PyTorch 2.9.1's CPU operations return
// (testdata/record.py) is within a few roundings of ours, special values included.
func TestTorch(t *testing.T) {
	file, err := safetensors.Open("testdata/torch.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) []float64 {
		v, err := file.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		x, err := v.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	seen := 0
	for _, name := range file.Names() {
		call, kind, ok := strings.Cut(name, "/")
		if !ok {
			continue
		}
		format, err := fp16.ParseFormat(kind)
		if err != nil {
			t.Fatal(err)
		}
		x, y, torch := get("x"), get("y"), get(name)
		format.RoundSlice(x, x)
		format.RoundSlice(y, y)
		words := strings.Fields(call)
		var got []float64
		if op, err := ParseOp(words[0]); err == nil {
			got = pairwise(x, y, op, format, format)
		} else {
			params := named{}
			for _, w := range words[1:] {
				key, value, _ := strings.Cut(w, "=")
				var v float64
				if _, err := fmt.Sscan(value, &v); err != nil {
					t.Fatal(err)
				}
				params[key] = v
			}
			f, err := Parse(words[0], params)
			if err != nil {
				t.Fatal(err)
			}
			got = unary(x, f, format, format)
		}
		for i := range got {
			d := format.Distance(got[i], torch[i])
			if d == 0 && math.Signbit(got[i]) == math.Signbit(torch[i]) ||
				explained(words[0], format, x[i], y[i], got[i], torch[i]) {
				continue
			}
			if d == 0 || d > steps[format] {
				t.Errorf("%s of %g (and %g): %g, PyTorch has %g", name, x[i], y[i], got[i], torch[i])
			}
		}
		seen++
	}
	if seen < 150 {
		t.Errorf("only %d recordings", seen)
	}
}

// steps is how far from the right result PyTorch may be, in numbers of the format: its
// functions of float32 are good to an ulp, formulas of several have a few roundings
// more. Shorter formats are evaluated in float32 and rounded.
var steps = map[fp16.Format]uint64{fp16.Float32: 2, fp16.Float16: 1, fp16.BFloat16: 1}

// explained reports whether PyTorch's formula gives something else for a reason:
//
//	sign      NaN compares with nothing
//	hardswish 0 times Inf is NaN, and 6 x overflows
//	softsign  Inf over Inf is NaN
//	mish      0 times Inf is NaN; e^x is subnormal from -87.3 down, and good to 2 steps
//	sigmoid   e^-x overflows for x < -88.7
//	fmod, remainder   x/y overflows float32
//	trunc_divide      x/y is rounded to the half type first
//	erf       in the half types by Abramowitz and Stegun 7.1.26, good to 1.5e-7 and some 8 roundings
func explained(name string, f fp16.Format, x, y, got, torch float64) bool {
	infinite := math.IsInf(x, 0) && torch != torch
	switch name {
	case "sign":
		return x != x && torch == 0
	case "hardswish":
		return infinite || x > math.MaxFloat32/6 && torch == math.Inf(1)
	case "softsign":
		return infinite
	case "mish":
		return infinite || x < -87.3 && math.Abs(got-torch) <= 2*math.Abs(x)*0x1p-149
	case "sigmoid":
		return x < -88.7 && torch == 0
	case "fmod", "remainder":
		return torch != torch && math.Abs(x/y) > math.MaxFloat32
	case "trunc_divide":
		return f != fp16.Float32 && torch == math.Trunc(f.Round(x/y))
	case "erf":
		return f != fp16.Float32 && math.Abs(got-torch) <= 1.5e-7+8*0x1p-24
	}
	return false
}
