package main

import (
	"encoding/json"
	"runtime"
	"testing"
)

// TestThreadsByDefault: however many threads the environment asks of Go, there are no more than
// processors unless --threads says so.
func TestThreadsByDefault(t *testing.T) {
	threads := func(args ...string) int {
		runtime.GOMAXPROCS(9999)
		r := refrun(t, append([]string{"info", "--json"}, args...)...)
		var of struct {
			Threads int `json:"threads"`
		}
		if err := json.Unmarshal([]byte(r.Stdout), &of); err != nil {
			t.Fatal(err)
		}
		return of.Threads
	}
	if n := threads(); n != runtime.NumCPU() {
		t.Errorf("%d threads: want %d, the processors", n, runtime.NumCPU())
	}
	if n := threads("--threads", "3"); n != 3 {
		t.Errorf("%d threads: want 3", n)
	}
}
