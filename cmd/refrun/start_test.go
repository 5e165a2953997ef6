package main

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/safetensors"
)

// TestStartOfTrajectories: a rollout from a file of trajectories begins with their first states, from any kind of file.
func TestStartOfTrajectories(t *testing.T) {
	clitest.InFolder(t, fastConfig)
	digest := func(args ...string) any {
		t.Helper()
		return refrun(t, append([]string{"run", "--json", "--config", "run.yaml", "--force"}, args...)...).Decode(t)["digest"]
	}
	for _, file := range []string{"t.safetensors", "t.npy", "t.h5"} {
		digest("--x0", "white:7", "-o", file)
	}
	f, err := safetensors.Open("t.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.Tensor("trajectory")
	if err != nil {
		t.Fatal(err)
	}
	x, err := all.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	s := all.Shape
	n := s[2] * s[3] * s[4]
	var first []float64
	for m := range s[0] {
		first = append(first, x[m*s[1]*n:m*s[1]*n+n]...)
	}
	start, err := safetensors.OfFloat64s("x0", safetensors.F32, []int{s[0], s[2], s[3], s[4]}, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile("first.safetensors", []*safetensors.Tensor{start}, nil); err != nil {
		t.Fatal(err)
	}
	want := digest("--x0", "first.safetensors", "-o", "out.npy")
	for _, file := range []string{"t.safetensors:trajectory", "t.npy", "t.h5:trajectories"} {
		if got := digest("--x0", file, "-o", "out.npy"); got != want {
			t.Errorf("%s: digest %v: want %v", file, got, want)
		}
	}
	r := refrun(t, "run", "--config", "run.yaml", "--realizations", "3", "--x0", "t.npy")
	said := "first states of trajectories: t.npy: shape [5 3 14 14]: want [3,H,W] or [3,3,H,W]"
	if !strings.Contains(r.Stderr, said) {
		t.Errorf("stderr %q: want %q", r.Stderr, said)
	}
}
