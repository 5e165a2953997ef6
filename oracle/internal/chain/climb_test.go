package chain

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// TestAlikeTwos: among the choices that are made together is that of all batch norms in the weights of products that
// are not stored, each product beside its own norm.
func TestAlikeTwos(t *testing.T) {
	t.Parallel()
	const layers = 3
	op, err := operator.Init(operator.Config{NumLayers: layers - 1, BaseChannels: 8, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "silu", Normalization: "batch"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := graph.ParseMode("float16", "cpu")
	if err != nil {
		t.Fatal(err)
	}
	s := stepOf(op, rollout.Config{Policy: rollout.Residual, Dt: .1}, mode, 16, 16)
	claim := lower.Claim{Mode: mode}
	all, err := claim.Choices(s.g, []graph.Type{{Shape: []int{2, 3, 16, 16}, Format: fp16.Float32}},
		claim.Contracts(s.g)[0], fp16.Float32)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, group := range alikeTwos(all) {
		norms := 0
		for i := 0; i+1 < len(group); i += 2 {
			product, norm := group[i], group[i+1]
			if !norm.Follows(product) {
				t.Errorf("%v does not follow %v", norm, product)
			}
			if product.Done && !norm.Done && norm.String() != norm.Name {
				norms++
			}
		}
		if norms == layers {
			found++
		}
	}
	if found == 0 {
		t.Errorf("no group of %d products and norms among %d", layers, len(alikeTwos(all)))
	}
}
