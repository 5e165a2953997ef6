package run

import (
	"regexp"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/rollout"
)

// TestDemo runs the demo as a user does, and the same steps by hand in another
// grouping of the work. Of its devices, of which the whole demo's exit code tells, it takes a right and a wrong one.
func TestDemo(t *testing.T) {
	defer func(all []demoDevice) { demoDevices = all }(demoDevices)
	demoDevices = []demoDevice{demoDevices[0], demoDevices[len(demoDevices)-1]}
	r := refrun(t, "demo", "--json", "--threads", "2")
	if r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
	out := r.Decode(t)
	clitest.Has(t, "demo", out, object{
		"ok": truth, "steps": number, "digest": word, "mode": word, "contract": word, "isa": word,
		"table":  []any{object{"step": number, "one_step": number, "path": number}},
		"far":    []any{object{"step": number, "mean_abs": number}},
		"checks": []any{object{"what": word, "got": number, "limit": number, "ok": truth}},
	})
	checks := out["checks"].([]any)
	for i, d := range demoDevices {
		clitest.Has(t, "demo", checks[2+i], object{"what": word, "verdict": word, "first_step": number, "ok": truth})
		if c := checks[2+i].(object); c["ok"] != true || !strings.HasPrefix(c["verdict"].(string), d.verdict) ||
			c["first_step"] != float64(d.step) {
			t.Errorf("%s: %v at step %v, want %s at %d", d.what, c["verdict"], c["first_step"], d.verdict, d.step)
		}
	}
	if out["ok"] != true || out["steps"] != 22. || len(out["table"].([]any)) != 11 || len(out["checks"].([]any)) < 2 ||
		out["mode"] != "float32/state-float32/noise-torch-cpu:1.13" {
		t.Errorf("ok %v, %v steps, %d rows, mode %v", out["ok"], out["steps"], len(out["table"].([]any)), out["mode"])
	}
	again := oneStep(t, "demo", "--threads", "1", "--batch", "3").Decode(t)
	if again["digest"] != out["digest"] || again["mode"] != out["mode"] {
		t.Errorf("demo: %v %v, run of its case: %v %v", out["mode"], out["digest"], again["mode"], again["digest"])
	}
}

// TestDemonstrate tells the story of other cases: of a good one, with the same
// digest every time, and of one with a wrong number in its last state.
func TestDemonstrate(t *testing.T) {
	tell := func(f *clitest.Folder, flags ...string) clitest.Result {
		cs, err := rollout.OpenCase(f.Write())
		if err != nil {
			t.Fatal(err)
		}
		of := cli.Verb{Name: "demo", Run: func(c *cli.Command) error {
			if err := c.Parse(0); err != nil {
				return err
			}
			return demonstrate(c, cs)
		}}
		return clitest.Run(t, []cli.Verb{of}, append([]string{"demo"}, flags...)...)
	}
	defer func(all []demoDevice) { demoDevices = all }(demoDevices)
	demoDevices = demoDevices[:1] // TestDemo checks them all
	want := tell(clitest.NewFolder(t), "--json").Decode(t)["digest"]
	for _, flags := range [][]string{{"--json"}, {"--json", "--threads", "1"}, {"--json", "--threads", "5"}} {
		if got := tell(clitest.NewFolder(t), flags...).Decode(t)["digest"]; got != want {
			t.Errorf("%v: digest %v, want %v", flags, got, want)
		}
	}
	r := tell(clitest.NewFolder(t))
	if !regexp.MustCompile(`(?s)Spinlock rollout engine.*\n     1   \S+ +\S+\n     2   .*\nok     largest one-step `+
		`.*\nok     RMS one-step .* s on \d+ threads?\n$`).MatchString(r.Stdout) || r.Code != 0 || r.Stderr != "" {
		t.Errorf("exit code %d, stderr %q, text\n%s", r.Code, r.Stderr, r.Stdout)
	}
	bad := clitest.NewFolder(t)
	bad.Poke("trajectory", "trajectory", (1*3+2)*1200+5, 0.25)
	if r := tell(bad); r.Code != 1 || r.Stderr != "" ||
		!strings.Contains(r.Stdout, "\nFAILED largest one-step difference ") {
		t.Errorf("a wrong number: exit code %d, stderr %q, text\n%s", r.Code, r.Stderr, r.Stdout)
	}
	if r := tell(bad, "--json"); r.Code != 1 || r.Decode(t)["ok"] != false {
		t.Errorf("a wrong number: exit code %d, %s", r.Code, r.Stdout)
	}
}
