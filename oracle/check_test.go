package oracle

import (
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/rig"
)

// TestClaimedNoise: a case that says so is checked with unknown noise, unless the
// claim names a stream.
func TestClaimedNoise(t *testing.T) {
	c := rig.OpenCase(t, "seed_small")
	op, err := c.NewOperator()
	if err != nil {
		t.Fatal(err)
	}
	mode, err := graph.ParseMode("float32", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		unknown    bool
		name, want string
	}{{false, "", "torch-cpu:1.13"}, {true, "", ""}, {true, "counter", "counter"}, {false, "unknown", ""}} {
		c.NoiseUnknown = s.unknown
		stream, err := claimedNoise(c, op, CheckOptions{Mode: mode, Noise: s.name})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if stream != nil {
			got = stream.Name
		}
		if got != s.want {
			t.Errorf("%v: stream %q, want %q", s, got, s.want)
		}
	}
}
