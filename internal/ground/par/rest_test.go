package par

import (
	"runtime"
	"testing"
	"time"
)

// TestRests: helpers without work go to sleep.
func TestRests(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	For(4, func(int) {})
	if len(pool.helpers) < 3 {
		t.Fatalf("%d helpers, want 3", len(pool.helpers))
	}
	for began := time.Now(); ; runtime.Gosched() {
		awake := 0
		for _, h := range pool.helpers {
			if h.state.Load() != asleep {
				awake++
			}
		}
		if awake == 0 {
			return
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("%d helpers awake after 5 s", awake)
		}
	}
}
