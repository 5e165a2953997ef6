package initial

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"slices"
	"testing"
)

var modelStates = flag.Int("model-states", 32,
	"states of each condition that TestModels compares with the statistics of numpy's")

// features are those of testdata/models.py, of a state [c,n,n].
func features(x []float64, c, n int) map[string]float64 {
	area := n * n
	at := func(k, y, col int) float64 { return x[k*area+(y+n)%n*n+(col+n)%n] }
	out := map[string]float64{"most": math.Tanh(slices.Max(x)), "least": math.Tanh(slices.Min(x)), "over half": 0}
	add := func(name string, v float64, of int) { out[name] += v / float64(of) }
	for i, v := range x {
		k, y, col := i/area, i/n%n, i%n
		add("mean", v, len(x))
		add("square", v*v, len(x))
		add("cube", math.Pow(math.Tanh(v), 3), len(x))
		add("absolute", math.Abs(v), len(x))
		if v > .5 {
			add("over half", 1, len(x))
		}
		add("along x", v*(float64(col)-float64(n)/2)/float64(n), len(x))
		add("along y", v*(float64(y)-float64(n)/2)/float64(n), len(x))
		if y >= 8 && y < 16 && col >= 8 && col < 16 {
			add("middle", v*v, 64*c)
		}
		if k == 0 {
			add("channel 0", v*v, area)
			add("channel 0 times 1", v*x[area+i], area)
			add("channel 0 times 2", v*x[2*area+i], area)
		}
		if k == 2 {
			add("channel 2", v, area)
		}
		for r, name := range map[int][2]string{1: {"1 columns on", "1 rows on"}, 2: {"2 columns on", "2 rows on"},
			4: {"4 columns on", "4 rows on"}, 8: {"8 columns on", "8 rows on"}} {
			add(name[0], v*at(k, y, col+r), len(x))
			add(name[1], v*at(k, y+r, col), len(x))
		}
		add("2 on the diagonal", v*at(k, y+2, col+2), len(x))
	}
	out["square of the mean"] = out["mean"] * out["mean"]
	return out
}

// TestModels compares every type, in each of its patterns, with a second model of its
// definition: testdata/models.py, in float64 numpy with numpy's random numbers. The means over
// states of two dozen features (moments, extremes, correlations of pixels and of channels,
// gradients) may differ by six standard errors of the two means.
func TestModels(t *testing.T) {
	text, err := os.ReadFile("testdata/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Side, Channels int
		Rows           []struct {
			Condition json.RawMessage
			States    int
			Features  map[string][2]float64
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	largest, compared := 0.0, 0
	for _, row := range file.Rows {
		cond, err := Parse("models.json", "", row.Condition)
		if err != nil {
			t.Fatal(err)
		}
		seen[cond.Type] = true
		sums := map[string]float64{}
		x := make([]float64, file.Channels*file.Side*file.Side)
		for seed := range *modelStates {
			if err := cond.Fill(uint64(seed+1000), file.Channels, file.Side, x); err != nil {
				t.Fatal(err)
			}
			for name, v := range features(x, file.Channels, file.Side) {
				sums[name] += v
			}
		}
		for name, want := range row.Features {
			got := sums[name] / float64(*modelStates)
			// Sums are rounded, and states to float32.
			e := want[1]*math.Sqrt(1/float64(*modelStates)+1/float64(row.States)) + 1e-7*(1+math.Abs(want[0]))/6
			z := math.Abs(got-want[0]) / e
			if largest, compared = max(largest, z), compared+1; z > 4 {
				t.Logf("%s: %s %.4g, numpy's %.4g: %.1f standard errors", row.Condition, name, got, want[0], z)
			}
			if !(z <= 6) {
				t.Errorf("%s: %s %.4g, want %.4g: %.1f standard errors", row.Condition, name, got, want[0], z)
			}
		}
		if len(row.Features) != len(sums) {
			t.Errorf("%s: %d features, want %d", row.Condition, len(sums), len(row.Features))
		}
	}
	for _, name := range Names() {
		if !seen[name] {
			t.Errorf("%s: no model", name)
		}
	}
	t.Logf("%d means compared; the largest difference is %.2f standard errors", compared, largest)
}
