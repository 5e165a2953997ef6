package tensorcore

import (
	"cmp"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

var recordings = flag.String("tensorcore.recordings", "testdata", "a folder of what devices returned")

// recording is what a device returned for rows of operands.
type recording struct {
	name, device string
	in           Input
	out          fp16.Format
	a, b         *tensor.Tensor
	c, d         []float64
}

// recorded reads all recordings.
func recorded(t testing.TB) (all []recording) {
	raw, err := os.ReadFile(filepath.Join(*recordings, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]struct {
		Device, Inputs string
		Outputs        []string
		Devices        map[string]string // of outputs that are another unit's
		WithoutC       []string          `json:"without_c"` // outputs that were recorded with 0
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range index {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		of := index[name]
		f, err := safetensors.Open(filepath.Join(*recordings, name+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		read := func(name string) *tensor.Tensor {
			x, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			v, err := x.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			return tensor.Of(fp16.Float64, v, x.Shape...)
		}
		in, err := ParseInput(of.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range of.Outputs {
			format := fp16.Float32
			if out == "d_fp16" {
				format = fp16.Float16
			}
			device := cmp.Or(of.Devices[out], of.Device)
			r := recording{name + " " + out, strings.ToLower(device), in, format, read("a"), read("b"),
				read("c").Data, read(out).Data}
			if slices.Contains(of.WithoutC, out) {
				clear(r.c)
			}
			all = append(all, r)
		}
	}
	return all
}

// unit returns the unit of the device that a recording is of.
func (r *recording) unit(t testing.TB) *Unit {
	m, err := Lookup(r.device)
	if err != nil {
		t.Fatal(err)
	}
	u, err := m.Unit(r.in, r.out)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestRecorded: units return every bit that their devices returned.
func TestRecorded(t *testing.T) {
	for _, r := range recorded(t) {
		u := r.unit(t)
		wrong, terms := 0, r.a.Shape[1]
		for i, d := range r.d {
			if u.Dot(r.a.Data[i*terms:(i+1)*terms], r.b.Data[i*terms:(i+1)*terms], r.c[i]) != d {
				wrong++
			}
		}
		t.Logf("%-18s %-8v %4d of %d not equal", r.name, u.Source, wrong, len(r.d))
		if wrong > 0 {
			t.Errorf("%s: %d of %d not equal", r.name, wrong, len(r.d))
		}
	}
}

// TestIdentify: the device that made a recording is among those of the first rule, all of
// which explain every bit.
func TestIdentify(t *testing.T) {
	for _, r := range recorded(t) {
		u := r.unit(t)
		fits := Identify(r.in, r.out, r.a, r.b, r.c, r.d)
		var right, wrong []string
		for _, f := range fits {
			if f.NotEqual == 0 {
				right = append(right, f.Model.Name())
			} else {
				wrong = append(wrong, f.Model.Name())
			}
		}
		if !slices.Contains(right, r.device) || fits[0].NotEqual > 0 {
			t.Errorf("%s: %v fit", r.name, right)
		}
		for _, f := range fits { // what is no other rule's work; float16 results tell less
			if r.out == fp16.Float32 && f.NotEqual == 0 && f.Unit.Rule != u.Rule && !alike(f.Unit.Rule, u.Rule, r.a.Shape[1]) {
				t.Errorf("%s: %s of another rule fits as well", r.name, f.Model.Name())
			}
		}
		t.Logf("%-18s %v; not %v", r.name, right, wrong)
	}
}

// alike reports whether two rules are one for a single block of so many terms: Terms beyond
// that and exponents below all that were recorded decide nothing.
func alike(a, b Rule, terms int) bool {
	if a.Terms < terms || b.Terms < terms {
		return false
	}
	a.Terms, a.Lowest, a.Half = b.Terms, b.Lowest, b.Half
	return a == b
}

// TestHas: of FP8 all numbers of the 256 codes are there, and none between them.
func TestHas(t *testing.T) {
	for in, f := range map[Input]struct{ exponent, fraction, codes int }{E4M3: {4, 3, 127}, E5M2: {5, 2, 124}} {
		bias := 1<<(f.exponent-1) - 1
		last := -1.0
		for code := range f.codes { // below NaN, and below infinity
			e, m := code>>f.fraction, float64(code&(1<<f.fraction-1))
			x := math.Ldexp(m, 1-bias-f.fraction)
			if e > 0 {
				x = math.Ldexp(m+float64(int(1)<<f.fraction), e-bias-f.fraction)
			}
			if !in.Has(x) || !in.Has(-x) || in.Has((x+last)/2) && code > 0 {
				t.Errorf("%v: code %#x, %v", in, code, x)
			}
			last = x
		}
		if in.Has(last * 1.25) {
			t.Errorf("%v: %v", in, last*1.25)
		}
	}
	inf := math.Inf(1)
	if E4M3.Has(inf) || !E5M2.Has(-inf) || !FP16.Has(inf) || FP16.Has(65520) || !BF16.Has(65536) || BF16.Has(1.001) ||
		TF32.Has(1e-50) || !TF32.Has(0x1.fffffep0) || !E4M3.Has(fp16.NaN) {
		t.Error("numbers of the wrong formats")
	}
}
