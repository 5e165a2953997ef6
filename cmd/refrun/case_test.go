package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/safetensors"
)

// oneStep runs the case in this folder.
func oneStep(t *testing.T, dir string, flags ...string) clitest.Result {
	t.Helper()
	return refrun(t, append([]string{"run", "--one-step", "--json", "--case", dir}, flags...)...)
}

// A row is one thing that can be wrong with a case, and what the message says
// after the folder's name: file, field, value and expectation. "..." stands
// for anything.
type row struct {
	name string
	edit func(f *clitest.Folder)
	want string
}

// set is a row that changes one value of case.json.
func set(path string, v any, want string) row {
	return row{fmt.Sprintf("%s=%v", path, v), func(f *clitest.Folder) { f.Set(path, v) }, "case.json: " + path + ": " +
		want}
}

// text is a row with another case.json.
func text(json, want string) row {
	return row{json, func(f *clitest.Folder) { f.Raw["case.json"] = []byte(json) }, "case.json: " + want}
}

// literal is a row with a value of case.json that no JSON encoder writes.
func literal(path, value, want string) row {
	r := set(path, "\x00", want)
	r.name = path + "=" + value
	set := r.edit
	r.edit = func(f *clitest.Folder) {
		set(f)
		f.Raw["case.json"] = bytes.Replace(f.Bytes("case.json"), []byte(`"\u0000"`), []byte(value), 1)
	}
	return r
}

func refuse(t *testing.T, rows []row) {
	t.Helper()
	good := clitest.NewFolder(t)
	if r := oneStep(t, good.Write()); r.Code != 0 {
		t.Fatalf("the case without a fault is refused: %s", r.Stderr)
	}
	for _, k := range rows {
		t.Run(clip(k.name), func(t *testing.T) {
			f := clitest.NewFolder(t)
			k.edit(f)
			dir := f.Write()
			if !strings.Contains(k.want, "DIR/") {
				k.want = "DIR/" + k.want
			}
			oneStep(t, dir).Refused(t, "run", strings.ReplaceAll(k.want, "DIR", dir))
		})
	}
}

func clip(s string) string { return s[:min(len(s), 60)] }

func TestCaseJSON(t *testing.T) {
	const deep = 20000
	refuse(t, []row{
		text(``, `want a JSON object: EOF`),
		text(`null`, `want a JSON object`),
		text(`[]`, `want a JSON object`),
		text(`"case"`, `want a JSON object`),
		text("\xef\xbb\xbf{}", `want a JSON object: invalid character 'ï' looking for beginning of value`),
		text(`{"operator": {"num_layers`, `operator: broken JSON: unexpected EOF`),
		text(`{"operator": {}`, `broken JSON: EOF`),
		text(`{"operator": {},}`, `broken JSON: invalid character '}'...`),
		text(`{"operator" {}}`, `operator: broken JSON: ...`),
		text(`{operator: {}}`, `broken JSON: invalid character 'o'...`),
		text(`{'operator': {}}`, `broken JSON: invalid character '\''...`),
		text(`{} {}`, `text after the JSON object: want one object`),
		text(`{}}`, `text after the JSON object: want one object`),
		text(`{}]`, `text after the JSON object: want one object`),
		text(`{} x`, `text after the JSON object: want one object`),
		text("{}\x00", `text after the JSON object: want one object`),
		text(`{"note": 1, "note": 2}`, `note: given twice: want it once`),
		text(`{"operator": {"num_layers": 1, "num_l\u0061yers": 2}, "rollout": {}}`,
			`operator.num_layers: given twice: want it once`),
		text(`{"rollout": {"alpha": 0.1, "alpha": 0.2}, "operator": {}}`, `rollout.alpha: given twice: want it once`),
		text(`{}`, `operator: missing: want a value`),
		text(`{"operator": null, "rollout": null}`, `operator: missing: want a value`),
		text(`{"operator": {}}`, `rollout: missing: want a value`),
		text(`{"operator": [], "rollout": {}}`, `operator: want a JSON object`),
		text(`{"operator": {}, "rollout": 7}`, `rollout: want a JSON object`),
		text(`{"a":`+strings.Repeat("[", deep)+strings.Repeat("]", deep)+`}`, `a: broken JSON: ...`),
		text("{\"a\nb\": 1}", `broken JSON: invalid character '\n' in string literal`),
		set("version", 2, `2: want 1`),
		set("version", -1, `-1: want 1`),
		set("version", "1", `"1": want 1`),
		set("weights_seed", 1.5, `1.5: want an integer of 64 bits`),
		set("weights_seed", "1", `"1": want an integer of 64 bits`),
		literal("weights_seed", "18446744073709551616", `18446744073709551616: want an integer of 64 bits`),
		literal("weights_seed", "-9223372036854775809", `-9223372036854775809: want an integer of 64 bits`),
		set("produced_by", 7, `7: want a string`),
		set("note", []any{}, `[]: want a string`),
		set("torch", "1.13", `want a JSON object`),
		set("torch.version", 1.13, `1.13: want a string`),
		set("torch.mkl", "no", `"no": want true or false`),
		set("torch.sm_count", -1, `-1: want an integer from 0 to 1048576`),

		set("operator.dropout", 0.1, `unknown key: did you mean dropout_rate? want one of activation, ...`),
		set("operator.num_layers", nil, `missing: want a value`),
		set("operator.base_channels", nil, `missing: want a value`),
		set("operator.num_layers", -1, `-1: want an integer from 0 to 1024`),
		set("operator.num_layers", 1025, `1025: want an integer from 0 to 1024`),
		set("operator.num_layers", 2.5, `2.5: want an integer from 0 to 1024`),
		set("operator.num_layers", true, `true: want an integer from 0 to 1024`),
		literal("operator.num_layers", "1e1", `1e1: want an integer from 0 to 1024`),
		literal("operator.num_layers", "99999999999999999999", `99999999999999999999: want an integer from 0 to 1024`),
		set("operator.base_channels", 0, `0: want an integer from 1 to 65536`),
		set("operator.input_channels", 0, `0: want an integer from 1 to 65536`),
		set("operator.output_channels", 4, `4: want 3, as many as input_channels, to step a state`),
		set("operator.kernel_size", 0, `0: want an integer from 1 to 255`),
		set("operator.kernel_size", 4, `4: want an odd number, so that padding by half of it keeps the image size`),
		set("operator.kernel_size", 257, `257: want an integer from 1 to 255`),
		set("operator.kernel_size", []any{3, 3}, `[3,3]: want an integer from 1 to 255`),
		set("operator.grid_size", 0, `0: want an integer from 1 to 65536`),
		set("operator.activation", "geglu",
			`unknown activation "geglu": want one of none, relu, gelu, gelu_tanh, silu, tanh...`),
		set("operator.activation", 1, `1: want a string`),
		set("operator.normalization", "spectral", `"spectral": want instance, batch, group, layer or none`),
		set("operator.dropout_rate", 1.5, `1.5: want a number from 0 to 1`),
		set("operator.dropout_rate", -0.1, `-0.1: want a number from 0 to 1`),
		set("operator.dropout_rate", "0.1", `"0.1": want a finite number`),
		set("operator.noise_type", "pink",
			`unknown noise type "pink": want one of gaussian, laplace, dropout, multiplicative`),
		set("operator.noise_scale", "NaN", `"NaN": want a finite number`),
		literal("operator.noise_scale", "1e400", `1e400: want a finite number`),
		set("operator.noise_scale", 1e39, `1e+39: want a finite float32`),

		set("rollout.alhpa", 0.5, `unknown key: did you mean alpha? want one of alpha, autocast, ...`),
		set("rollout.num_timesteps", nil, `missing: want a value`),
		set("rollout.num_realizations", nil, `missing: want a value`),
		set("rollout.num_timesteps", 0, `0: want an integer from 1 to 16777216`),
		set("rollout.num_timesteps", "10", `"10": want an integer from 1 to 16777216`),
		set("rollout.num_timesteps", int64(1)<<31, `2147483648: want an integer from 1 to 16777216`),
		set("rollout.num_realizations", 0, `0: want an integer from 1 to 1048576`),
		set("rollout.engine_batch", 0, `0: want an integer from 1 to 2147483647`),
		set("rollout.engine_batch", -1, `-1: want an integer from 1 to 2147483647`),
		set("rollout.alpha", 1, `1: want a number in [0,1)`),
		set("rollout.alpha", -0.1, `-0.1: want a number in [0,1)`),
		set("rollout.alpha", "nan", `"nan": want a finite number`),
		literal("rollout.alpha", "1e400", `1e400: want a finite number`),
		{"alpha=NaN", literal("rollout.alpha", "NaN", "").edit,
			`case.json: rollout: broken JSON: invalid character 'N' looking for beginning of value`},
		set("rollout.dt", 0, `0: want a float32 number greater than 0`),
		set("rollout.dt", -0.5, `-0.5: want a float32 number greater than 0`),
		set("rollout.clamp_range", []any{1}, `[1]: want two numbers, the lower one first`),
		set("rollout.clamp_range", []any{}, `[]: want two numbers, the lower one first`),
		set("rollout.clamp_range", []any{1, 0}, `[1 0]: want two numbers, the lower one first`),
		set("rollout.clamp_range", []any{0, 1, 2}, `[0 1 2]: want two numbers, the lower one first`),
		set("rollout.clamp_range", 3, `3: want a list of finite numbers`),
		set("rollout.clamp_range", []any{nil, 1}, `[null,1]: want a list of finite numbers`),
		set("rollout.clamp_range", []any{[]any{0}, 1}, `[[0],1]: want a list of finite numbers`),
		literal("rollout.clamp_range", "[0, 1e400]", `[0, 1e400]: want a list of finite numbers`),
		set("rollout.policy_type", "euler", `"euler": want autoregressive, residual or convex`),
		set("rollout.normalization", "max", `"max": want minmax, zscore or none`),
		set("rollout.autocast", "mps", `unknown autocast "mps": want cuda or cpu, ...`),
		set("rollout.precision", "float17",
			`unknown number format "float17": want one of float64, float32, tf32, float16, bfloat16`),
		set("rollout.precision", "tf32:up", `unknown rounding "up": want ...`),
		set("rollout.precision", "float16:away",
			`precision "float16:away": want a rounding after tf32 only, and fast after float32 only`),
		literal("rollout.base_seed", "18446744073709551616", `18446744073709551616: want an integer of 64 bits`),
		set("rollout.base_seed", 0.5, `0.5: want an integer of 64 bits`),
	})
}

// TestClaims holds case.json to what the files contain: what it merely claims
// must not cost memory.
func TestClaims(t *testing.T) {
	const most = 1<<31 - 1
	for _, k := range []row{
		{"T", func(f *clitest.Folder) { f.Set("rollout.num_timesteps", 1<<24) },
			"trajectory.safetensors: trajectory: shape [2 3 3 20 20]: want [2,16777216,3,H,W] as case.json says"},
		{"M", func(f *clitest.Folder) { f.Set("rollout.num_realizations", 1<<20) },
			"trajectory.safetensors: trajectory: shape [2 3 3 20 20]: want [1048576,3,3,H,W] as case.json says"},
		{"layers", func(f *clitest.Folder) { f.Set("operator.num_layers", 1024) },
			"weights.safetensors: conv_blocks.1.blocks.0.block.0.weight: missing: ..."},
		{"channels", func(f *clitest.Folder) { f.Set("operator.base_channels", 65536) },
			"case.json: operator.base_channels: " +
				"65536: want fewer: the operator would have 1.16e+11 weights, and 2.68e+08 are the most"},
		{"everything", func(f *clitest.Folder) {
			f.Set("operator.base_channels", 65536)
			f.Set("operator.kernel_size", 255)
			f.Set("operator.num_layers", 1024)
		}, "case.json: operator.base_channels: 65536: want fewer: ..."},
		{"header length", func(f *clitest.Folder) {
			f.Raw["weights.safetensors"] = append(binary.LittleEndian.AppendUint64(nil, 1<<60), "{}"...)
		}, "weights.safetensors: header length: 1152921504606846976: want at most 2, ..."},
		{"shape", func(f *clitest.Folder) {
			f.Raw["trajectory.safetensors"] = withHeader(`{"trajectory":{"dtype":"F32",`+
				`"shape":[4294967296,4294967296,0],"data_offsets":[0,0]}}`, 0)
		}, `trajectory.safetensors: "trajectory" shape: [4294967296,4294967296,0]: want fewer bytes of F32 than ` +
			`an int counts`},
	} {
		t.Run(k.name, func(t *testing.T) {
			f := clitest.NewFolder(t)
			k.edit(f)
			dir := f.Write()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			oneStep(t, dir).Refused(t, "run", dir+"/"+k.want)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
				t.Errorf("%d bytes were allocated for a claim", used)
			}
		})
	}
	// An engine batch beyond the realizations is none: they are one batch.
	f := clitest.NewFolder(t)
	want := oneStep(t, f.Write()).Decode(t)["digest"]
	f.Set("rollout.engine_batch", most)
	if got := oneStep(t, f.Write()).Decode(t)["digest"]; got != want {
		t.Errorf("engine_batch %d: digest %v, want that of engine_batch 4, %v", most, got, want)
	}
}

// withHeader returns a safetensors file with this header and n bytes of data.
func withHeader(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func TestCaseFiles(t *testing.T) {
	const conv, norm = "conv_blocks.1.block.0", "conv_blocks.1.block.1"
	file := func(name, header string, n int, want string) row {
		return row{name + header, func(f *clitest.Folder) { f.Raw[name+".safetensors"] = withHeader(header, n) },
			name + ".safetensors: " + want}
	}
	put := func(file string, x *safetensors.Tensor, want string) row {
		return row{file + " " + x.Name, func(f *clitest.Folder) { f.Put(file, x) }, file + ".safetensors: " + want}
	}
	poke := func(file, name string, i int, v float64, want string) row {
		return row{fmt.Sprint(file, " ", name, i, v), func(f *clitest.Folder) { f.Poke(file, name, i, v) },
			file + ".safetensors: " + want}
	}
	gone := func(file string) func(f *clitest.Folder) { return func(f *clitest.Folder) { delete(f.File, file) } }
	rows := []row{
		{"no weights", func(f *clitest.Folder) { delete(f.File, "weights"); f.Set("weights_seed", nil) },
			"weights.safetensors: missing: want this file, or weights_seed in case.json"},
		file("weights", `{}`, 0, "conv_blocks.0.block.0.weight: missing: want a tensor of shape [5 3 3 3]"),
		file("weights", `[]`, 0, `header: "[]": want a JSON object, beginning with {`),
		file("weights", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],`+
			`"data_offsets":[2,6]}}`, 6, `"b" data_offsets: [2,6]: want to begin at 4, where the data before it end`),
		file("weights", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],`+
			`"data_offsets":[8,12]}}`, 12,
			`"b" data_offsets: [8,12]: want to begin at 4, where the data before it end`),
		file("weights", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 4,
			`"a" data_offsets: [4,8]: want an end within the 4 bytes after the header`),
		file("weights", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4,
			`"a" data_offsets: [4,0]: want begin <= end`),
		file("weights", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4,
			`"a" data_offsets: -4: want integers from 0 to 2^63-1`),
		file("weights", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],`+
			`"data_offsets":[4,8]}}`, 8, `header: "a": want each name once`),
		file("weights", `{"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}`, 4, `"a" dtype: "F31": want one of ...`),
		file("weights", `{"\u001b[2J\n":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4,
			`conv_blocks.0.block.0.weight: missing: want a tensor of shape [5 3 3 3]`),
		put("weights", clitest.Zeros(t, "\x1b[2J\nrefrun: ok", "F32", 1),
			`\x1b[2J\nrefrun: ok: unknown tensor: the operator has no such parameter`),
		put("weights", clitest.Zeros(t, "conv_blocks.3.block.0.weight", "F32", 1),
			"conv_blocks.3.block.0.weight: unknown tensor: the operator has no such parameter"),
		put("weights", clitest.Zeros(t, conv+".weight", "F32", 5, 5, 3), conv+".weight: shape [5 5 3]: want [5 5 3 3]"),
		put("weights", clitest.Zeros(t, conv+".weight", "F32", 5, 5, 9), conv+".weight: shape [5 5 9]: want [5 5 3 3]"),
		put("weights", clitest.Zeros(t, conv+".weight", "F32", 0), conv+".weight: shape [0]: want [5 5 3 3]"),
		put("weights", clitest.Zeros(t, conv+".weight", "F16", 5, 5, 3, 3), conv+".weight: dtype F16: want F32"),
		put("weights", clitest.Zeros(t, norm+".num_batches_tracked", "F32", 1),
			norm+".num_batches_tracked: dtype F32: want I64"),
		poke("weights", conv+".weight", 7, math.NaN(), conv+".weight: element 7 is NaN: want finite numbers"),
		poke("weights", conv+".weight", 0, math.Inf(-1), conv+".weight: element 0 is -Inf: want finite numbers"),
		poke("weights", norm+".running_var", 3, -1, norm+".running_var: element 3 is -1: want 0 or more"),
		{"a bias with a norm", func(f *clitest.Folder) { f.Put("weights", clitest.Zeros(t, conv+".bias", "F32", 5)) },
			"weights.safetensors: " + conv + ".bias: unknown tensor: the operator has no such parameter"},
		{"a missing weight", func(f *clitest.Folder) { f.Drop("weights", "output_layer.conv.bias") },
			"weights.safetensors: output_layer.conv.bias: missing: want a tensor of shape [3]"},
		{"group norm", func(f *clitest.Folder) {
			f.Set("operator.normalization", "group")
			f.Set("operator.base_channels", 33)
		}, "case.json: operator.normalization: group norm of 33 channels: " +
			"want a number of channels that its 32 groups divide"},
		{"dropout noise", func(f *clitest.Folder) {
			f.Set("operator.noise_type", "dropout")
			f.Poke("weights", "stochastic_block.noise_scale", 0, 1.5)
		}, "weights.safetensors: stochastic_block.noise_scale: 1.5: " +
			"want a probability from 0 to 1, since the noise is dropout"},

		{"no trajectory", gone("trajectory"), "trajectory.safetensors: missing: want the recorded trajectory"},
		{"another tensor", func(f *clitest.Folder) { f.Drop("trajectory", "trajectory") },
			`trajectory.safetensors: tensor: "trajectory": want one of "initial_condition", ...`},
		put("trajectory", clitest.Zeros(t, "trajectory", "F32", 2, 3, 3, 400),
			"trajectory: shape [2 3 3 400]: want [2,3,3,H,W] as case.json says"),
		put("trajectory", clitest.Zeros(t, "trajectory", "F32", 2, 4, 3, 20, 20),
			"trajectory: shape [2 4 3 20 20]: want [2,3,3,H,W] as case.json says"),
		put("trajectory", clitest.Zeros(t, "trajectory", "F32", 2, 3, 3, 0, 20),
			"trajectory: shape [2 3 3 0 20]: want [2,3,3,H,W] as case.json says"),
		put("trajectory", clitest.Zeros(t, "trajectory", "F32", 2, 3, 3, 20, 0),
			"trajectory: shape [2 3 3 20 0]: want [2,3,3,H,W] as case.json says"),
		put("trajectory", clitest.Zeros(t, "trajectory", "I64", 2, 3, 3, 20, 20),
			`"trajectory" dtype: I64: want F64, F32, F16 or BF16`),
		{"off the grid", func(f *clitest.Folder) {
			f.Retype("F64", 0)
			f.Poke("trajectory", "trajectory", 1300, 0.1)
		}, "trajectory.safetensors: trajectory: element 1300 is 0.1: want float32 numbers, or --precision float64"},
		{"one state", func(f *clitest.Folder) {
			f.Set("rollout.num_timesteps", 1)
			f.Put("trajectory", clitest.Zeros(t, "trajectory", "F32", 2, 1, 3, 20, 20))
		}, "trajectory.safetensors: trajectory: 1 state: want at least 2 to compare a step"},

		{"another size", func(f *clitest.Folder) { f.Put("noise", clitest.Zeros(t, "batch0", "F32", 2, 2, 10, 20, 19)) },
			"step 1: stochastic_block: DIR/noise.safetensors: batch0: shape [2,2,10,20,19]: want [2,2,10,20,20]"},
		put("noise", clitest.Zeros(t, "batch0", "F32", 1, 2, 10, 20, 20), "batch0: step 2: want a step from 1 to 1"),
		put("noise", clitest.Zeros(t, "batch0", "F32", 2, 1, 10, 20, 20),
			"batch0: shape [2,1,10,20,20]: want at least 2 realizations"),
		put("noise", clitest.Zeros(t, "batch0", "F32", 2, 2, 0, 20, 20), "batch0: shape [2,2,0,20,20]: want ..."),
		put("noise", clitest.Zeros(t, "batch0", "I32", 2, 2, 10, 20, 20), "batch0: dtype I32: want F32, F16, BF16 or F64"),
		put("noise", clitest.Zeros(t, "draws", "F32", 2, 2, 10, 20, 20),
			`"draws": unknown array: want batchK or batchK.drawI.KIND...`),
		poke("noise", "batch0", 5, math.NaN(), "batch0: value 5 is NaN: want finite float32 numbers"),
		{"one engine batch of two", func(f *clitest.Folder) { f.Set("rollout.engine_batch", 1) },
			"noise.safetensors: batch1: missing: want one of the 1 batches of the tape"},
		{"an empty tape", func(f *clitest.Folder) { f.File["noise"] = nil },
			"noise.safetensors: file: no arrays: want batch0 or batch0.draw0.KIND"},

		{"no version", func(f *clitest.Folder) { f.Drop("layers", "stochastic_block.draw"); f.Set("torch", nil) },
			`DIR/layers.safetensors: stochastic_block.draw: missing: want it, or a stream to draw from: ` +
				`DIR/case.json: torch.version: "": want a 1.13 or 2.x version, or --noise torch-cpu:1.13 or torch-cpu:2.x`},

		{"layers without input", func(f *clitest.Folder) { f.Drop("layers", "input") },
			`layers.safetensors: tensor: "input": want one of ...`},
		put("layers", clitest.Zeros(t, "input", "F32", 3, 20, 20),
			"input: shape [3 20 20]: want [N,C,H,W], all of 1 or more"),
		put("layers", clitest.Zeros(t, "input", "F32", 1, 4, 20, 20), "operator: input has 4 channels: want 3"),
		put("layers", clitest.Zeros(t, "input", "F32", 0, 3, 20, 20),
			"input: shape [0 3 20 20]: want [N,C,H,W], all of 1 or more"),
		put("layers", clitest.Zeros(t, "input", "F32", 1, 3, 0, 20),
			"input: shape [1 3 0 20]: want [N,C,H,W], all of 1 or more"),
		put("layers", clitest.Zeros(t, "input", "U8", 1, 3, 20, 20), `"input" dtype: U8: want F64, F32, F16 or BF16`),
		put("layers", clitest.Floats(t, "input", "F64", []int{1, 3, 1, 1}, 0, 0.1, 0),
			"input: element 1 is 0.1: want float32 numbers, or --precision float64"),
		put("layers", clitest.Zeros(t, conv, "F32", 1, 5, 20, 19), conv+": shape [1,5,20,19]: want [1,5,20,20]"),
		put("layers", clitest.Zeros(t, conv, "F32", 1), conv+": shape [1]: want [N,C,H,W], all of 1 or more"),
		put("layers", clitest.Zeros(t, conv, "BOOL", 1, 5, 20, 20), `"`+conv+`" dtype: BOOL: want F64, F32, F16 or BF16`),
		put("layers", clitest.Zeros(t, "stochastic_block.draw", "F32", 7),
			"stochastic_block: stochastic_block.draw: 7 numbers: want normal of shape [1 10 20 20]"),
		put("layers", clitest.Zeros(t, "stochastic_block.draw", "I8", 1, 10, 20, 20),
			`"stochastic_block.draw" dtype: I8: want F64, F32, F16 or BF16`),

		put("one_step_f64", clitest.Zeros(t, "one_step", "F64", 2, 3, 3, 20, 20),
			"one_step: shape [2 3 3 20 20]: want [2,2,3,H,W] as case.json says"),
		put("one_step_f64", clitest.Zeros(t, "one_step", "F64", 2, 2, 3, 20, 19),
			"one_step: images are 20x19: want 20x20 as in the trajectory"),
		put("one_step_f64", clitest.Zeros(t, "one_step", "U16", 2, 2, 3, 20, 20),
			`"one_step" dtype: U16: want F64, F32, F16 or BF16`),
		{"truth by another name", func(f *clitest.Folder) { f.File["one_step_f64"] = nil },
			`one_step_f64.safetensors: tensor: "one_step": want no tensor: the file has none`},
	}
	refuse(t, rows)
}

// TestTruncated cuts each file at every place where a reader could trip.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"weights", "trajectory", "noise", "layers", "one_step_f64"} {
		f := clitest.NewFolder(t)
		whole := f.Bytes(name + ".safetensors")
		header := 8 + int(binary.LittleEndian.Uint64(whole))
		dir := f.Write()
		for _, n := range []int{0, 1, 7, 8, 9, header / 2, header - 1, header, header + 1, len(whole) / 2, len(whole) -
			4, len(whole) - 1, len(whole) + 1} {
			data := append(whole[:min(n, len(whole)):min(n, len(whole))], make([]byte, max(0, n-len(whole)))...)
			if err := os.WriteFile(filepath.Join(dir, name+".safetensors"), data, 0o666); err != nil {
				t.Fatal(err)
			}
			oneStep(t, dir).Refused(t, "run", dir+"/"+name+".safetensors: ...")
			if t.Failed() {
				t.Fatalf("%s cut to %d of %d bytes", name, n, len(whole))
			}
		}
	}
}

// TestNotAFile puts something else where a file should be.
func TestNotAFile(t *testing.T) {
	for _, name := range []string{"case.json", "weights.safetensors", "trajectory.safetensors", "noise.safetensors",
		"layers.safetensors", "one_step_f64.safetensors"} {
		dir := clitest.NewFolder(t).Write()
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		oneStep(t, dir).Refused(t, "run", dir+"/"+name+": is a directory: want ...")
	}
	dir := clitest.NewFolder(t).Write()
	oneStep(t, filepath.Join(dir, "none")).Refused(t, "run",
		dir+"/none/case.json: no such file or directory: want a case folder with a case.json")
	oneStep(t, filepath.Join(dir, "case.json")).Refused(t, "run",
		dir+"/case.json: a file: want the folder of a case, here "+dir)
	oneStep(t, t.TempDir()).Refused(t, "run",
		"...case.json: no such file or directory: want a case folder with a case.json")
	oneStep(t, dir+"/a\xff\u200b").Refused(t, "run",
		dir+`/a\ufffd\u200b/case.json: no such file or directory: want a case folder with a case.json`)
	oneStep(t, "a\x00b").Refused(t, "run", `a\x00b/case.json: invalid argument: want a case folder with a case.json`)
}
