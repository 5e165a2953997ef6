package probe

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/rollout"
)

// FuzzProbes: a probes.json is refused in one line, or has a probe for every
// realization.
func FuzzProbes(f *testing.F) {
	fsys := fstest.MapFS{
		"case.json": {Data: []byte(`{"operator": {"num_layers": 1, "base_channels": 2}, "rollout": ` +
			`{"num_timesteps": 2, "num_realizations": 2}, "weights_seed": 1}`)},
		"probes.json": {},
	}
	c, err := rollout.OpenCaseFS(fsys, "f")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		`{"probes": [{"name": "integer-fill", "what": "x"}, {"name": "mean-ladder", "value": 1e300, "what": ""}]}`,
		`{"probes": []}`, `{"probes": null}`, `{"probes": [{}, {"value": "x"}]}`, `[]`,
		`{"probes": [{"name": "\u001b[2J"}, {}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys["probes.json"].Data = data
		all, err := evidence.ReadProbes(c)
		if err != nil {
			if line := err.Error(); !strings.HasPrefix(line, "f/probes.json: ") || strings.ContainsAny(line, "\n\r") {
				t.Errorf("not one line about the file: %q", line)
			}
		} else if len(all) != 2 {
			t.Errorf("%d probes", len(all))
		}
	})
}
