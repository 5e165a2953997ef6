package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestPlan: the figures of a plan follow from each other and from the operations of
// the definition, and the kernels are those of every operation in order.
func TestPlan(t *testing.T) {
	r := refrun(t, "plan", "--json", "--seconds", "0.005", "--config", benchConfig(t), "--grid", "8", "--batch", "3",
		"--operators", "10", "--steps", "7", "--realizations", "4")
	if r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
	v := r.Decode(t)
	clitest.Has(t, "plan", v, object{
		"contract": word, "cpu": word, "isa": word, "threads": number, "mode": word, "what": word, "compiled": truth,
		"kernels": []any{}, "passes": number, "flops": number, "bytes": number, "arena_bytes": number,
		"weight_bytes": number, "build_seconds": number, "first_seconds": number, "step_seconds": number,
		"calls": number, "cpu_seconds": number, "gflops": number, "general_seconds": number, "break_even_steps": number,
		"dataset": object{"operators": number, "steps": number, "realizations": number, "seconds_per_operator": number,
			"seconds": number},
	})
	// Per pixel: 3x3 from 2 to 4, 3x3 from 4 to 4, 1x1 from 4 to 2.
	const flops = 2 * 3 * 64 * (9*2*4 + 9*4*4 + 4*2)
	var ops []string
	var sum, bytes, last float64
	for _, k := range v["kernels"].([]any) {
		n := k.(map[string]any)
		ops = append(ops, n["op"].(string))
		sum += n["flops"].(float64)
		bytes += n["bytes"].(float64)
		last = max(last, n["pass"].(float64))
	}
	want := "conv 3x3, 2 to 4; instance norm; gelu; conv 3x3, 4 to 4; instance norm; gelu; conv 1x1, 4 to 2; none"
	if got := strings.Join(ops, "; "); got != want {
		t.Errorf("operations %q, want %q", got, want)
	}
	if v["flops"] != float64(flops) || sum != flops || v["bytes"] != bytes || v["passes"] != last || last != 5 {
		t.Errorf("%v: want %d operations in 5 passes, and sums of the kernels'", v, flops)
	}
	// 2 to 5 images of 3 samples and 8 channels in float32, with and without frames.
	if a := v["arena_bytes"].(float64); a < 2*3*8*64*4 || a > 5*3*8*12*14*4 {
		t.Errorf("%v bytes of images", a)
	}
	d := v["dataset"].(map[string]any)
	// Each operator: compile, then 7 steps of 4 realizations in batches of 3.
	each := v["build_seconds"].(float64) + v["first_seconds"].(float64) + 13*v["step_seconds"].(float64)
	if got := d["seconds_per_operator"].(float64); math.Abs(got-each) > 1e-9*each ||
		math.Abs(d["seconds"].(float64)-10*got) > 1e-8*got {
		t.Errorf("dataset %v, want %v s for each", d, each)
	}
}

// TestPlanText: what a person reads, and what is not compiled.
func TestPlanText(t *testing.T) {
	config := benchConfig(t)
	r := refrun(t, "plan", "--seconds", "0.005", "--config", config, "--grid", "8", "--operators", "3")
	for _, want := range []string{
		"conv 3x3, 2 to 4", "instance norm", "passes", "3 operators of 256 steps and 1 realization", "compiled in",
	} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is not in %s", want, r.Stdout)
		}
	}
	if r = refrun(t, "plan", "--seconds", "0.005", "--config", config); !strings.Contains(r.Stdout, "grid 12,") {
		t.Errorf("the configuration's grid is not in %s", r.Stdout)
	}
	r = refrun(t, "plan", "--seconds", "0.005", "--config", config, "--grid", "8", "--precision", "float64", "--json")
	if v := r.Decode(t); v["compiled"] != false || v["why_not"] != "float64 mode" || v["break_even_steps"] != -1. ||
		v["dataset"] != nil {
		t.Errorf("float64: %v", v)
	}
	for flag, value := range map[string]string{
		"--grid": "-1", "--batch": "0", "--operators": "-1", "--steps": "0", "--realizations": "0", "--seconds": "NaN",
	} {
		if r := refrun(t, "plan", flag, value); r.Code != 2 || !strings.Contains(r.Stderr, flag+": "+value) {
			t.Errorf("%s %s: exit code %d, %q", flag, value, r.Code, r.Stderr)
		}
	}
}
