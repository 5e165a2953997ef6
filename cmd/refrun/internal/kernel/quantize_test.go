package kernel

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/internal/oracle/quantizer"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// quantizerFile has 64 numbers in two rows, what a quantizer makes of them, and what change makes of that.
func quantizerFile(t *testing.T, format, rule string, change func(of map[string]*safetensors.Tensor)) string {
	s, err := quantize.Parse(format, quantize.Options{Rule: rule})
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 2, 32)
	for i := range x.Data {
		x.Data[i] = float64(i*i%97-30) / 8
	}
	q, err := s.Quantize(x, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]*safetensors.Tensor{}
	floats := func(name string, shape []int, v []float64) {
		if of[name], err = safetensors.OfFloat64s(name, safetensors.F32, shape, v); err != nil {
			t.Fatal(err)
		}
	}
	codes := func(name string, d safetensors.DType, shape []int, v []byte) {
		if of[name], err = safetensors.New(name, d, shape, v); err != nil {
			t.Fatal(err)
		}
	}
	floats("input", x.Shape, x.Data)
	switch {
	case s.Kind == quantize.PowerOf2:
		scales := make([]byte, len(q.Scales))
		for i, v := range q.Scales {
			scales[i] = fp16.E8M0.Encode(v, fp16.Torch)
		}
		codes("scale", safetensors.F8_E8M0, []int{2, 1}, scales)
	case s.Kind == quantize.Float32:
		floats("scale", nil, q.Scales)
	}
	switch {
	case s.Element.Bits() == 4:
		codes("data", safetensors.U8, []int{2, 16}, quantize.Pack(q.Codes, false))
	case s.Element.Whole:
		codes("data", quantizedDTypes(s.Element)[0], x.Shape, q.Codes)
	default:
		codes("data", safetensors.F8_E4M3, x.Shape, q.Codes)
	}
	if rule == "minmax" {
		codes("zero_point", safetensors.U8, nil, []byte{byte(q.Zeros[0])})
	}
	if change != nil {
		change(of)
	}
	var all []*safetensors.Tensor
	for _, name := range []string{"input", "data", "scale", "zero_point", "output"} {
		if of[name] != nil {
			all = append(all, of[name])
		}
	}
	path := filepath.Join(t.TempDir(), "k.safetensors")
	if err := safetensors.WriteFile(path, all, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKernelQuantize: quantizers that are right pass, wrong ones fail by name, and what does not fit is said in a line.
func TestKernelQuantize(t *testing.T) {
	flip := func(of map[string]*safetensors.Tensor) { of["data"].Bytes()[5] ^= 0x11 }
	reshaped := func(name string, shape ...int) func(of map[string]*safetensors.Tensor) {
		return func(of map[string]*safetensors.Tensor) { of[name].Shape = shape }
	}
	for _, c := range []struct {
		format, rule, attr string
		change             func(of map[string]*safetensors.Tensor)
		code               int
		want               string
	}{
		{"mxfp8_e4m3", "floor", "rule=floor", nil, cli.ExitOK, "PASS  quantize to mxfp8_e4m3, floor\n"},
		{"mxfp4_e2m1", "rceil", "rule=rceil", nil, cli.ExitOK, "PASS  quantize to mxfp4_e2m1, rceil\n"},
		{"mxfp4_e2m1", "floor", "order=high", nil, cli.ExitFailed, "fault: the two numbers of a byte are swapped\n"},
		{"mxfp8_e4m3", "ceil", "rule=floor", nil, cli.ExitFailed, "fault: scales are by ceil\n"},
		{"mxfp8_e4m3", "floor", "rule=floor", flip, cli.ExitFailed, "data: 1 of 64 are wrong, first [0 5]"},
		{"fp8_e4m3", "amax", "block=tensor", nil, cli.ExitOK, "scale: all 1 are right"},
		{"uint8", "minmax", "rule=minmax", nil, cli.ExitOK, "zero_point: all 1 are right"},
		{"uint8", "minmax", "rule=minmax", func(of map[string]*safetensors.Tensor) { of["zero_point"].Bytes()[0]++ },
			cli.ExitFailed, "zero_point: 1 of 1 are wrong"},
		{"uint8", "minmax", "rule=minmax", func(of map[string]*safetensors.Tensor) { delete(of, "zero_point") },
			cli.ExitUsage, "no tensor zero_point: want it by the rule minmax"},
		{"float8_e4m3fn", "", "cast=torch", nil, cli.ExitOK, "PASS  quantize to float8_e4m3fn\n"},
		{"mxfp8_e4m3", "floor", "rule=up", nil, cli.ExitUsage,
			`rule: "up": want one of [floor ceil even rceil given] for mxfp8_e4m3`},
		{"mxfp8_e4m3", "floor", "format=mxfp9", nil, cli.ExitUsage, `format: "mxfp9": want one of mxfp8_e4m3, `},
		{"mxfp8_e4m3", "floor", "axis=0", nil, cli.ExitUsage,
			"axis: 0: 2 numbers are no whole blocks of 32, which mxfp8_e4m3 has"},
		{"mxfp8_e4m3", "floor", "axis=7", nil, cli.ExitUsage, "axis: 7: want one of the input's 2 axes"},
		{"mxfp8_e4m3", "floor", "block=64", nil, cli.ExitUsage,
			`block: "64": want none for mxfp8_e4m3, whose blocks are given`},
		{"fp8_e4m3", "amax", "block=0x128", nil, cli.ExitUsage,
			`block: "0x128": want tensor, row, channel, N or MxN, as in 1x128`},
		{"fp8_e4m3", "amax", "block=1x16", nil, cli.ExitUsage, "scale: shape []: want [2 2], one for each block of [1 16]"},
		{"fp8_e4m3", "amax", "eps=-1", nil, cli.ExitUsage, "eps: -1: want a number from 0 on"},
		{"mxfp8_e4m3", "floor", "size=64", nil, cli.ExitUsage,
			`--attr: "size": no such attribute: want axis, block, cast, eps, format, order, rounding, rule`},
		{"mxfp8_e4m3", "floor", "rule=floor", func(of map[string]*safetensors.Tensor) { delete(of, "scale") },
			cli.ExitUsage, `no tensor "scale": want it beside`},
		{"mxfp8_e4m3", "floor", "rule=floor", reshaped("scale", 1, 2), cli.ExitOK, "PASS"}, // axes of one place do not count
		{"mxfp8_e4m3", "floor", "rule=floor", reshaped("data", 4, 16), cli.ExitUsage,
			"data: shape [4 16]: want the input's, [2 32]"},
		{"fp8_e4m3", "amax", "format=int8", nil, cli.ExitUsage, "data: dtype F8_E4M3: want [I8]"},
		{"fp8_e4m3", "amax", "format=mxfp8_e4m3",
			func(of map[string]*safetensors.Tensor) { of["scale"].Shape = []int{1} }, cli.ExitUsage, "scale: "},
	} {
		args := []string{"kernel", quantizerFile(t, c.format, c.rule, c.change), "--op", "quantize"}
		if !strings.HasPrefix(c.attr, "format=") {
			args = append(args, "--attr", "format="+c.format)
		}
		r := refrun(t, append(args, "--attr", c.attr)...)
		if r.Code != c.code || !strings.Contains(r.Stdout+r.Stderr, c.want) ||
			c.code == cli.ExitUsage && strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("%s %s: exit code %d, %s%s, want %d, %s", c.format, c.attr, r.Code, r.Stdout, r.Stderr, c.code, c.want)
		}
	}
	path := quantizerFile(t, "mxfp8_e4m3", "ceil", nil)
	for flag, value := range map[string]string{
		"--precision": "E4M3", "--store": "float16", "--schedule": "split_k=2", "--accumulate": "float16",
	} {
		if r := refrun(t, "kernel", path, "--op", "quantize", "--attr", "format=mxfp8_e4m3", flag, value); r.Code !=
			cli.ExitUsage || !strings.Contains(r.Stderr, flag+": says nothing of quantize") {
			t.Errorf("%s: %d %s", flag, r.Code, r.Stderr)
		}
	}
	out := refrun(t, "kernel", path, "--op", "quantize", "--attr", "format=mxfp8_e4m3", "--json", "--report",
		filepath.Join(t.TempDir(), "r.html")).Decode(t)
	clitest.Has(t, "kernel", out, object{"verdict": word, "op": word, "format": word, "rule": word, "reason": word,
		"fault": word, "fault_id": word, "advice": word, "diagnosis": word, "text": word, "outputs": []any{object{
			"name": word, "verdict": word, "elements": number, "violations": number, "ways": []any{},
			"worst": object{"index": []any{number}, "got": word, "want": []any{word}},
		}}})
}

// TestKernelDequantize: numbers that come of codes and scales.
func TestKernelDequantize(t *testing.T) {
	s, err := quantize.Parse("mxfp4_e2m1", quantize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []bool{false, true} {
		path := quantizerFile(t, "mxfp4_e2m1", "floor", func(of map[string]*safetensors.Tensor) {
			q := &quantize.Tensor{Shape: []int{2, 32}, Codes: quantize.Unpack(of["data"].Bytes(), wrong), Global: 1}
			for _, code := range of["scale"].Bytes() {
				q.Scales = append(q.Scales, fp16.E8M0.Decode(code))
			}
			y, err := s.Dequantize(q, fp16.Float32)
			if err != nil {
				t.Fatal(err)
			}
			if of["output"], err = safetensors.OfFloat64s("output", safetensors.F32, y.Shape, y.Data); err != nil {
				t.Fatal(err)
			}
			delete(of, "input")
		})
		r := refrun(t, "kernel", path, "--op", "dequantize", "--attr", "format=mxfp4")
		if want := []int{cli.ExitOK, cli.ExitFailed}; r.Code != want[map[bool]int{false: 0, true: 1}[wrong]] ||
			wrong && !strings.Contains(r.Stdout, "swapped") {
			t.Errorf("swapped %v: %d %s%s", wrong, r.Code, r.Stdout, r.Stderr)
		}
	}
}

// TestKernelOfNarrow: the inputs of any operation may be numbers of 8 bits.
func TestKernelOfNarrow(t *testing.T) {
	codes := []byte{0x38, 0x40, 0xb8, 0x30, 0x44, 0x48, 0x4c, 0x50}
	var in []float64
	for _, c := range codes {
		in = append(in, fp16.E4M3.Decode(c))
	}
	x, err := safetensors.New("input", safetensors.F8_E4M3, []int{8}, codes)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []bool{false, true} {
		out := slices.Clone(in)
		for i, v := range out {
			if out[i] = max(v, 0); wrong {
				out[i] = v
			}
		}
		y, err := safetensors.OfFloat64s("output", safetensors.F32, []int{8}, out)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "k.safetensors")
		if err := safetensors.WriteFile(path, []*safetensors.Tensor{x, y}, nil); err != nil {
			t.Fatal(err)
		}
		if r := refrun(t, "kernel", path, "--op", "relu"); (r.Code == cli.ExitOK) == wrong {
			t.Errorf("wrong %v: %d %s%s", wrong, r.Code, r.Stdout, r.Stderr)
		}
	}
}

// TestKernelScaled: a product of float8 operands, and of two numbers a byte along K, right and with what does not fit.
func TestKernelScaled(t *testing.T) {
	ones := func(n int, code byte) []byte { return slices.Repeat([]byte{code}, n) }
	write := func(packed bool, scale, right float64) string {
		var all []*safetensors.Tensor
		add := func(x *safetensors.Tensor, err error) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		if packed { // 1 and 0.5 along K
			add(safetensors.New("input", safetensors.U8, []int{2, 2}, ones(4, 0x12)))
			add(safetensors.New("other", safetensors.U8, []int{2, 3}, []byte{0x12, 0x12, 0x12, 0x22, 0x22, 0x22}))
			right *= 1 + 0.25 + 1 + 0.5
		} else {
			add(safetensors.New("input", safetensors.F8_E4M3, []int{2, 4}, ones(8, 0x38)))
			add(safetensors.New("other", safetensors.F8_E5M2, []int{4, 3}, slices.Concat(ones(6, 0x3c), ones(6, 0x40))))
			right *= 6
		}
		add(safetensors.OfFloat64s("scale_a", safetensors.F32, []int{2}, []float64{scale, 2 * scale}))
		add(safetensors.OfFloat64s("scale_b", safetensors.F32, nil, []float64{1}))
		add(safetensors.OfFloat64s("output", safetensors.F32, []int{2, 3},
			[]float64{right, right, right, 2 * right, 2 * right, 2 * right}))
		path := filepath.Join(t.TempDir(), "k.safetensors")
		if err := safetensors.WriteFile(path, all, nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		packed       bool
		scale, right float64
		attr         string
		code         int
		want         string
	}{
		{false, 0.5, 0.5, "", cli.ExitOK, "scales on the"},
		{false, 0.5, 1, "", cli.ExitFailed, "FAIL"},
		{true, 0.5, 0.5, "format=mxfp4", cli.ExitOK, "PASS"},
		{true, 0.5, 0.5, "", cli.ExitUsage, "input: dtype U8"},
		{false, 0.5, 0.5, "order=high", cli.ExitUsage, `order: "high": want it with a format of 4 bits`},
		{false, 0.5, 0.5, "format=mxfp9", cli.ExitUsage, `format: "mxfp9"`},
	} {
		args := []string{"kernel", write(c.packed, c.scale, c.right), "--op", "scaled_mm"}
		if c.attr != "" {
			args = append(args, "--attr", c.attr)
		}
		if r := refrun(t, args...); r.Code != c.code || !strings.Contains(r.Stdout+r.Stderr, c.want) {
			t.Errorf("%+v: %d %s%s", c, r.Code, r.Stdout, r.Stderr)
		}
	}
}

// quantizerPairs are the sentences about quantizers.
func quantizerPairs() []clitest.Pair {
	say := func(change func(r *quantizer.Report, o *quantizer.Output)) string {
		r := &quantizer.Report{Verdict: quantizer.Pass, Op: "quantize", Format: "nvfp4",
			Outputs: []quantizer.Output{{Name: "data", Elements: 64, Ways: []string{"division"}}}}
		change(r, &r.Outputs[0])
		return quantizerText(r)
	}
	right := say(func(*quantizer.Report, *quantizer.Output) {})
	wrong := say(func(r *quantizer.Report, o *quantizer.Output) {
		r.Verdict, r.Reason, r.Fault, r.Advice, r.Unexplained = quantizer.Fail, "reason", "f", "a", 3
		o.Violations, o.Worst = 5, &quantizer.Worst{Index: []int{1}, Got: "2", Want: []string{"3", "4"}}
	})
	mixed := say(func(_ *quantizer.Report, o *quantizer.Output) { o.Ways = nil })
	several := say(func(_ *quantizer.Report, o *quantizer.Output) { o.Ways = []string{"division", "product"} })
	blind := say(func(r *quantizer.Report, _ *quantizer.Output) { r.Blind = []string{"quantize.truncated"} })
	return []clitest.Pair{
		{Says: "fault: f\n", Is: wrong, IsNot: right},
		{Says: "to do: a\n", Is: wrong, IsNot: right},
		{Says: "this fault does not explain 3 numbers\n", Is: wrong, IsNot: right},
		{Says: "data: 5 of 64 are wrong, first [1]: 2, right is 3 or 4\n", Is: wrong, IsNot: right},
		{Says: "data: all 64 are right by division\n", Is: right, IsNot: wrong},
		{Says: ", each by one or another of the right ways\n", Is: mixed, IsNot: right},
		{Says: "; or by product\n", Is: several, IsNot: right},
		{Says: "this data would not show: truncated\n", Is: blind, IsNot: right},
	}
}
