package molecule

import (
	"fmt"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
)

// painnFilter returns the shapes of its weights. The readout has as many layers as there are, of
// any sizes.
func (s Sizes) painnFilter(shapes map[string][]int) (map[string][]int, error) {
	h := s.Hidden
	of := map[string][]int{"embedding.weight": {s.Elements, h}, "rbf.centers": {s.Radial}, "rbf.widths": {s.Radial}}
	for l := range s.Layers {
		linear(of, fmt.Sprintf("interactions.%d.message.rbf_to_scalar.0", l), h, s.Radial)
		linear(of, fmt.Sprintf("interactions.%d.message.rbf_to_scalar.2", l), 3*h, h)
		of[fmt.Sprintf("interactions.%d.update.mixing_matrix", l)] = []int{3, 3}
		linear(of, fmt.Sprintf("interactions.%d.update.update_mlp.0", l), h, 2*h)
		linear(of, fmt.Sprintf("interactions.%d.update.update_mlp.2", l), 3*h, h)
	}
	in := h
	for k := 0; ; k += 2 {
		name := fmt.Sprintf("energy_head.%d", k)
		w, ok := shapes[name+".weight"]
		if !ok && k > 0 && in == 1 {
			return of, nil
		}
		if len(w) != 2 || w[0] < 1 {
			return nil, fmt.Errorf("%s.weight: shape %v: want [n,%d], and one number in the end", name, w, in)
		}
		linear(of, name, w[0], in)
		in = w[0]
	}
}

// painnFilter is the network of which MLFF Distiller publishes students, and returns the energies of
// atoms [N,1]. Messages are filters of the distance alone, vectors are mixed by a matrix of x, y and z,
// so that a rotated molecule has another energy, lengths have no eps, and u is r/(d + 1e-8).
func (b *builder) painnFilter() int {
	fc := b.cutoff()
	var widths []float64
	for _, w := range b.m.weights["rbf.widths"].Data {
		widths = append(widths, -1/float64(w*w))
	}
	radial := b.binary(pointwise.Mul, "filter", b.gaussians("rbf.centers", widths...), fc)
	q := b.Add(graph.Embedding{PaddingIdx: -1}, "embedding", b.weight("embedding.weight"), b.z)
	vectors := -1 // zeros
	for l := range b.m.Sizes.Layers {
		q, vectors = b.filterMessage(l, q, vectors, radial)
		q, vectors = b.filterUpdate(l, q, vectors, l == b.m.Sizes.Layers-1)
	}
	e := b.linear("energy_head.0", q)
	for k := 2; b.m.weights[fmt.Sprintf("energy_head.%d.weight", k)] != nil; k += 2 {
		e = b.linear(fmt.Sprintf("energy_head.%d", k),
			b.Add(graph.Act{Func: act.SiLU}, fmt.Sprintf("energy_head.%d", k-1), e))
	}
	return e
}

// filterMessage: (a, b, c) = rbf_to_scalar(radial), with which q_i += q_j a and v_i += v_j b + u c.
func (b *builder) filterMessage(l, q, vectors, radial int) (int, int) {
	at := func(part string) string { return fmt.Sprintf("interactions.%d.message.%s", l, part) }
	abc := b.split(at("split"), 3, b.mlp(at("rbf_to_scalar"), radial))
	next := b.gathered(at("q"), q, b.binary(pointwise.Mul, at("sent"), b.take(at("q_j"), q, b.j), abc[0]), b.atoms,
		b.m.Sizes.Hidden)
	along := b.binary(pointwise.Mul, at("along"), b.axis(at("u"), 2, b.u), b.axis(at("c"), 1, abc[2]))
	if vectors >= 0 {
		turned := b.binary(pointwise.Mul, at("turned"), b.take(at("v_j"), vectors, b.j), b.axis(at("b"), 1, abc[1]))
		along = b.binary(pointwise.Add, at("vector"), along, turned)
	}
	return next, b.gathered(at("v"), vectors, along, b.atoms, 3, b.m.Sizes.Hidden)
}

// filterUpdate: (a, b, c) = update_mlp([q, |v|]), q += a and v = v b + (mixing_matrix v) c.
func (b *builder) filterUpdate(l, q, vectors int, last bool) (int, int) {
	at := func(part string) string { return fmt.Sprintf("interactions.%d.update.%s", l, part) }
	length := b.Add(graph.VectorNorm{Order: 2, Axes: graph.Ints{1}}, at("norm"), vectors)
	abc := b.split(at("split"), 3, b.mlp(at("update_mlp"), b.Add(graph.Cat{Axis: 1}, at("cat"), q, length)))
	q = b.binary(pointwise.Add, at("q"), q, abc[0])
	if last {
		return q, vectors
	}
	mixed := b.Add(graph.Einsum{Equation: "ij,njk->nik"}, at("mixed"), b.weight(at("mixing_matrix")), vectors)
	stay := b.binary(pointwise.Mul, at("v_b"), vectors, b.axis(at("b"), 1, abc[1]))
	return q,
		b.binary(pointwise.Add, at("v"), stay, b.binary(pointwise.Mul, at("c"), mixed, b.axis(at("c.axis"), 1, abc[2])))
}
