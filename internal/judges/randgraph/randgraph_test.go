package randgraph

import "testing"

// TestEvery: each registered operation has graphs, and they are the same for a seed.
func TestEvery(t *testing.T) {
	for _, name := range Missing() {
		t.Errorf("%s has no graphs: want a row in makers.go", name)
	}
	for _, name := range Names() {
		some := 0
		for seed := range uint64(20) {
			c := Of(name, seed)
			some += len(c.Names)
			if again := Of(name, seed); len(again.Graph.Values) != len(c.Graph.Values) {
				t.Errorf("%s, seed %d: another graph the second time", name, seed)
			}
		}
		if some < 12 {
			t.Errorf("%s: %d of 20 graphs have it: want its maker to choose what fits more often", name, some)
		}
	}
}
