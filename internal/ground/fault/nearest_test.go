package fault

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		far  int
	}{{"", "", 0}, {"", "abc", 3}, {"run", "run", 0}, {"rnu", "run", 1}, {"ru", "run", 1}, {"ruun", "run", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3}, {"abcd", "badc", 2}} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.far || back != c.far {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.far)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"run", "check", "compare", "one-step", "precision", "bench"}
	for name, want := range map[string]string{"rnu": "run", "chekc": "check", "comapre": "compare",
		"onestep": "one-step", "precison": "precision", "prec": "precision", "com": "compare", "x": "", "": "",
		"verify": "", "rollout": "", "benchmark": "", "check-all-of-it": ""} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := Meant("rnu", known); got != " did you mean run?" {
		t.Error(got)
	}
	if got := Meant("nothing", known); got != "" {
		t.Error(got)
	}
}
