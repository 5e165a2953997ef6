package noise

import "testing"

// The values ISO C++ requires of std::mt19937 and of its first word.
func TestMT19937(t *testing.T) {
	var g mt19937
	g.seed(5489)
	for i := 1; i <= 10000; i++ {
		v := g.random()
		if want, ok := map[int]uint32{1: 3499211612, 10000: 4123659995}[i]; ok && v != want {
			t.Errorf("output %d is %d, want %d", i, v, want)
		}
	}
}

// The derived numbers against the words they are made of.
func TestMT19937Derived(t *testing.T) {
	var words, g mt19937
	words.seed(1)
	g.seed(1)
	for i := range 2000 { // across several twists
		hi, lo := words.random(), words.random()
		if got, want := g.random64(), uint64(hi)<<32|uint64(lo); got != want {
			t.Fatalf("random64 %d is %#x, want %#x", i, got, want)
		}
		hi, lo = words.random(), words.random()
		if got, want := g.u53(), float64(uint64(hi&(1<<21-1))<<32|uint64(lo))/(1<<53); got != want {
			t.Fatalf("u53 %d is %x, want %x", i, got, want)
		}
		if got, want := g.u24(), float32(words.random()%(1<<24))/(1<<24); got != want {
			t.Fatalf("u24 %d is %x, want %x", i, got, want)
		}
	}
}
