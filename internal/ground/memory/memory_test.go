package memory

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"8GB": 8e9, "8 GB": 8e9, "512MiB": 512 << 20, "512mib": 512 << 20,
		"1e9": 1e9, "1.5k": 1500, "2TB": 2e12, "1": 1, "7B": 7, "1Gi": 1 << 30} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %d, %v: want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "0", "-1", "GB", "8XB", "8GBB", "NaN", "Inf", "1e30", "8 G B", "0.5", "9223372036854775807",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%s: %d, want an error", text, got)
		}
	}
}

func TestBeyondAllNumbers(t *testing.T) {
	for _, c := range []struct{ got, want int64 }{
		{Sum(1, 2, 3), 6}, {Sum(math.MaxInt64, 1), math.MaxInt64}, {Sum(), 0},
		{Product(1<<40, 1<<40), math.MaxInt64}, {Product(1<<40, 1<<40, 0), 0},
		{Product(1<<31, 1<<31), 1 << 62}, {Product(), 1},
	} {
		if c.got != c.want {
			t.Errorf("%d, want %d", c.got, c.want)
		}
	}
}

// TestLimit: what is set is the limit, for the smallest sizes too.
func TestLimit(t *testing.T) {
	Limit(1000)
	defer Limit(0)
	if err := Fits(1000); err != nil || There() != 1000 {
		t.Error(err, There())
	}
	if err := Fits(1001); err == nil || err.Error() != "takes 1 kB of memory: want at most 1 kB, which --memory says" {
		t.Error(err)
	}
}
