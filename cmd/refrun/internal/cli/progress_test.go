package cli

import (
	"strings"
	"testing"
	"time"
)

// TestProgress: what is left is said once something is done.
func TestProgress(t *testing.T) {
	var b strings.Builder
	began := time.Now().Add(-time.Minute)
	for _, done := range []int{0, 1, 2} {
		p := &Progress{w: &b, What: "work", Began: began, last: began}
		p.Step(done, 2)
		p.Step(done, 2) // too soon for another line
	}
	(&Progress{w: &b, What: "layers", Began: began, last: began}).Step(3, 0)
	if want := "work: 0 of 2\nwork: 1 of 2, about 1m0s left\nwork: 2 of 2, about 0s left\n" +
		"layers: 3\n"; b.String() != want {
		t.Errorf("said\n%swant\n%s", b.String(), want)
	}
}
