package main

import (
	"regexp"
	"slices"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
)

// Values that stand for their type.
const (
	word   = "text"
	number = 1.0
	truth  = true
)

// TestJSON holds the objects to the keys that scripts rely on.
func TestJSON(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	field := object{
		"step": number, "channel": number, "max_abs": number, "mean_abs": number, "rel_l2": number, "vrmse": number,
	}
	diff := object{"max_abs": number, "mean_abs": number, "max_over_std": number, "rms_over_std": number,
		"count": number, "max_ulp": number, "ulps": object{}}
	for _, k := range []struct {
		args []string
		want object
	}{
		{[]string{"run", "--one-step", "--case", dir}, object{
			"digest": word, "mode": word, "contract": word, "steps_per_s": number, "sample_steps_per_s": number,
			"gflops":              number,
			"precision_requested": word, "precision_used": word, "noise": word, "isa": word, "threads": number,
			"peak_bytes": number,
			"one_step":   diff, "per_step": []any{diff}, "fields": []any{field}, "case": word,
			"truth":  object{"ours_rms_over_std": number, "recorded_rms_over_std": number, "ratio": number},
			"layers": []any{object{"name": word, "max_over_std": number}},
		}},
		{[]string{"compare", dir, dir}, object{
			"a": word, "b": word, "ok": truth, "shape": []any{number}, "max_abs": number, "mean_abs": number,
			"mean_rel": number, "rms_rel": number,
			"max_ulp": number, "per_step": []any{diff}, "fields": []any{field}, "chaotic": truth,
		}},
		{[]string{"info"}, object{"isa": word, "features": []any{}, "contract": word, "version": word, "cpu": word,
			"threads": number, "verbs": []any{}}},
	} {
		args := append(k.args, "--json")
		r := refrun(t, args...)
		if r.Code != 0 || r.Stderr != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, r.Code, r.Stderr)
		}
		clitest.Has(t, k.args[0], r.Decode(t), k.want)
	}

	// What was used is said, as is what was asked for.
	out := oneStep(t, dir, "--precision", "float64", "--noise", "none", "--threads", "3").Decode(t)
	for key, want := range map[string]any{
		"precision_requested": "float64", "precision_used": "float64", "noise": "none",
		"mode":    "float64/state-float64/noise-none",
		"threads": 3., "isa": asm.ISAs()[0], "contract": graph.Contract, "steps": 4.,
	} {
		if out[key] != want {
			t.Errorf("%s is %v, want %v", key, out[key], want)
		}
	}
}

// TestNotes: what was done otherwise than the case says, or left out, is said.
func TestNotes(t *testing.T) {
	const ignored = " is ignored, as Spinlock's builder ignores it"
	for _, k := range []struct {
		edit  func(f *clitest.Folder)
		flags []string
		want  []any
	}{
		{func(*clitest.Folder) {}, nil, nil},
		{func(*clitest.Folder) {}, []string{"--precision", "float64", "--noise", "none"},
			[]any{"the case was recorded in float32, and is compared with float64 steps", "the operator's noise was left out"}},
		{func(f *clitest.Folder) {
			f.Set("operator.noise_schedule", "annealing")
			f.Set("operator.use_batch_norm", false)
		}, nil, []any{"operator.use_batch_norm" + ignored, "operator.noise_schedule" + ignored}},
		{func(f *clitest.Folder) {
			f.Set("operator.noise_scale", nil)
			f.Drop("weights", "stochastic_block.noise_scale")
			delete(f.File, "layers")
		}, nil, []any{"operator.noise_type" + ignored}},
	} {
		f := clitest.NewFolder(t)
		k.edit(f)
		got, _ := oneStep(t, f.Write(), k.flags...).Decode(t)["notes"].([]any)
		if !slices.Equal(got, k.want) {
			t.Errorf("notes %q, want %q", got, k.want)
		}
	}
}

// TestText: the text for people has the figures, and no JSON.
func TestText(t *testing.T) {
	dir := clitest.NewFolder(t).Write()
	for _, k := range []struct {
		args []string
		want string // a regular expression
	}{
		{[]string{"run", "--one-step", "--case", dir}, `(?s)mode float32/state-float32/noise-tape, contract ` +
			`\S+\n.*from each of 4 recorded states.*\n  largest difference  \S+ .*of the trajectory's std.*\n  RMS ` +
			`difference .*refrun \S+, recording \S+: ratio \S+\n.*14 recorded layers compared.*digest [0-9a-f]{64}\n$`},
		{[]string{"compare", dir, dir}, `(?s)^\S+:trajectory against\s+\S+:trajectory,\s+\[2 3 3 20\s+20\]\n ` +
			` largest difference  0 .*largest in ulps     0 +of float32\n.*state  largest`},
		{[]string{"info"}, `^refrun \S+, numerical contract \S+\ncpu .*\nfeatures .*(\n  .*)*\nkernels   ` +
			asm.ISAs()[0] + `\nbuilt by  go`},
	} {
		r := refrun(t, k.args...)
		if r.Code != 0 || r.Stderr != "" || !regexp.MustCompile(k.want).MatchString(r.Stdout) {
			t.Errorf("%v: exit code %d, stderr %q, stdout\n%s", k.args, r.Code, r.Stderr, r.Stdout)
		}
	}
}
