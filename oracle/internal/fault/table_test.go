package fault

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/oracle/table"
)

// TestTable: each row says what it must, under an ID that no other row has, and is a
// fault of the library or one that a gate names.
func TestTable(t *testing.T) {
	made := map[string]bool{}
	for _, h := range Library() {
		if h.ID == "" || h.Name == "" || strings.Contains(h.Name, "%!") {
			t.Errorf("a fault has the row %+v", h.Row)
		}
		made[h.ID] = true
		made[strings.SplitN(h.ID, ":", 2)[0]] = true
	}
	gates := ""
	const judges = "../../../internal/oracle/"
	for _, room := range []string{"../structure", "../noisestat", "../replay", "../tape",
		"../chain", judges + "judge", judges + "table", judges + "quantizer",
		judges + "factor"} {
		files, err := filepath.Glob(room + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(room, err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && filepath.Base(file) != "rows.go" &&
				!strings.HasSuffix(file, "_test.go") {
				gates += string(text)
			}
		}
	}
	for _, id := range regexp.MustCompile(
		`"((?:act|conv|factor|kernel|noise|norm|precision|quantize|residual|rollout)\.[a-z0-9-]+):?"`,
	).FindAllStringSubmatch(gates, -1) {
		table.ByID(id[1]) // or panics
	}
	for _, r := range table.Rows() {
		switch {
		case !regexp.MustCompile(`^[a-z]+\.[a-z0-9-]+(:[-a-z0-9.+]+)?$`).MatchString(r.ID):
			t.Errorf("%q: want a room, a dot and words joined by hyphens", r.ID)
		case strings.HasPrefix(r.ID, "unnamed."):
			if r.Name != "" || r.Verdict != "" {
				t.Errorf("%s: %+v: want no name", r.ID, r)
			}
		case r.Name == "" || !r.Verdict.Failed():
			t.Errorf("%s: name %q, verdict %q", r.ID, r.Name, r.Verdict)
		case r.Probe != "" && !r.Small, r.Many != "" && !r.Small:
			t.Errorf("%s: columns that say nothing: %+v", r.ID, r)
		case !made[r.ID] && !strings.Contains(gates, `"`+r.ID):
			t.Errorf("%s: in the table, and nowhere made", r.ID)
		}
	}
	for _, id := range []string{"norm.unknown", ""} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q has a row", id)
				}
			}()
			Named(id)
		}()
	}
	if r := Named("norm.eps", 1e-4); r.ID != "norm.eps:0.0001" || r.Name != "eps 1e-04" || !r.Small {
		t.Errorf("a row of one of several: %+v", r)
	}
	if r := table.ByID("rollout.state-kept-in:float16"); r.Name != "state kept in float16" ||
		r.ID != "rollout.state-kept-in:float16" {
		t.Errorf("a row by its whole ID: %+v", r)
	}
	if r := Named("norm.eps", 1e-8); r.Name != "eps 1e-08" || r.Small {
		t.Errorf("the row of several: %+v", r)
	}
}
