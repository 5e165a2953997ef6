package operator

import (
	"math"
	"testing"

	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// everywhere is the kind of functions of all numbers.
const everywhere = "activation of all numbers"

// checkActivation runs a function over all numbers of the half type.
func (d device) checkActivation(t *testing.T, name, op string, f *safetensors.File, sums counts) {
	t.Helper()
	half := d.mode.Precision
	fn, err := act.Parse(op)
	if err != nil {
		t.Fatal(err)
	}
	out := readAsStored(t, f, "out")
	if len(out.Data) != 1<<16 {
		t.Fatalf("%s: %d numbers", name, len(out.Data))
	}
	var xs, ys []float64
	for i, y := range out.Data {
		x := half.FromBits(uint64(i))
		if want, ok := d.beyond(fn, x); ok {
			if y != want && y == y || (y != y) != (want != want) {
				t.Errorf("%s of %v: PyTorch's %v: want %v", op, x, y, want)
			}
			continue
		}
		xs, ys = append(xs, x), append(ys, y)
	}
	l, n := &activation{name: op, f: fn}, len(xs)
	x, theirs := tensor.Of(half, xs, 1, 1, 1, n), tensor.Of(half, ys, 1, 1, 1, n)
	kind, c := d.check(t, name, l, x, theirs, nil)
	if kind != "activation" {
		sums.add(t, kind, name, c)
		return
	}
	sums.add(t, everywhere, name, c)
	ours, err := forwardOf(l, &Pass{Mode: d.mode}, x, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got exceptions
	for i, y := range ours.Data {
		if y == ys[i] || y != y {
			continue
		}
		switch {
		case xs[i] < -3:
			got.tail++
		case ys[i] == 0 && math.Abs(y) < 0x1p-126:
			got.flushed++
		case half.Round(xs[i]/2) != xs[i]/2:
			got.ties++
		default:
			got.others++
		}
	}
	if want := known[d.set+" "+op]; got != want {
		t.Errorf("%s: exceptions %+v: want %+v", name, got, want)
	}
}

// exceptions are the arguments, of all of a half type, at which a function
// differs from ours.
type exceptions struct {
	tail    int // x < -3, where 1+erf and 1+tanh cancel, and e^-x overflows
	flushed int // the result would be a subnormal float32, and is 0
	ties    int // x/2 is a tie, for subnormal x; x^2, which decides it, is too small for float32
	others  int // within the bound, one ulp
}

// known are the counts of the recorded files; everything that is not here, such
// as tanh, does not differ at all.
var known = map[string]exceptions{
	"1.13-bfloat16 gelu":     {tail: 200, flushed: 508, ties: 1},
	"2.9-bfloat16 gelu":      {tail: 212, flushed: 508, ties: 1},
	"2.9-bfloat16 gelu_tanh": {tail: 154, flushed: 1, ties: 127, others: 1},
	"2.9-bfloat16 silu":      {tail: 17, flushed: 1, ties: 127},
	"2.9-float16 gelu":       {tail: 564, others: 13},
	"2.9-float16 gelu_tanh":  {tail: 267, ties: 1, others: 6},
	"2.9-float16 silu":       {ties: 1},
}
