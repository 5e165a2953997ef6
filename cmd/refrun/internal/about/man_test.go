package about

import "testing"

// TestRoff: no text is a command of man.
func TestRoff(t *testing.T) {
	if got := roff(".a\n'b -c\\"); got != "\\&.a\n\\&'b \\-c\\e" {
		t.Errorf("%q", got)
	}
}
