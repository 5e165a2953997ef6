package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/refrun/refrun/rollout"
)

// TestDemo runs the demo as a user does, and the same steps by hand in another
// grouping of the work. Of its devices, of which the whole demo's exit code tells, it takes a right and a wrong one.
func TestDemo(t *testing.T) {
	defer func(all []demoDevice) { demoDevices = all }(demoDevices)
	demoDevices = []demoDevice{demoDevices[0], demoDevices[len(demoDevices)-1]}
	r := refrun(t, "demo", "--json", "--threads", "2")
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.code, r.stderr)
	}
	out := r.decode(t)
	has(t, "demo", out, object{
		"ok": truth, "steps": number, "digest": word, "mode": word, "contract": word, "isa": word,
		"table":  []any{object{"step": number, "one_step": number, "path": number}},
		"far":    []any{object{"step": number, "mean_abs": number}},
		"checks": []any{object{"what": word, "got": number, "limit": number, "ok": truth}},
	})
	checks := out["checks"].([]any)
	for i, d := range demoDevices {
		has(t, "demo", checks[2+i], object{"what": word, "verdict": word, "first_step": number, "ok": truth})
		if c := checks[2+i].(object); c["ok"] != true || !strings.HasPrefix(c["verdict"].(string), d.verdict) ||
			c["first_step"] != float64(d.step) {
			t.Errorf("%s: %v at step %v, want %s at %d", d.what, c["verdict"], c["first_step"], d.verdict, d.step)
		}
	}
	if out["ok"] != true || out["steps"] != 22. || len(out["table"].([]any)) != 11 || len(out["checks"].([]any)) < 2 ||
		out["mode"] != "float32/state-float32/noise-torch-cpu:1.13" {
		t.Errorf("ok %v, %v steps, %d rows, mode %v", out["ok"], out["steps"], len(out["table"].([]any)), out["mode"])
	}
	again := oneStep(t, "demo", "--threads", "1", "--batch", "3").decode(t)
	if again["digest"] != out["digest"] || again["mode"] != out["mode"] {
		t.Errorf("demo: %v %v, run of its case: %v %v", out["mode"], out["digest"], again["mode"], again["digest"])
	}
}

// TestDemonstrate tells the story of other cases: of a good one, with the same
// digest every time, and of one with a wrong number in its last state.
func TestDemonstrate(t *testing.T) {
	tell := func(f *folder, flags ...string) result {
		cs, err := rollout.OpenCase(f.write())
		if err != nil {
			t.Fatal(err)
		}
		of := verb{name: "demo", run: func(c *command) error {
			if err := c.parse(0); err != nil {
				return err
			}
			return c.demonstrate(cs)
		}}
		return runVerbs(t, []verb{of}, append([]string{"demo"}, flags...)...)
	}
	defer func(all []demoDevice) { demoDevices = all }(demoDevices)
	demoDevices = demoDevices[:1] // TestDemo checks them all
	want := tell(newFolder(t), "--json").decode(t)["digest"]
	for _, flags := range [][]string{{"--json"}, {"--json", "--threads", "1"}, {"--json", "--threads", "5"}} {
		if got := tell(newFolder(t), flags...).decode(t)["digest"]; got != want {
			t.Errorf("%v: digest %v, want %v", flags, got, want)
		}
	}
	r := tell(newFolder(t))
	if !regexp.MustCompile(`(?s)Spinlock rollout engine.*\n     1   \S+ +\S+\n     2   .*\nok     largest one-step `+
		`.*\nok     RMS one-step .* s on \d+ threads?\n$`).MatchString(r.stdout) || r.code != 0 || r.stderr != "" {
		t.Errorf("exit code %d, stderr %q, text\n%s", r.code, r.stderr, r.stdout)
	}
	bad := newFolder(t)
	bad.poke("trajectory", "trajectory", (1*3+2)*1200+5, 0.25)
	if r := tell(bad); r.code != 1 || r.stderr != "" ||
		!strings.Contains(r.stdout, "\nFAILED largest one-step difference ") {
		t.Errorf("a wrong number: exit code %d, stderr %q, text\n%s", r.code, r.stderr, r.stdout)
	}
	if r := tell(bad, "--json"); r.code != 1 || r.decode(t)["ok"] != false {
		t.Errorf("a wrong number: exit code %d, %s", r.code, r.stdout)
	}
}
