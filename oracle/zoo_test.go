package oracle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
)

// TestZoo checks the trajectories of interop/zoo's independent device: correct
// ones pass, and of each fault the kind, the first step and, where one is named,
// the layer are those that the device knows it has.
func TestZoo(t *testing.T) {
	const zoo = "../interop/zoo/testdata"
	data, err := os.ReadFile(filepath.Join(zoo, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Case, Expect, Family string
		Accept               []string // families that the fault may be taken for
		FirstStep            int      `json:"first_step"`
		FirstLayer           string   `json:"first_layer"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	expected := map[string]int{}
	for _, want := range cases {
		expected[want.Expect]++
		t.Run(want.Case, func(t *testing.T) {
			t.Parallel()
			c, err := rollout.OpenCase(filepath.Join(zoo, want.Case))
			if err != nil {
				t.Fatal(err)
			}
			mode, err := graph.ParseMode(c.Rollout.Precision, c.Rollout.Autocast)
			if err != nil {
				t.Fatal(err)
			}
			r, err := CheckCase(t.Context(), c, CheckOptions{Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			if want.Expect == "pass" {
				if !r.Verdict.Passed() {
					t.Errorf("a correct device: %s: %s", r.Verdict, r.Reason)
				}
				return
			}
			family := strings.ToLower(strings.TrimPrefix(string(r.Verdict), "FAIL-"))
			if !slices.Contains(append(want.Accept, want.Family), family) {
				t.Errorf("%s [%s]: want a fault of %s: %s", r.Verdict, r.Diagnosis, want.Family, r.Reason)
			}
			if r.FirstStep != want.FirstStep {
				t.Errorf("first faulty step %d: want %d", r.FirstStep, want.FirstStep)
			}
			if r.FirstLayer != "" && r.FirstLayer != want.FirstLayer {
				t.Errorf("first faulty layer %s: want %q", r.FirstLayer, want.FirstLayer)
			}
		})
	}
	if expected["pass"] < 8 || expected["fail"] < 16 || len(cases) != expected["pass"]+expected["fail"] {
		t.Errorf("%d cases: %v", len(cases), expected)
	}
}
