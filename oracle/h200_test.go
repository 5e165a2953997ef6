package oracle

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
)

// TestH200 judges steps of a real device, all right: see testdata/h200.
func TestH200(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("../testdata/h200/*/case.json")
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, c := range cases {
		dir := filepath.Dir(c)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			c, err := rollout.OpenCase(dir)
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
			single := strings.Contains(r.Contract, " in float32")
			if !strings.HasPrefix(string(r.Verdict), "PASS-") || single != strings.HasSuffix(dir, "tf32") {
				t.Errorf("%v, contract %q", r.Verdict, r.Contract)
			}
		})
	}
}
