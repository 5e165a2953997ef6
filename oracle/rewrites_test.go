package oracle

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/rollout"
)

// TestRewrites: a step of any graph that is wrong by a fault of the library has that fault's name, in all operations
// that can have it or in one, which it says. One that is wrong by something else has none, however much of its errors
// a fault explains.
func TestRewrites(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		`conv first input {"out_channels":8,"kernel_size":3}`, `norm norm first {"normalization":"instance"}`,
		`act inner norm {"activation":"gelu"}`, `conv second inner {"out_channels":8,"kernel_size":3}`,
		`act outer second {"activation":"gelu"}`, `add sum outer,inner`, `hardswish gate sum`,
		`conv last gate {"out_channels":3,"kernel_size":1}`}, "\n")
	for name, of := range map[string]struct{ old, new, id, at string }{
		"another activation": {`"gelu"`, `"silu"`, "act.silu-for-the-activation", ""},
		"one activation": {`second {"activation":"gelu"}`, `second {"activation":"tanh"}`, "act.tanh-for-the-activation",
			"outer"},
		"padding":       {`"kernel_size":3`, `"kernel_size":3,"padding_mode":"reflect"`, "conv.padding:reflect", ""},
		"a block twice": {`add sum outer,inner`, `add sum outer,outer`, "", ""},
		"no residual":   {`add sum outer,inner`, `act sum outer {"activation":"none"}`, "kernel.term-missing", "sum"},
	} {
		for i, precision := range []string{"float32", "bfloat16"} {
			if !share.All() && i != len(name)%2 {
				continue
			}
			t.Run(name+"/"+precision, func(t *testing.T) {
				t.Parallel()
				mode, err := graph.ParseMode(precision, "")
				if err != nil {
					t.Fatal(err)
				}
				op := anyGraph(t, strings.Split(text, "\n")...)
				other := anyGraph(t, strings.Split(strings.ReplaceAll(text, of.old, of.new), "\n")...)
				c := rollout.Config{Policy: rollout.Residual, Dt: .25, EngineBatch: 2, BaseSeed: 5, Precision: precision}
				s := device(t, op, other, c, c, mode, 3, 2)
				r, err := Check(t.Context(), op, s, Claim{Mode: mode, Rollout: c, Noise: "counter"})
				if err != nil {
					t.Fatal(err)
				}
				f := r.Findings[0]
				if f.Step != 2 || of.id != "" && f.ID != of.id || of.id == "" && !strings.HasPrefix(f.ID, "unnamed.") ||
					!strings.HasSuffix(f.Diagnosis, of.at) {
					t.Errorf("%s, %s at step %d: want %s in %s at step 2", f.ID, f.Diagnosis, f.Step, of.id, of.at)
				}
			})
		}
	}
}
