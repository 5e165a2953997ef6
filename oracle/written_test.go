package oracle

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/oracle/report"
)

// TestWrite: each format is the one that was asked for.
func TestWrite(t *testing.T) {
	r := &report.Report{Verdict: report.NoPower}
	for format, begin := range map[string]string{
		"text": "refrun check", "json": "{", "junit": "<?xml", "html": "<!DOCTYPE html>",
	} {
		var b strings.Builder
		if err := Write(&b, format, r); err != nil || !strings.HasPrefix(b.String(), begin) {
			t.Errorf("%s: %.40q, %v: want %q first", format, b.String(), err, begin)
		}
	}
	const want = `format "yaml": want text, json, junit or html`
	if err := Write(new(strings.Builder), "yaml", r); err == nil || err.Error() != want {
		t.Errorf("%v: want %s", err, want)
	}
}
