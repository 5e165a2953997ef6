package oracle

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

// anyGraph is an operator of images of 16 x 16 that is a list of operations: of each line an op, a name, what it reads
// and the other keys.
func anyGraph(t *testing.T, lines ...string) *operator.Operator {
	t.Helper()
	var nodes []json.RawMessage
	for _, l := range lines {
		f := strings.SplitN(l, " ", 4)
		node := map[string]any{"op": f[0], "name": f[1], "in": strings.Split(f[2], ",")}
		if len(f) > 3 {
			if err := json.Unmarshal([]byte(f[3]), &node); err != nil {
				t.Fatal(err)
			}
		}
		text, _ := json.Marshal(node)
		nodes = append(nodes, text)
	}
	text, _ := json.Marshal(map[string]any{"input_channels": 3, "grid_size": 16, "nodes": nodes})
	c, err := operator.ReadConfig("test", "", text)
	if err != nil {
		t.Fatal(err)
	}
	op, err := operator.Init(c, 7)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// device steps two realizations; from step `from` on with another operator and another configuration.
func device(
	t *testing.T, op, other *operator.Operator, c, otherwise rollout.Config, mode graph.Mode, steps, from int,
) *rollout.States {
	t.Helper()
	s := &rollout.States{M: 2, T: steps + 1, C: 3, H: 16, W: 16, Format: fp16.Float32}
	x := tensor.New(fp16.Float32, 2, 3, 16, 16)
	for m := range 2 {
		if err := rollout.White(uint64(m), rollout.Shape{C: 3, H: 16, W: 16}, x.Samples(m, m+1).Data); err != nil {
			t.Fatal(err)
		}
	}
	s.Data = make([]float64, s.M*s.T*s.CHW())
	for k := 0; ; k++ {
		for m := range s.M {
			copy(s.At(m, k), x.Samples(m, m+1).Data)
		}
		if k == steps {
			return s
		}
		step := rollout.Stepper{Operator: op, Config: c, Mode: mode}
		if k+1 >= from {
			step.Operator, step.Config = other, otherwise
		}
		d, err := noise.Counter{Seed: c.BaseSeed}.At(k+1, 0, 2)
		if err != nil {
			t.Fatal(err)
		}
		if !op.HasNoise() {
			d = nil
		}
		if x, err = step.Step(x, d); err != nil {
			t.Fatal(err)
		}
	}
}

// The networks: pooling and skips, softmax gates, norms with functions that no layer of Spinlock's has; and of each one
// a change that makes it another.
var anyGraphs = map[string]struct {
	lines    []string
	old, new string
}{
	"pooled": {[]string{
		`conv first input {"out_channels":8,"kernel_size":3}`, `act gelu first {"activation":"gelu"}`,
		`max_pool2d pool gelu {"attributes":{"kernel_size":2}}`, `conv inner pool {"out_channels":8,"kernel_size":3}`,
		`interpolate up inner {"attributes":{"scale_factor":2}}`, `cat join up,gelu {"attributes":{"dim":1}}`,
		`conv last join {"out_channels":3,"kernel_size":1}`},
		"max_pool2d", "avg_pool2d"},
	"gated": {[]string{
		`conv value input {"out_channels":8,"kernel_size":3,"padding_mode":"circular"}`,
		`conv gate input {"out_channels":8,"kernel_size":1}`,
		`softmax share gate {"attributes":{"dim":1}}`, `mul product value,share`,
		`noise noise product {"noise_type":"gaussian","noise_scale":0.02}`,
		`conv last noise {"out_channels":3,"kernel_size":3}`},
		`"padding_mode":"circular"`, `"padding_mode":"replicate"`},
	"normed": {[]string{
		`conv first input {"out_channels":8,"kernel_size":3}`, `norm norm first {"normalization":"instance"}`,
		`hardswish act norm`,
		`avg_pool2d mean act {"attributes":{"kernel_size":3,"stride":1,"padding":1}}`, `add sum mean,act`,
		`conv last sum {"out_channels":3,"kernel_size":3}`},
		`"normalization":"instance"`, `"normalization":"instance","eps":1e-3`},
}

// TestAnyGraph: rollouts of operators of any registered operations are judged step by step: right devices pass, and
// another function, a step that stands still and another blend are seen at their step.
func TestAnyGraph(t *testing.T) {
	t.Parallel()
	for name, g := range anyGraphs {
		for _, precision := range []string{"float32", "bfloat16"} {
			t.Run(name+"/"+precision, func(t *testing.T) {
				t.Parallel()
				mode, err := graph.ParseMode(precision, "")
				if err != nil {
					t.Fatal(err)
				}
				op, text := anyGraph(t, g.lines...), strings.Join(g.lines, "\n")
				other := anyGraph(t, strings.Split(strings.Replace(text, g.old, g.new, 1), "\n")...)
				c := rollout.Config{Policy: rollout.Convex, Alpha: .5, EngineBatch: 2, BaseSeed: 5, Precision: precision}
				if name == "normed" {
					c.Policy, c.Dt = rollout.Residual, .1
				}
				blend, still := c, c
				blend.Alpha, blend.Dt = .51, .101
				still.Policy, still.Dt = rollout.Residual, 0
				for what, d := range map[string]struct {
					op   *operator.Operator
					c    rollout.Config
					from int
				}{"right": {op, c, 9}, "another function": {other, c, 2}, "another blend": {op, blend, 3},
					"no step": {op, still, 2}} {
					if what == "another blend" && name != "gated" || what == "no step" && name != "normed" {
						continue // each once in each precision
					}
					s := device(t, op, d.op, c, d.c, mode, 3, d.from)
					r, err := Check(t.Context(), op, s, Claim{Mode: mode, Rollout: c, Noise: "counter"})
					if err != nil {
						t.Fatal(err)
					}
					if what == "right" && r.Verdict != report.PassConforming {
						t.Errorf("%s: %s: %s: want a pass", what, r.Verdict, r.Reason)
					}
					if what != "right" && (!r.Verdict.Failed() || r.FirstStep != d.from) {
						t.Errorf("%s: %s at step %d: want a failure at step %d", what, r.Verdict, r.FirstStep, d.from)
					}
					if what == "another blend" && r.Verdict != report.FailRollout {
						t.Errorf("%s: %s, %q: want %s", what, r.Verdict, r.Diagnosis, report.FailRollout)
					}
					if len(r.Steps) != 3 {
						t.Errorf("%s: %d steps: want 3", what, len(r.Steps))
					}
					if n := len(r.Fields); n != 9 || r.Fields[8].Step != 3 || r.Fields[8].Channel != 2 ||
						!(r.Fields[0].VRMSE > 0 && r.Fields[0].RelL2 < 1) {
						t.Errorf("%s: errors by step and channel %+v: want those of 3 steps and 3 channels", what, r.Fields)
					}
				}
			})
		}
	}
}

// TestAnyGraphUnknown: an operation of which it is not known what right devices return is never part of a pass, and
// the report begins with it.
func TestAnyGraphUnknown(t *testing.T) {
	t.Parallel()
	op := anyGraph(t, `conv first input {"out_channels":8,"kernel_size":3}`, `floor steps first`,
		`conv last steps {"out_channels":3,"kernel_size":3}`)
	c := rollout.Config{Policy: rollout.Autoregressive, EngineBatch: 2}
	mode := graph.Mode{Precision: fp16.Float32}
	r, err := Check(t.Context(), op, device(t, op, op, c, c, mode, 2, 9), Claim{Mode: mode, Rollout: c})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != report.NoPower || len(r.Unjudged) != 1 || !strings.Contains(r.Reason, fmt.Sprint(r.Unjudged[0])) ||
		!strings.Contains(r.Unjudged[0], "floor") {
		t.Errorf("%s: %s: unjudged %q: want NO-POWER that begins with floor", r.Verdict, r.Reason, r.Unjudged)
	}
}
