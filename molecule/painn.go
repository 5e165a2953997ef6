package molecule

import (
	"fmt"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/tensor"
)

// painn returns the shapes of its weights.
func (s Sizes) painn() map[string][]int {
	h := s.Hidden
	of := map[string][]int{"embedding.weight": {s.Elements, h}}
	for l := range s.Layers {
		linear(of, fmt.Sprintf("filters.%d", l), 3*h, s.Radial)
		linear(of, fmt.Sprintf("message.%d.0", l), h, h)
		linear(of, fmt.Sprintf("message.%d.2", l), 3*h, h)
		of[fmt.Sprintf("mix.%d.weight", l)] = []int{2 * h, h}
		linear(of, fmt.Sprintf("update.%d.0", l), h, 2*h)
		linear(of, fmt.Sprintf("update.%d.2", l), 3*h, h)
	}
	linear(of, "readout.0", h, h)
	linear(of, "readout.2", 1, h)
	return of
}

// part is the name of a third of a layer's weights: those of a, b or c.
func part(name string, k int) string { return name + "/" + string(rune('a'+k)) }

// parts cuts the weights of what makes a, b and c together into three, of filters [H,R+1] with the bias as
// the last column.
func (m *Model) parts() {
	for l := range m.Sizes.Layers {
		w, bias := m.weights[name(l, "filters.%d.weight")], m.weights[name(l, "filters.%d.bias")]
		in := w.Shape[1]
		both := tensor.New(w.Format, w.Shape[0], in+1)
		for o := range w.Shape[0] {
			copy(both.Data[o*(in+1):], w.Data[o*in:(o+1)*in])
			both.Data[o*(in+1)+in] = bias.Data[o]
		}
		for k := range 3 {
			rows := func(t *tensor.Tensor) *tensor.Tensor { return t.Samples(k*m.Sizes.Hidden, (k+1)*m.Sizes.Hidden) }
			m.weights[part(name(l, "filters.%d"), k)+".weight"] = rows(both)
			m.weights[part(name(l, "message.%d.2"), k)+".weight"] = rows(m.weights[name(l, "message.%d.2.weight")])
			m.weights[part(name(l, "message.%d.2"), k)+".bias"] = rows(m.weights[name(l, "message.%d.2.bias")])
		}
	}
}

// painn is the network of Schütt, Unke and Gastegger (2021, arXiv:2102.03150) in the textbook's
// form, and returns the energies of atoms [N,1].
func (b *builder) painn() int {
	radial := b.cutBessel()
	q := b.Add(graph.Embedding{PaddingIdx: -1}, "embedding", b.weight("embedding.weight"), b.z)
	vectors := -1 // zeros
	for l := range b.m.Sizes.Layers {
		q, vectors = b.painnMessage(l, q, vectors, radial)
		q, vectors = b.painnUpdate(l, q, vectors, l == b.m.Sizes.Layers-1)
	}
	return b.mlp("readout", q)
}

// painnMessage adds what neighbours send: (a, b, c) = message(q)[j] filters(radial) fc, with which
// q_i += a and v_i += u b + v_j c. filters(radial) fc is one sum, of radial functions and a one, all
// times fc. Before there are vectors nobody reads c.
func (b *builder) painnMessage(l, q, vectors, radial int) (int, int) {
	at := func(part string) string { return fmt.Sprintf("message.%d.%s", l, part) }
	inner := b.Add(graph.Act{Func: act.SiLU}, at("1"), b.linear(at("0"), q))
	sent := func(k int) int {
		own := b.take(part(at("of"), k), b.linear(part(at("2"), k), inner), b.j)
		return b.binary(pointwise.Mul, part(at("sent"), k), own, b.linear(part(name(l, "filters.%d"), k), radial))
	}
	q = b.gathered(at("q"), q, sent(0), b.atoms, b.m.Sizes.Hidden)
	along := b.binary(pointwise.Mul, at("along"), b.axis(at("u"), 2, b.u), b.axis(at("b"), 1, sent(1)))
	if vectors >= 0 {
		turned := b.binary(pointwise.Mul, at("turned"), b.take(at("v_j"), vectors, b.j), b.axis(at("c"), 1, sent(2)))
		along = b.binary(pointwise.Add, at("vector"), along, turned)
	}
	return q, b.gathered(at("v"), vectors, along, b.atoms, 3, b.m.Sizes.Hidden)
}

// painnUpdate mixes the features of each atom: (V, U) = mix(v), n = sqrt(sum V^2 + 1e-8),
// (a, b, c) = update([q, n]), v += U a and q += b + c sum(U V). The last layer's v is read by nobody.
func (b *builder) painnUpdate(l, q, vectors int, last bool) (int, int) {
	at := func(part string) string { return fmt.Sprintf("update.%d.%s", l, part) }
	vu := b.split(at("mixed"), 2, b.linear(name(l, "mix.%d"), vectors))
	over := graph.Reduction{Of: "sum", Axes: graph.Ints{1}}
	length := b.Add(over, at("square"), b.function("square", at("squares"), vu[0]))
	norm := b.function("sqrt", at("norm"), b.plus(at("eps"), length, 1e-8))
	abc := b.split(at("split"), 3, b.mlp(name(l, "update.%d"), b.Add(graph.Cat{Axis: 1}, at("cat"), q, norm)))
	dot := b.Add(over, at("dot"), b.binary(pointwise.Mul, at("products"), vu[1], vu[0]))
	q = b.binary(pointwise.Add, at("q_b"), q, abc[1])
	q = b.binary(pointwise.Add, at("q"), q, b.binary(pointwise.Mul, at("c_dot"), abc[2], dot))
	if !last {
		turned := b.binary(pointwise.Mul, at("U_a"), vu[1], b.axis(at("a"), 1, abc[0]))
		vectors = b.binary(pointwise.Add, at("v"), vectors, turned)
	}
	return q, vectors
}
