package check

import "testing"

// TestAgain: the line for a shell has the words of the flags as a shell takes them.
func TestAgain(t *testing.T) {
	w := checkFlags{dir: "it's a case", noise: "torch-cuda:108", budget: usualBudget}
	if got, want := w.again("norm.eps:0.0001"),
		`refrun check --case 'it'\''s a case' --noise torch-cuda:108 --finding norm.eps:0.0001`; got != want {
		t.Errorf("command %s: want %s", got, want)
	}
}
