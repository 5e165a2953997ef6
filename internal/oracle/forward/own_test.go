package forward_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/forward"
	"github.com/refrun/refrun/network"
	"github.com/refrun/refrun/tensor"
)

// TestOwnEvaluation: what the mode of a claim gives passes as that claim, whatever PyTorch's release or library did
// where a network was recorded.
func TestOwnEvaluation(t *testing.T) {
	paths, err := filepath.Glob("testdata/half/*-bfloat16-cpu.json")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%d networks: %v", len(paths), err)
	}
	for _, path := range paths {
		q := recordedHalf(t, path, "right")
		for _, claim := range []string{"float32", "float16 cpu", "float16 cuda", "bfloat16 cpu", "bfloat16 cuda"} {
			precision, autocast, _ := strings.Cut(claim, " ")
			n, err := network.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			own := forward.Question{Name: q.Name, Graph: n.Graph, Inputs: q.Inputs}
			if own.Claim, err = forward.ParseClaim(precision, autocast); err != nil {
				t.Fatal(err)
			}
			own.Outputs = evaluated(t, own)
			if r, err := forward.Check(context.Background(), own); err != nil || !r.Verdict.Passed() {
				t.Errorf("%s as %s: %+v, %v", q.Name, claim, r, err)
			}
		}
	}
}

// evaluated is what a graph gives in the mode of a claim.
func evaluated(t *testing.T, q forward.Question) []*tensor.Tensor {
	t.Helper()
	types := make([]graph.Type, len(q.Inputs))
	for i, x := range q.Inputs {
		types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
	}
	p, err := q.Graph.Infer(q.Claim.Mode, types...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(new(graph.Run), q.Inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
