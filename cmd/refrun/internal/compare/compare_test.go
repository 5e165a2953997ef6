package compare

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// figures are those of a comparison that tests look at.
type figures struct{ maxAbs, meanAbs, maxUlp any }

func TestCompareFigures(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, k := range []struct {
		name              string
		a, b              string
		want              figures
		differ, equal, at float64 // nonfinite_differ, nonfinite_equal, at
	}{
		{"equal", clitest.Row1(t, "F32", 1, -2, 3), clitest.Row1(t, "F32", 1, -2, 3), figures{0., 0., 0.}, 0, 0, -1},
		{"one ulp", clitest.Row1(t, "F32", 1, 2, 1+0x1p-23), clitest.Row1(t, "F32", 1, 2, 1), figures{0x1p-23, 0x1p-23 / 3,
			1.}, 0, 0, 2},
		{"zeros of both signs", clitest.Row1(t, "F64", math.Copysign(0, -1)), clitest.Row1(t, "F64", 0), figures{0., 0., 0.},
			0, 0, -1},
		{"the smallest numbers", clitest.Row1(t, "F32", -0x1p-149), clitest.Row1(t, "F32", 0x1p-149),
			figures{0x1p-148, 0x1p-148, 2.}, 0, 0, 0},
		{"a NaN here", clitest.Row1(t, "F32", 1, nan), clitest.Row1(t, "F32", 1, 2), figures{"inf", "inf", "inf"}, 1, 0, 1},
		{"a NaN there", clitest.Row1(t, "F32", 1, 2), clitest.Row1(t, "F32", nan, 2), figures{"inf", "inf", "inf"}, 1, 0, 0},
		{"NaNs on both sides", clitest.Row1(t, "F32", nan, inf, 1), clitest.Row1(t, "F32", nan, inf, 1), figures{0., 0., 0.},
			0, 2, -1},
		{"infinities of both signs", clitest.Row1(t, "BF16", -inf), clitest.Row1(t, "BF16", inf),
			figures{"inf", "inf", "inf"}, 1, 0, 0},
		// Ulps are the coarser type's: 2^-13 is 2^-13/2^-10 of float16's step
		// at 1, which is none; of a whole step it is one.
		{"float32 near float16", clitest.Row1(t, "F32", 1+0x1p-13), clitest.Row1(t, "F16", 1), figures{0x1p-13, 0x1p-13, 0.},
			0, 0, 0},
		{"float16 near float32", clitest.Row1(t, "F16", 1+0x1p-10), clitest.Row1(t, "F32", 1), figures{0x1p-10, 0x1p-10, 1.},
			0, 0, 0},
		{"bfloat16 and float16", clitest.Row1(t, "BF16", 1), clitest.Row1(t, "F16", 1+0x1p-7), figures{0x1p-7, 0x1p-7, 1.}, 0,
			0, 0},
		{"float64 and float32", clitest.Row1(t, "F64", 1+0x1p-52), clitest.Row1(t, "F32", 1), figures{0x1p-52, 0x1p-52, 0.},
			0, 0, 0},
		{"float64", clitest.Row1(t, "F64", 1+0x1p-52), clitest.Row1(t, "F64", 1), figures{0x1p-52, 0x1p-52, 1.}, 0, 0, 0},
	} {
		r := refrun(t, "compare", k.a, k.b, "--json")
		if r.Code != 0 || r.Stderr != "" {
			t.Errorf("%s: exit code %d, %s", k.name, r.Code, r.Stderr)
			continue
		}
		out := r.Decode(t)
		if got := (figures{out["max_abs"], out["mean_abs"], out["max_ulp"]}); got != k.want || out["ok"] != true {
			t.Errorf("%s: %v, ok %v, want %v", k.name, got, out["ok"], k.want)
		}
		if out["nonfinite_differ"] != k.differ || out["nonfinite_equal"] != k.equal || out["at"] != k.at {
			t.Errorf("%s: %v differ, %v equal, at %v: want %v, %v, %v",
				k.name, out["nonfinite_differ"], out["nonfinite_equal"], out["at"], k.differ, k.equal, k.at)
		}
		if r := refrun(t, "compare", k.a, k.b); r.Code != 0 || !strings.Contains(r.Stdout, "largest difference") {
			t.Errorf("%s as text: exit code %d, %s", k.name, r.Code, r.Stderr)
		}
	}
}

// TestThresholds: a limit that is exceeded is exit code 1 and a reason, in
// both outputs; one that is met, to the last bit, is 0.
func TestThresholds(t *testing.T) {
	a, b := clitest.Row1(t, "F32", 1, 2.5), clitest.Row1(t, "F32", 1, 2)
	nan := clitest.Row1(t, "F32", 1, math.NaN())
	for _, k := range []struct {
		a      string
		flags  []string
		failed []any
	}{
		{a, []string{"--max-abs", "0.5"}, nil},
		{a, []string{"--max-abs", "0.49"}, []any{"max-abs 0.5 exceeds 0.49"}},
		{a, []string{"--mean-abs", "0.25"}, nil},
		{a, []string{"--mean-abs=0.2"}, []any{"mean-abs 0.25 exceeds 0.2"}},
		{a, []string{"--max-ulp", "2097152"}, nil}, // a half is 2^21 steps of 2^-22
		{a, []string{"--max-ulp", "2097151"}, []any{"max-ulp 2.10e+06 exceeds 2.097151e+06"}},
		{a, []string{"--max-abs", "0", "--mean-abs", "0", "--max-ulp", "0"},
			[]any{"max-abs 0.5 exceeds 0", "mean-abs 0.25 exceeds 0", "max-ulp 2.10e+06 exceeds 0"}},
		{b, []string{"--max-abs", "0", "--mean-abs", "0", "--max-ulp", "0"}, nil},
		{nan, []string{"--max-abs", "1e308"}, []any{"max-abs +Inf exceeds 1e+308"}},
		{nan, []string{"--max-ulp", "1e18"}, []any{"max-ulp +Inf exceeds 1e+18"}},
	} {
		code, verdict := 0, true
		if k.failed != nil {
			code, verdict = 1, false
		}
		r := refrun(t, append([]string{"compare", k.a, b, "--json"}, k.flags...)...)
		out := r.Decode(t)
		got, _ := out["failed"].([]any)
		if r.Code != code || out["ok"] != verdict || fmt.Sprint(got) != fmt.Sprint(k.failed) {
			t.Errorf("%v: exit code %d, ok %v, failed %q, want %q", k.flags, r.Code, out["ok"], got, k.failed)
		}
		r = refrun(t, append([]string{"compare", k.a, b}, k.flags...)...)
		for _, f := range k.failed {
			if !strings.Contains(r.Stdout, "FAILED: "+f.(string)+"\n") {
				t.Errorf("%v: the text does not say %q", k.flags, f)
			}
		}
		if r.Code != code || r.Stderr != "" {
			t.Errorf("%v as text: exit code %d, stderr %q", k.flags, r.Code, r.Stderr)
		}
	}
	for _, v := range []string{"-1", "-0.001", "nan", "NaN", "inf", "-inf"} {
		for _, flag := range []string{"--max-abs", "--mean-abs", "--max-ulp"} {
			refrun(t, "compare", a, b, "--json", flag, v).Refused(t, "compare", flag+": ...: want a finite number of 0 or more")
		}
	}
	refrun(t, "compare", a, b, "--max-abs", "1e999").Refused(t, "compare",
		`--max-abs: "1e999": want a number, such as 0.5 or 1e-6`)
	refrun(t, "compare", a, b, "--max-ulp", "two").Refused(t, "compare",
		`--max-ulp: "two": want a number, such as 0.5 or 1e-6`)
}

func TestCompareRefuses(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	root := t.TempDir()
	t.Chdir(root)
	f32 := func(name string, shape ...int) *safetensors.Tensor { return clitest.Zeros(t, name, "F32", shape...) }
	for name, tensors := range map[string][]*safetensors.Tensor{
		"one":   {f32("x", 2, 3)},
		"flat":  {f32("x", 6)},
		"ints":  {clitest.Zeros(t, "x", "I32", 2, 3)},
		"bools": {clitest.Zeros(t, "x", "BOOL", 2, 3)},
		"empty": {f32("x", 0, 3)},
		"none":  {},
		"two":   {f32("x", 1), f32("y\n\x1b[2J", 1)},
		"many": {f32("a", 1), f32("b", 1), f32("c", 1), f32("d", 1), f32("e", 1), f32("f", 1), f32("g", 1),
			f32("h", 1), f32("i", 1), f32("j", 1)},
		"x:y":    {f32("b:c", 2, 3)},
		"broken": nil,
	} {
		if err := os.Rename(clitest.Save(t, "f", tensors...), name+".safetensors"); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{"broken.safetensors": "x", "a.txt": "1 2 3", "noext": ""} {
		if err := os.WriteFile(name, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("folder", 0o777); err != nil {
		t.Fatal(err)
	}
	const one = "one.safetensors"
	for _, k := range []struct{ a, b, want string }{
		{"flat.safetensors", one, "flat.safetensors:x: shape [6]: want [2 3], that of one.safetensors:x"},
		{one, "ints.safetensors", "ints.safetensors: x: dtype I32: want F64, F32, F16 or BF16"},
		{"bools.safetensors", one, "bools.safetensors: x: dtype BOOL: want F64, F32, F16 or BF16"},
		{"empty.safetensors", "empty.safetensors", "empty.safetensors:x: shape [0 3]: want at least one element to compare"},
		{"none.safetensors", one, "none.safetensors: no tensors: want one"},
		{"two.safetensors", one, `two.safetensors: 2 tensors: want two.safetensors:NAME with one of x, y\n\x1b[2J`},
		{"many.safetensors", one,
			`many.safetensors: 10 tensors: want many.safetensors:NAME with one of a, b, c, d, e, f, g, h and 2 more`},
		{"one.safetensors:z", one, `one.safetensors: tensor: "z": want one of "x"`},
		{"one.safetensors:", one, `one.safetensors:: no tensor after the colon: want FILE:TENSOR`},
		{"x:y.safetensors:c", one, `x:y.safetensors: tensor: "c": want one of "b:c"`},
		{"broken.safetensors", one, "broken.safetensors: file: 1 byte: want at least the 8 bytes of a header length"},
		{"nothing.safetensors", one, "nothing.safetensors: no such file or directory: want ..."},
		{"nothing.safetensors:x", one, "nothing.safetensors:x: no such file or directory: want ..."},
		{one, "", `"": an empty argument: want A B`},
		{one, ":x", ":x: no such file or directory: want ..."},
		{"one\x00", one, `one\x00: invalid argument: want ...`},
		{"a.txt", one, `a.txt: file type ".txt": want ...`},
		{"noext", one, `noext: file type "": want ...`},
		{"folder", one, "folder/trajectory.safetensors: no such file or directory..."},
		{dir + ":metrics", one, dir + `/trajectory.safetensors: tensor: "metrics": want one of ...`},
		{dir, one, dir + "/trajectory.safetensors:trajectory: shape [2 3 3 20 20]: want [2 3], that of one.safetensors:x"},
	} {
		refrun(t, "compare", k.a, k.b, "--json").Refused(t, "compare", k.want)
	}
	for _, args := range [][]string{{"x:y.safetensors:b:c", one}, {"x:y.safetensors", "./one.safetensors:x"}} {
		if r := refrun(t, "compare", args[0], args[1], "--max-abs=0"); r.Code != 0 {
			t.Errorf("%v: %s", args, r.Stderr)
		}
	}
	if r := refrun(t, "compare", dir+":metrics.energy", dir+"/trajectory.safetensors:metrics.energy",
		"--max-ulp=0"); r.Code != 0 {
		t.Errorf("diagnostics of a folder: %s", r.Stderr)
	}
}

// TestChaos: a difference that grows until it is as large as the states is
// called chaos, and one that does not grow, or not so far, is not.
func TestChaos(t *testing.T) {
	demo := filepath.Join(clitest.Root, "cmd/refrun/internal/run/demo")
	cs, err := rollout.OpenCase(demo)
	if err != nil {
		t.Fatal(err)
	}
	b, err := cs.ReadTrajectory()
	if err != nil {
		t.Fatal(err)
	}
	twin := func(size func(step int) float64) string {
		v := make([]float64, len(b.Data))
		for i := range v {
			step := i / b.CHW() % b.T
			v[i] = float64(float32(b.Data[i] + size(step)*float64(i%3-1)))
		}
		return clitest.Save(t, "twin.safetensors", clitest.Floats(t, "trajectory", "F32", []int{b.M, b.T, b.C, b.H, b.W},
			v...))
	}
	for _, k := range []struct {
		name    string
		size    func(step int) float64
		chaotic bool
		growth  [2]float64
	}{
		{"equal", func(int) float64 { return 0 }, false, [2]float64{0, 0}},
		{"grows to the end", func(t int) float64 { return 1e-6 * math.Pow(4, float64(t)) }, true, [2]float64{3.5, 4.5}},
		{"grows less far", func(t int) float64 { return 1e-6 * math.Pow(2, float64(t)) }, false, [2]float64{1.7, 2.3}},
		{"as large from the start", func(int) float64 { return 1 }, false, [2]float64{0, 0}},
		{"stays", func(int) float64 { return 1e-3 }, false, [2]float64{0.5, 1.05}},
	} {
		a := twin(k.size)
		out := refrun(t, "compare", a, demo, "--json").Decode(t)
		growth, _ := out["growth_per_step"].(float64) // left out if it is 0
		if out["chaotic"] != k.chaotic || growth < k.growth[0] || growth > k.growth[1] ||
			len(out["per_step"].([]any)) != b.T {
			t.Errorf("%s: chaotic %v, growth %v", k.name, out["chaotic"], growth)
		}
		if r := refrun(t, "compare", a, demo); r.Code != 0 ||
			strings.Contains(r.Stdout, "warning: the difference grows") != k.chaotic {
			t.Errorf("%s: exit code %d, text\n%s", k.name, r.Code, r.Stdout)
		}
	}
}
