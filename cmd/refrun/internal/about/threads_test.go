package about

import (
	"flag"
	"slices"
	"testing"
)

// TestThreadCounts: a selftest is of several numbers of threads, that of the machine among them, or of the one number
// that was asked for.
func TestThreadCounts(t *testing.T) {
	for _, k := range []struct {
		args []string
		n    int
		want []int
	}{
		{nil, 2, []int{1, 2, 7}}, {nil, 16, []int{1, 2, 7, 16}}, {[]string{"-threads", "2"}, 2, []int{2}},
		{[]string{"-threads", "5"}, 5, []int{5}},
	} {
		flags := flag.NewFlagSet("selftest", flag.ContinueOnError)
		flags.Int("threads", 2, "")
		if err := flags.Parse(k.args); err != nil {
			t.Fatal(err)
		}
		if got := threadCounts(flags, k.n); !slices.Equal(got, k.want) {
			t.Errorf("%v on %d: %v, want %v", k.args, k.n, got, k.want)
		}
	}
}
