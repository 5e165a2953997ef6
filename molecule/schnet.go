package molecule

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// schnet returns the shapes of its weights, in the names of PyTorch Geometric's SchNet.
func (s Sizes) schnet(shapes map[string][]int) (map[string][]int, error) {
	h := s.Hidden
	w := shapes["interactions.0.mlp.0.weight"]
	if len(w) != 2 || w[0] < 1 {
		return nil, fmt.Errorf("interactions.0.mlp.0.weight: shape %v: want [filters,%d]", w, s.Radial)
	}
	filters := w[0]
	if s.Radial < 2 {
		return nil, fmt.Errorf("distance_expansion.offset: %d centre: want 2 or more, whose distance is the width", s.Radial)
	}
	of := map[string][]int{"embedding.weight": {s.Elements, h}, "distance_expansion.offset": {s.Radial}}
	for l := range s.Layers {
		at := func(part string) string { return fmt.Sprintf("interactions.%d.%s", l, part) }
		linear(of, at("mlp.0"), filters, s.Radial)
		linear(of, at("mlp.2"), filters, filters)
		of[at("conv.lin1.weight")] = []int{filters, h}
		linear(of, at("conv.lin2"), h, filters)
		linear(of, at("lin"), h, h)
	}
	linear(of, "lin1", h/2, h)
	linear(of, "lin2", 1, h/2)
	return of, nil
}

// schnetTwice reports whether a name is that under which a state dict has a filter's weights again.
func schnetTwice(name string) bool { return strings.Contains(name, ".conv.nn.") }

// schnet is the network of Schütt et al. (2018, doi:10.1063/1.5019779), and returns the energies of
// atoms [N,1].
func (b *builder) schnet() int {
	fc := b.cutoff()
	centres := b.m.weights["distance_expansion.offset"].Data
	width := centres[1] - centres[0]
	radial := b.gaussians("distance_expansion.offset", -0.5/float64(width*width))
	x := b.Add(graph.Embedding{PaddingIdx: 0}, "embedding", b.weight("embedding.weight"), b.z)
	for l := range b.m.Sizes.Layers {
		x = b.schnetLayer(l, x, radial, fc)
	}
	return b.linear("lin2", b.shifted("act", b.linear("lin1", x)))
}

// shifted is softplus(x) - ln 2.
func (b *builder) shifted(name string, x int) int {
	return b.plus(name, b.function("softplus", name+".softplus", x), -math.Ln2)
}

// schnetLayer: x_i += lin(ssp(lin2(sum of lin1(x)_j mlp(radial) fc))).
func (b *builder) schnetLayer(l, x, radial, fc int) int {
	at := func(part string) string { return fmt.Sprintf("interactions.%d.%s", l, part) }
	filter := b.linear(at("mlp.2"), b.shifted(at("mlp.1"), b.linear(at("mlp.0"), radial)))
	filter = b.binary(pointwise.Mul, at("conv.filter"), filter, fc)
	sent := b.binary(pointwise.Mul, at("conv.sent"), b.take(at("conv.x_j"), b.linear(at("conv.lin1"), x), b.j), filter)
	width := b.m.weights[at("conv.lin1.weight")].Shape[0]
	sum := b.gathered(at("conv.sum"), -1, sent, b.atoms, width)
	y := b.linear(at("lin"), b.shifted(at("act"), b.linear(at("conv.lin2"), sum)))
	return b.binary(pointwise.Add, at("x"), x, y)
}
