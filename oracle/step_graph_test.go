package oracle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// stepGraph is a cell with a hidden state on a line of prime length, of the state before the last, with a static field,
// a forcing and two noises.
const stepGraph = `{"version": 1, "weights": "weights.safetensors", "inputs": [
 {"name": "state", "shape": [2, 3, 101]}, {"name": "state.1", "shape": [2, 3, 101]},
 {"name": "state.h", "shape": [2, 4, 101]},
 {"name": "static.grid", "shape": [1, 1, 101]}, {"name": "forcing.f", "shape": [3, 1]},
 {"name": "noise.add", "shape": [2, 3, 101]},
 {"name": "noise.times", "shape": [2, 3, 101]}],
"nodes": [
 {"op": "sub", "name": "rate", "in": ["state", "state.1"]},
 {"op": "add", "name": "forced", "in": ["rate", "forcing.f"]},
 {"op": "cat", "name": "all", "in": ["state", "forced", "state.h"], "attributes": {"dim": 1}},
 {"op": "conv1d", "name": "gate", "in": ["all", "w"], "attributes": {"padding": 1}},
 {"op": "tanh", "name": "h", "in": ["gate"]},
 {"op": "conv1d", "name": "out", "in": ["h", "v"], "attributes": {"padding": 1}},
 {"op": "mul", "name": "placed", "in": ["out", "static.grid"]},
 {"op": "mul", "name": "t", "in": ["noise.times"], "attributes": {"other": 0.1}},
 {"op": "add", "name": "t1", "in": ["t"], "attributes": {"other": 1}},
 {"op": "mul", "name": "wild", "in": ["placed", "t1"]},
 {"op": "mul", "name": "a", "in": ["noise.add"], "attributes": {"other": 0.05}},
 {"op": "mul", "name": "kept", "in": ["state"], "attributes": {"other": 0.9}},
 {"op": "add", "name": "moved", "in": ["kept", "wild"]},
 {"op": "add", "name": "next", "in": ["moved", "a"]}],
"outputs": ["next", "h"]}`

const stepCase = `{"version": 1, "step": "step.json", "rollout": {"num_timesteps": 8, "num_realizations": 2}}`

// stepCaseAt writes a case of a step graph, with numbers for all that it reads and no trajectory.
func stepCaseAt(t *testing.T, dir, graph string) {
	t.Helper()
	for name, text := range map[string]string{"case.json": stepCase, "step.json": graph} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	k := uint64(0)
	some := func(name string, shape ...int) *safetensors.Tensor {
		k++
		d, err := noise.Counter{Seed: 3}.At(int(k), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float64, tensor.Size(shape))
		if err := d.Draw(noise.Normal, 0, []int{1, len(x)}, x); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			x[i] = fp16.Float32.Round(.5 * x[i])
		}
		of, err := safetensors.OfFloat64s(name, safetensors.F32, shape, x)
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	write := func(name string, all ...*safetensors.Tensor) {
		if err := safetensors.WriteFile(filepath.Join(dir, name), all, nil); err != nil {
			t.Fatal(err)
		}
	}
	write("weights.safetensors", some("w", 4, 10, 3), some("v", 3, 4, 3))
	write("inputs.safetensors", some("static.grid", 1, 1, 101), some("forcing.f", 7, 3, 1),
		some("noise.add", 2, 7, 2, 3, 101), some("noise.times", 2, 7, 2, 3, 101))
	write("trajectory.safetensors", some("initial_condition", 2, 3, 101), some("initial_condition.1", 2, 2, 3, 101),
		some("initial_condition.h", 2, 4, 101))
}

// stepDevice writes the trajectory that a device of a mode makes of a case: from step 3 on of inputs that spoil
// changes, or with the results alone that are named in bfloat16, if there are some.
func stepDevice(t *testing.T, dir string, mode graph.Mode, spoil func(c *rollout.Case, m, at int, in []*tensor.Tensor),
	stored ...string) *rollout.Case {
	t.Helper()
	c, err := rollout.OpenCase(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := c.Step
	of := make([][]float64, len(g.States))
	start, err := safetensors.Open(filepath.Join(dir, "trajectory.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []*safetensors.Tensor
	for _, name := range start.Names() {
		x, err := start.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, x)
	}
	for m := range c.Rollout.Realizations {
		states := map[[2]int]*tensor.Tensor{} // by state and time
		for i, s := range g.States {
			for back := 0; back <= s.Past; back++ {
				x, err := c.Before(i, m, back)
				if err != nil {
					t.Fatal(err)
				}
				states[[2]int{i, -back}] = tensor.Of(mode.Wide(), x, s.Shape...)
			}
			of[i] = append(of[i], states[[2]int{i, 0}].Data...)
		}
		for at := 1; at < c.Rollout.Timesteps; at++ {
			var in []*tensor.Tensor
			for k, i := range g.Inputs {
				x := states[[2]int{i.State, at - 1 - i.Age}]
				if i.Kind != "state" {
					if x, err = g.Given(k, m, at); err != nil {
						t.Fatal(err)
					}
				}
				if mode.Precision == fp16.Float64 && x.Format != fp16.Int64 {
					x = tensor.Of(fp16.Float64, x.Data, x.Shape...)
				}
				in = append(in, x)
			}
			if spoil != nil && at >= 3 {
				spoil(c, m, at, in)
			}
			var types []graph.Type
			for _, x := range in {
				types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
			}
			var out []*tensor.Tensor
			if len(stored) > 0 {
				out, err = storing(g.Network.Graph, in, stored)
			} else {
				var p *graph.Program
				if p, err = g.Network.Graph.Infer(mode, types...); err == nil {
					out, err = p.Run(new(graph.Run), in...)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, y := range out {
				states[[2]int{i, at}] = y
				of[i] = append(of[i], y.Data...)
			}
		}
	}
	for i, s := range g.States {
		shape := append([]int{c.Rollout.Realizations, c.Rollout.Timesteps}, s.Shape...)
		x, err := safetensors.OfFloat64s(strings.TrimSuffix("trajectory."+s.Name, "."), safetensors.DTypeOf(mode.Wide()),
			shape, of[i])
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, x)
	}
	if err := safetensors.WriteFile(filepath.Join(dir, "trajectory.safetensors"), kept, nil); err != nil {
		t.Fatal(err)
	}
	if c, err = rollout.OpenCase(dir); err != nil {
		t.Fatal(err)
	}
	return c
}

// storing evaluates a graph in float64, with constants and some results in bfloat16.
func storing(g *graph.Graph, in []*tensor.Tensor, results []string) ([]*tensor.Tensor, error) {
	half := *g
	half.Values, half.Kept = slices.Clone(g.Values), new(graph.Kept)
	for v := range half.Values {
		if t := half.Values[v].Const; t != nil {
			half.Values[v].Const = tensor.Of(fp16.Float64, lower.Rounded(t, fp16.BFloat16).Data, t.Shape...)
		}
	}
	var wide []*tensor.Tensor
	var types []graph.Type
	for _, x := range in {
		wide = append(wide, tensor.Of(fp16.Float64, x.Data, x.Shape...))
		types = append(types, graph.Type{Shape: x.Shape, Format: fp16.Float64})
	}
	p, err := half.Infer(graph.Mode{Precision: fp16.Float64}, types...)
	if err != nil {
		return nil, err
	}
	out, err := p.Run(&graph.Run{Seen: func(v int, t *tensor.Tensor) {
		if slices.Contains(results, half.Values[v].Name) {
			fp16.BFloat16.RoundSlice(t.Data, t.Data)
		}
	}}, wide...)
	for i := range out {
		out[i] = lower.Rounded(out[i], fp16.Float32)
	}
	return out, err
}

// TestFewerRoundings: a device that keeps some results of a claim in registers, and stores the others, is right,
// whichever they are; with what makes it wrong it fails at its step. Of a product and its absolute value neither
// rounding shows without the other.
func TestFewerRoundings(t *testing.T) {
	t.Parallel()
	mode, err := graph.ParseMode("bfloat16", "cpu")
	if err != nil {
		t.Fatal(err)
	}
	swapped := func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) { in[0], in[1] = in[1], in[0] }
	sized := strings.Replace(stepGraph, `{"op": "tanh", "name": "h", "in": ["gate"]}`,
		`{"op": "abs", "name": "size", "in": ["gate"]},
 {"op": "mul", "name": "h", "in": ["size"], "attributes": {"other": 0.7}}`, 1)
	for i, d := range []struct{ graph, stored string }{
		{stepGraph, "all gate h out"},
		{stepGraph, "all h out"},
		{stepGraph, "all gate h"},
		{stepGraph, "all h"},
		{sized, "all h out"}, // and not gate, size
	} {
		t.Run(d.stored, func(t *testing.T) {
			t.Parallel()
			for _, spoil := range []func(*rollout.Case, int, int, []*tensor.Tensor){nil, swapped} {
				if spoil != nil && !share.All() && i%3 > 0 { // why it fails is looked for at length
					continue
				}
				dir := t.TempDir()
				stepCaseAt(t, dir, d.graph)
				c := stepDevice(t, dir, mode, spoil, strings.Fields(d.stored)...)
				r, err := CheckCase(t.Context(), c, CheckOptions{Mode: mode})
				switch {
				case err != nil:
					t.Fatal(err)
				case spoil == nil && r.Verdict != report.PassConforming && r.Verdict != report.PassAccurate:
					t.Errorf("%s: %s: want a pass", r.Verdict, r.Reason)
				case spoil != nil && (!r.Verdict.Failed() || r.FirstStep != 3):
					t.Errorf("%s at step %d: want a failure at step 3", r.Verdict, r.FirstStep)
				}
			}
		})
	}
}

// earlier puts in place of input k what another step is given.
func earlier(k, by int) func(*rollout.Case, int, int, []*tensor.Tensor) {
	return func(c *rollout.Case, m, at int, in []*tensor.Tensor) {
		if at+by >= c.Rollout.Timesteps {
			by = 0
		}
		if x, err := c.Step.Given(k, m, at+by); err == nil {
			in[k] = x
		}
	}
}

// TestStepGraph: the rollout of a step graph, with a hidden state, a past one, a static field, forcing and noise, is
// judged state by state: right devices pass, and one that reads something else fails at its step, under a name where it
// has one.
func TestStepGraph(t *testing.T) {
	t.Parallel()
	for _, precision := range []string{"float32", "bfloat16"} {
		mode, err := graph.ParseMode(precision, "cpu")
		if precision == "float32" {
			mode, err = graph.ParseMode(precision, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, d := range map[string]struct {
			spoil func(c *rollout.Case, m, at int, in []*tensor.Tensor)
			says  string // "" of no name
		}{
			"right": {},
			"history swapped": {
				func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) { in[0], in[1] = in[1], in[0] },
				"past states in reverse order",
			},
			"forcing of the step before":   {earlier(4, -1), "forcing of the step before"},
			"forcing of the next step":     {earlier(4, 1), "forcing of the next step"},
			"one noise of the step before": {earlier(6, -1), ""},
			"stale state":                  {func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) { in[0] = in[1] }, ""},
			"the sign of the additive noise": {
				func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) { in[5] = negated(in[5]) }, "",
			},
			"hidden state that stays zero": {func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) {
				in[2] = tensor.New(in[2].Format, in[2].Shape...)
			}, ""},
		} {
			if precision != "float32" && name != "right" && name != "history swapped" {
				continue
			}
			t.Run(precision+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				stepCaseAt(t, dir, stepGraph)
				c := stepDevice(t, dir, mode, d.spoil)
				if in, err := safetensors.Open(filepath.Join(dir, "inputs.safetensors")); err != nil || !givenAt(in, c.Step) {
					t.Fatal("the forcing of step 3 is not the third one: ", err)
				}
				r, err := CheckCase(t.Context(), c, CheckOptions{Mode: mode})
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case d.spoil == nil && r.Verdict != report.PassConforming:
					t.Errorf("%s: %s: want a pass", r.Verdict, r.Reason)
				case d.spoil != nil && (!r.Verdict.Failed() || r.FirstStep != 3):
					t.Errorf("%s at step %d: want a failure at step 3", r.Verdict, r.FirstStep)
				case d.says != "" && r.Diagnosis != d.says:
					t.Errorf("called %q: want %q", r.Diagnosis, d.says)
				}
				if len(r.Steps) != 7 || len(r.Fields) != 21 || len(r.Shape) != 5 {
					t.Errorf("%d steps, %d fields, shape %v: want 7, 21 of three channels, [M,T,N,C,L]", len(r.Steps),
						len(r.Fields), r.Shape)
				}
			})
		}
	}
}

// givenAt reports whether step 3 of realization 1 is given the third forcing and the tenth noise.
func givenAt(f *safetensors.File, g *rollout.StepGraph) bool {
	alike := func(name string, k, at int) bool {
		whole, err := f.Tensor(name)
		if err != nil {
			return false
		}
		x := make([]float64, tensor.Size(g.Inputs[k].Shape))
		if whole.Read(at*len(x), x) != nil {
			return false
		}
		is, err := g.Given(k, 1, 3)
		return err == nil && slices.Equal(is.Data, x)
	}
	return alike("forcing.f", 4, 2) && alike("noise.times", 6, 9)
}

func negated(x *tensor.Tensor) *tensor.Tensor {
	y := x.Clone()
	for i := range y.Data {
		y.Data[i] = -y.Data[i]
	}
	return y
}

// TestStepGraphUnknown: a step graph with an operation that has no model of right devices is no pass: the states that
// it makes are not judged, and the others are.
func TestStepGraphUnknown(t *testing.T) {
	t.Parallel()
	mode, _ := graph.ParseMode("float32", "")
	text := strings.Replace(stepGraph, `{"op": "add", "name": "next", "in": ["moved", "a"]}`,
		`{"op": "add", "name": "nearly", "in": ["moved", "a"]}, {"op": "round", "name": "next", "in": ["nearly"]}`, 1)
	for _, spoiled := range []bool{false, true} {
		dir := t.TempDir()
		stepCaseAt(t, dir, text)
		var spoil func(*rollout.Case, int, int, []*tensor.Tensor)
		if spoiled {
			spoil = earlier(4, -1)
		}
		r, err := CheckCase(t.Context(), stepDevice(t, dir, mode, spoil), CheckOptions{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]report.Verdict{false: report.NoPower, true: report.FailRollout}[spoiled]; r.Verdict != want {
			t.Errorf("%s: %s: want %s", r.Verdict, r.Reason, want)
		}
		if len(r.Unjudged) != 1 || !strings.HasPrefix(r.Unjudged[0], "all steps of state: next: op round") {
			t.Errorf("not judged: %q: want the steps of state, by its operation", r.Unjudged)
		}
	}
}

// TestStepGraphRefused: what does not fit is refused in one line that names file, place and what is wanted.
func TestStepGraphRefused(t *testing.T) {
	t.Parallel()
	replace := func(name, old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(b), old) {
				t.Fatal(err, old)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(b), old, new)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	given := func(name string, shape ...int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "inputs.safetensors")
			f, err := safetensors.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			var all []*safetensors.Tensor
			for _, n := range f.Names() {
				if x, _ := f.Tensor(n); n != name {
					all = append(all, x)
				}
			}
			if shape != nil {
				x, _ := safetensors.OfFloat64s(name, safetensors.F32, shape, make([]float64, tensor.Size(shape)))
				all = append(all, x)
			}
			if err := safetensors.WriteFile(path, all, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, of := range map[string]struct {
		break_ func(t *testing.T, dir string)
		says   string
	}{
		"an output of another shape": {replace("step.json", `["next", "h"]`, `["h", "h"]`),
			`step.json: outputs: "h": float32 [2 4 101]: want float32 [2 3 101], as state has, whose next one it is`},
		"too few outputs": {replace("step.json", `["next", "h"]`, `["next"]`),
			`step.json: outputs: 1: want 2, what follows on state, state.h in this order`},
		"an input of another name": {replace("step.json", `forcing.f`, `force`), `step.json: inputs: "force": ` +
			`want state, state.1 (the one before), state.NAME, static.NAME, forcing.NAME or noise.NAME`},
		"a past state of another size": {
			replace("step.json", `"state.1", "shape": [2, 3, 101]`, `"state.1", "shape": [2, 3, 1]`),
			`step.json: inputs: state.1: float32 [2 3 1]: want float32 [2 3 101], as state`,
		},
		"whole numbers as a state": {
			replace("step.json", `"state.h", "shape"`, `"state.h", "dtype": "int64", "shape"`), `state.h`,
		},
		"no forcing": {given("forcing.f"), `inputs.safetensors: tensor: "forcing.f": want one of`},
		"forcing of one step missing": {given("forcing.f", 6, 3, 1), `inputs.safetensors: forcing.f: shape [6 3 ` +
			`1]: want [7 3 1], one for each step, or [2 7 3 1] for each realization`},
		"noise of another shape": {given("noise.add", 2, 7, 2, 3, 100), `inputs.safetensors: noise.add: shape ` +
			`[2 7 2 3 100]: want [7 2 3 101], one for each step, or [2 7 2 3 101] for each realization`},
		"a policy": {replace("case.json", `"num_timesteps"`, `"alpha": 0.5, "num_timesteps"`),
			`case.json: rollout.alpha: a step graph is the whole step: want nodes of step.json in its place`},
		"an operator as well": {
			replace("case.json", `"step"`, `"operator": {"num_layers": 1, "base_channels": 4}, "step"`),
			`case.json: operator: a step is given as well: want one of them`,
		},
		"no graph": {replace("case.json", `step.json`, `other.json`), `other.json: `},
		"a graph in another folder": {replace("case.json", `step.json`, `../step.json`),
			`case.json: step: "../step.json": want the name of a graph's file in the same folder`},
	} {
		dir := t.TempDir()
		stepCaseAt(t, dir, stepGraph)
		of.break_(t, dir)
		_, err := rollout.OpenCase(dir)
		if err == nil || !strings.Contains(err.Error(), of.says) || strings.Contains(err.Error(), "\n") ||
			len(err.Error()) > 300+len(dir) {
			t.Errorf("%s: %v: want %q", name, err, of.says)
		}
	}
	if !json.Valid([]byte(stepGraph)) {
		t.Error("the graph is no JSON")
	}
}

// TestStepBudget: when the time is up, every step is still looked at. A device that fails whatever its roundings are
// does so at its step; of one that another contract may make right it is said that this is not known; and what was left
// out is listed.
func TestStepBudget(t *testing.T) {
	t.Parallel()
	swapped := func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) { in[0], in[1] = in[1], in[0] }
	conforms, wrong, open := report.PassConforming, report.FailRollout, report.NoPower
	few := []string{"all", "h"}
	for name, d := range map[string]struct {
		precision, autocast string
		spoil               func(c *rollout.Case, m, at int, in []*tensor.Tensor)
		stored              []string
		left                string // "" of nothing
		verdict             report.Verdict
	}{
		"right":                  {"float32", "", nil, nil, "", conforms},
		"right, bfloat16":        {"bfloat16", "cpu", nil, nil, "", conforms},
		"wrong":                  {"float32", "", swapped, nil, "causes of wrong steps", wrong},
		"wrong, bfloat16":        {"bfloat16", "cpu", swapped, nil, "causes of wrong steps", wrong},
		"fewer roundings":        {"bfloat16", "cpu", nil, few, "contracts of half numbers", open},
		"fewer roundings, wrong": {"bfloat16", "cpu", swapped, few, "contracts of half numbers", report.FailLogic},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode, err := graph.ParseMode(d.precision, d.autocast)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			stepCaseAt(t, dir, stepGraph)
			c := stepDevice(t, dir, mode, d.spoil, d.stored...)
			r, err := CheckCase(t.Context(), c, CheckOptions{Mode: mode, Budget: 1})
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			if d.left != "" {
				left = []string{d.left}
			}
			if r.Verdict != d.verdict || len(r.Steps) != 7 || !slices.Equal(r.Skipped, left) {
				t.Errorf("%s, %d steps, skipped %q: want %s, 7 steps, %q", r.Verdict, len(r.Steps), r.Skipped, d.verdict, left)
			}
			if (len(r.Unjudged) > 0) != (d.verdict == report.NoPower) || d.verdict.Failed() && r.FirstStep != 3 {
				t.Errorf("not judged: %q, first step %d: want that of no verdict alone, and 3", r.Unjudged, r.FirstStep)
			}
		})
	}
}

// TestDoubleSteps: steps in float64 pass as that, and fail where a device has computed in float32, is off by a part in
// 10^11, or has a fault of rollouts.
func TestDoubleSteps(t *testing.T) {
	t.Parallel()
	double, single := graph.Mode{Precision: fp16.Float64}, graph.Mode{Precision: fp16.Float32}
	times := func(by float64) func(*rollout.Case, int, int, []*tensor.Tensor) {
		return func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) {
			in[0] = in[0].Clone()
			for i := range in[0].Data {
				in[0].Data[i] *= by
			}
		}
	}
	for _, c := range []struct {
		name  string
		made  graph.Mode // what the device computes in
		spoil func(*rollout.Case, int, int, []*tensor.Tensor)
		step  int
		fault string
	}{
		{"right", double, nil, -1, ""},
		{"float32", single, nil, 1, "precision.in-place-of-the-claimed-mode:float32"},
		{"a part in 10^11", double, times(1 + 1e-11), 3, ""},
		{"past states in another order", double,
			func(_ *rollout.Case, _, _ int, in []*tensor.Tensor) { in[0], in[1] = in[1], in[0] }, 3, ""},
	} {
		dir := t.TempDir()
		stepCaseAt(t, dir, stepGraph)
		r, err := CheckCase(t.Context(), stepDevice(t, dir, c.made, c.spoil), CheckOptions{Mode: double})
		if err != nil {
			t.Fatal(c.name, err)
		}
		if passes := r.Verdict == report.PassConforming; passes != (c.step < 0) || r.FirstStep != c.step ||
			c.fault != "" && r.Findings[0].ID != c.fault {
			t.Errorf("%s: %s at step %d: %s %v %+v", c.name, r.Verdict, r.FirstStep, r.Reason, r.Unjudged, r.Findings)
		}
	}
}

// TestDoubleOperators: so do those of an operator of any graph.
func TestDoubleOperators(t *testing.T) {
	t.Parallel()
	double, single := graph.Mode{Precision: fp16.Float64}, graph.Mode{Precision: fp16.Float32}
	op, c := anyGraph(t, anyGraphs["pooled"].lines...), rollout.Config{Policy: rollout.Convex, Alpha: .5, EngineBatch: 2}
	for made, want := range map[graph.Mode]report.Verdict{double: report.PassConforming, single: report.FailPrecision} {
		r, err := Check(t.Context(), op, device(t, op, op, c, c, made, 3, 9), Claim{Mode: double, Rollout: c, Noise: "none"})
		if err != nil || r.Verdict != want {
			t.Errorf("made in %v: %s: %s %v: want %s", made, r.Verdict, r.Reason, err, want)
		}
	}
}
