package render_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/oracle/render"
)

// TestJudged: each outcome has the kind, the level and the element by which CI tells a wrong kernel from a right one.
func TestJudged(t *testing.T) {
	for _, c := range []struct {
		code        int
		kind, level string
		junit       string
	}{
		{0, "pass", "none", `failures="0" errors="0" skipped="0"`},
		{1, "fail", "error", `failures="1" errors="0" skipped="0"`},
		{3, "open", "none", `failures="0" errors="0" skipped="1"`},
	} {
		j := render.Judged{Verb: "kernel", Version: "0.1.0", Subject: "a b/run.safetensors", Verdict: "V", Code: c.code,
			Text: "a <b>\nc", Rule: "kernel.bias"}
		var sarif, junit bytes.Buffer
		if err := render.WriteSARIF(&sarif, j); err != nil {
			t.Fatal(err)
		}
		if err := render.WriteJudgedJUnit(&junit, j); err != nil {
			t.Fatal(err)
		}
		var log struct {
			Version string
			Runs    []struct {
				Tool struct {
					Driver struct{ Rules []struct{ ID string } }
				}
				Results []struct {
					RuleID, Kind, Level string
					Message             struct{ Text string }
					Locations           []struct {
						PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
					}
				}
			}
		}
		if err := json.Unmarshal(sarif.Bytes(), &log); err != nil {
			t.Fatal(err)
		}
		r := log.Runs[0].Results[0]
		if log.Version != "2.1.0" || log.Runs[0].Tool.Driver.Rules[0].ID != "kernel.bias" || r.RuleID != "kernel.bias" ||
			r.Kind != c.kind || r.Level != c.level || r.Message.Text != j.Text ||
			r.Locations[0].PhysicalLocation.ArtifactLocation.URI != "a%20b/run.safetensors" {
			t.Errorf("exit code %d: %s", c.code, &sarif)
		}
		if !strings.Contains(junit.String(), c.junit) || !strings.Contains(junit.String(), "a &lt;b&gt;") {
			t.Errorf("exit code %d: %s", c.code, &junit)
		}
	}
}
