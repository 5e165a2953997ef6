package quantizer

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// Product is a product of quantized operands, (A * ScaleA) @ (B * ScaleB) + Bias.
type Product struct {
	A, B           *tensor.Tensor // [M,K] and [K,N], the numbers of their codes
	ScaleA, ScaleB *tensor.Tensor // for blocks of them: of as many axes, or one number, or [M] and [N]
	Bias           *tensor.Tensor // nil for none
	Output         *tensor.Tensor // [M,N]
	OfA, OfB       fp16.Narrow    // the formats of the operands
	Store          *fp16.Narrow   // that of the output, if it has 8 bits
}

// The forms in which kernels scale: the operands before they are multiplied, or the product. Of scales that differ
// along K only the first is there, to which the sums of blocks that are scaled each are as near as any order of a sum.
const (
	onOperands = "scales on the operands"
	onProduct  = "scales on the product"
)

// CheckProduct answers as [judge.Check] does, by the form that fits, which it names: of float32 sums in any order, or
// of those of a device's FP8 units. An output of 8 bits is held to the codes of all that float32 sums in any order may
// be.
func CheckProduct(p Product) (r *judge.Report, form string, err error) {
	if err := p.fit(); err != nil {
		return nil, "", err
	}
	forms := p.forms()
	for _, form = range forms {
		if r, err = p.judged(form, false); err != nil || r.Verdict != judge.Fail {
			return r, form, err
		}
	}
	if right, by, err := p.byUnits(); err != nil || right != nil {
		return right, by, err
	}
	return r, form, p.named(r)
}

// judged is the answer of one form, in brief without its causes.
func (p *Product) judged(form string, brief bool) (*judge.Report, error) {
	if p.Store != nil {
		return p.interval(), nil
	}
	q, err := p.question(form)
	if err != nil {
		return nil, err
	}
	q.Brief = brief
	return judge.Check(q)
}

// forms are those that the scales allow, the most usual last: its figures are those of a product that is wrong.
func (p *Product) forms() []string {
	if p.ScaleA.Shape[1] > 1 || p.ScaleB.Shape[0] > 1 {
		return []string{onOperands}
	}
	return []string{onOperands, onProduct}
}

// fit brings scales into the shape of two axes and checks all shapes.
func (p *Product) fit() error {
	for _, of := range []struct {
		name string
		t    *tensor.Tensor
	}{{"input", p.A}, {"other", p.B}, {"output", p.Output}} {
		if len(of.t.Shape) != 2 {
			return fmt.Errorf("%s: shape %v: want two axes", of.name, of.t.Shape)
		}
	}
	m, k, n := p.A.Shape[0], p.A.Shape[1], p.B.Shape[1]
	switch {
	case p.B.Shape[0] != k:
		return fmt.Errorf("other: shape %v: want %d rows, as input has columns", p.B.Shape, k)
	case !slices.Equal(p.Output.Shape, []int{m, n}):
		return fmt.Errorf("output: shape %v: want %v", p.Output.Shape, []int{m, n})
	case p.Bias != nil && !slices.Equal(p.Bias.Shape, []int{n}) && !slices.Equal(p.Bias.Shape, []int{m, n}):
		return fmt.Errorf("bias: shape %v: want [%d]", p.Bias.Shape, n)
	}
	var err error
	if p.ScaleA, err = blocked("scale_a", p.ScaleA, p.A.Shape, []int{m, 1}); err == nil {
		p.ScaleB, err = blocked("scale_b", p.ScaleB, p.B.Shape, []int{1, n})
	}
	return err
}

// blocked is a scale with two axes, each of one place for all, or for equal blocks of the operand's.
func blocked(name string, s *tensor.Tensor, of, line []int) (*tensor.Tensor, error) {
	shape := s.Shape
	switch {
	case len(s.Data) == 1:
		shape = []int{1, 1}
	case len(shape) == 1 && len(s.Data) == line[0]*line[1]:
		shape = line
	}
	for a := range of {
		if len(shape) != 2 || !divides(of[a], shape[a]) {
			return nil, fmt.Errorf("%s: shape %v: want one number, %v, or one for each block of %v", name, s.Shape, line, of)
		}
	}
	return &tensor.Tensor{Format: s.Format, Data: s.Data, Shape: shape}, nil
}

// divides reports whether an axis of n places has so many equal blocks, of which the last may be partial.
func divides(n, blocks int) bool {
	return blocks == 1 || blocks > 1 && (n+size(n, blocks)-1)/size(n, blocks) == blocks
}

// size is that of a block, where an axis has so many.
func size(n, blocks int) int { return max((n+blocks-1)/blocks, 1) }

// spread repeats a scale over its blocks, along the axes that have several.
func spread(s *tensor.Tensor, of []int) *tensor.Tensor {
	shape := slices.Clone(s.Shape)
	for a := range shape {
		if shape[a] > 1 {
			shape[a] = of[a]
		}
	}
	y := tensor.New(s.Format, shape...)
	rows, columns := size(shape[0], s.Shape[0]), size(shape[1], s.Shape[1])
	for i := range y.Data {
		y.Data[i] = s.Data[i/shape[1]/rows*s.Shape[1]+i%shape[1]/columns]
	}
	return y
}

// question is what the judge of kernels is asked.
func (p *Product) question(form string) (judge.Question, error) {
	product, err := graph.Bind("matmul", nil)
	if err != nil {
		return judge.Question{}, err
	}
	g, mul := graph.New(nil), graph.Binary{Of: pointwise.Mul}
	q := judge.Question{Graph: g, Output: p.Output}
	input := func(name string, t *tensor.Tensor) int {
		q.Inputs = append(q.Inputs, t)
		return g.Input(name)
	}
	a, b := input("input", p.A), input("other", p.B)
	if form == onProduct {
		p.scaled(&q, g.Add(product, "product", a, b))
		return q, nil
	}
	sa, sb := input("scale_a", spread(p.ScaleA, p.A.Shape)), input("scale_b", spread(p.ScaleB, p.B.Shape))
	p.biased(&q, g.Add(product, "product", g.Add(mul, "scaled_input", a, sa), g.Add(mul, "scaled_other", b, sb)))
	return q, nil
}

// scaled adds to a question what follows a product: the scales, and a bias.
func (p *Product) scaled(q *judge.Question, product int) {
	g, mul := q.Graph, graph.Binary{Of: pointwise.Mul}
	sa, sb := g.Input("scale_a"), g.Input("scale_b")
	q.Inputs = append(q.Inputs, spread(p.ScaleA, p.A.Shape), spread(p.ScaleB, p.B.Shape))
	p.biased(q, g.Add(mul, "scaled", product, g.Add(mul, "scale", sa, sb)))
}

// biased adds a bias, if there is one, and is the end.
func (p *Product) biased(q *judge.Question, y int) {
	if p.Bias != nil {
		q.Inputs = append(q.Inputs, p.Bias)
		y = q.Graph.Add(graph.Binary{Of: pointwise.Add}, "biased", y, q.Graph.Input("bias"))
	}
	q.Graph.Outputs = []int{y}
}

// A mistake is a product of what a wrong kernel takes for operands and scales.
type mistake struct {
	id   string
	args []any
	p    Product
}

// named names the mistake under which the output is right.
func (p *Product) named(r *judge.Report) error {
	for _, f := range p.mistakes() {
		forms := f.p.forms()
		of, err := f.p.judged(forms[len(forms)-1], true)
		if err != nil {
			return err
		}
		if of.Verdict == judge.Pass {
			row := table.Named(f.id, f.args...)
			r.Fault, r.FaultID, r.Advice = row.Name, row.ID, row.Advice
			return nil
		}
	}
	return nil
}

// mistakes are those that change anything.
func (p *Product) mistakes() (all []mistake) {
	add := func(id string, change func(p *Product), args ...any) {
		bent := *p
		change(&bent)
		all = append(all, mistake{id, args, bent})
	}
	for _, of := range []struct {
		name   string
		scale  func(p *Product) **tensor.Tensor
		number func(p *Product) (**tensor.Tensor, fp16.Narrow)
	}{
		{"input", func(p *Product) **tensor.Tensor { return &p.ScaleA },
			func(p *Product) (**tensor.Tensor, fp16.Narrow) { return &p.A, p.OfA }},
		{"other", func(p *Product) **tensor.Tensor { return &p.ScaleB },
			func(p *Product) (**tensor.Tensor, fp16.Narrow) { return &p.B, p.OfB }},
	} {
		add("quantize.scale-missing",
			func(p *Product) { s := of.scale(p); *s = mapped(*s, func(float64) float64 { return 1 }) }, of.name)
		add("quantize.scale-twice", func(p *Product) {
			s := of.scale(p)
			*s = mapped(*s, func(v float64) float64 { return fp16.Float32.Round(v * v) })
		}, of.name)
		add("quantize.scale-inverse", func(p *Product) {
			s := of.scale(p)
			*s = mapped(*s, func(v float64) float64 { return fp16.Float32.Round(1 / v) })
		}, of.name)
		if s := *of.scale(p); len(s.Data) > 1 {
			for _, step := range steps(s.Shape) {
				add("quantize.scale-of-other-block", func(p *Product) { s := of.scale(p); *s = moved(*s, besides(*s, step)) })
			}
			if min(s.Shape[0], s.Shape[1]) > 1 {
				for _, columns := range s.Shape {
					add("quantize.scales-transposed", func(p *Product) { s := of.scale(p); *s = moved(*s, across(*s, columns)) })
				}
			}
		}
		_, n := of.number(p)
		for _, other := range others(quantize.Element{Narrow: n}) {
			add("quantize.other-elements", func(p *Product) { x, _ := of.number(p); *x = recoded(*x, n, other) }, other)
		}
		if n.Bits() == 4 {
			add("quantize.nibbles-swapped", func(p *Product) { x, _ := of.number(p); *x = swapped(*x, of.name == "other") })
		}
	}
	return all
}

func mapped(t *tensor.Tensor, f func(float64) float64) *tensor.Tensor {
	y := t.Clone()
	for i, v := range t.Data {
		y.Data[i] = f(v)
	}
	return y
}

// moved has at each place what stood at another.
func moved(t *tensor.Tensor, from func(i int) int) *tensor.Tensor {
	y := t.Clone()
	for i := range y.Data {
		y.Data[i] = t.Data[from(i)]
	}
	return y
}

// steps lead to the blocks beside one: in its row, and in the rows around it.
func steps(shape []int) (l []int) {
	if shape[1] > 1 {
		l = append(l, -1, 1)
	}
	if shape[0] > 1 {
		l = append(l, -shape[1], shape[1])
	}
	return l
}

// besides is the block so far along, from the end the first: of less than a row in the same one.
func besides(t *tensor.Tensor, step int) func(i int) int {
	n := len(t.Data)
	if columns := t.Shape[1]; max(step, -step) < columns {
		return func(i int) int { return i - i%columns + (i+step+columns)%columns }
	}
	return func(i int) int { return (i + step + n) % n }
}

// across is where a number stands if memory is read as the transpose, of rows of so many.
func across(t *tensor.Tensor, columns int) func(i int) int {
	rows := len(t.Data) / columns
	return func(i int) int { return i%columns*rows + i/columns }
}

// recoded are the numbers that the codes of others are in another format.
func recoded(t *tensor.Tensor, from, to fp16.Narrow) *tensor.Tensor {
	return mapped(t, func(v float64) float64 { return to.Decode(from.Encode(v, fp16.MLDtypes)) })
}

// swapped has each two neighbours along K in the other order.
func swapped(t *tensor.Tensor, rows bool) *tensor.Tensor {
	y, step := t.Clone(), 1
	if rows {
		step = t.Shape[1]
	}
	for i, v := range t.Data {
		if to := i + step; i/step%2 == 1 {
			y.Data[i-step] = v
		} else if to < len(t.Data) {
			y.Data[to] = v
		}
	}
	return y
}

// interval holds an output of 8 bits to what any float32 sum of the products rounds to: a sum of K products, two scales
// and a bias have an error of at most (K + 4) 2^-24 of the sum of the magnitudes, and 2^-149 for each of them that is
// subnormal.
func (p *Product) interval() *judge.Report {
	m, k, n := p.A.Shape[0], p.A.Shape[1], p.B.Shape[1]
	sa, sb := spread(p.ScaleA, p.A.Shape), spread(p.ScaleB, p.B.Shape)
	at := func(s *tensor.Tensor, i, j int) float64 {
		return s.Data[min(i, s.Shape[0]-1)*s.Shape[1]+min(j, s.Shape[1]-1)]
	}
	r := &judge.Report{Verdict: judge.Pass, Store: p.Store.String(), Elements: m * n, Errors: math.MaxFloat64}
	same := true
	first := math.NaN()
	for i := range m {
		for j := range n {
			y, size := 0.0, 0.0
			for l := range k {
				v := float64(float64(p.A.Data[i*k+l]*p.B.Data[l*n+j]) * float64(at(sa, i, l)*at(sb, l, j)))
				y, size = y+v, size+math.Abs(v)
			}
			if p.Bias != nil {
				b := p.Bias.Data[(i*n+j)%len(p.Bias.Data)]
				y, size = y+b, size+math.Abs(b)
			}
			bound := float64(float64(k+4)*0x1p-24*size) + float64(float64(k+4)*0x1p-149)
			low, high := p.Store.Decode(p.Store.Encode(y-bound, fp16.Saturated)),
				p.Store.Decode(p.Store.Encode(y+bound, fp16.Saturated))
			got := p.Output.Data[i*n+j]
			if i+j == 0 {
				first = low
			}
			same = same && low == first && high == first
			if got >= low && got <= high || !(math.Abs(y)+bound <= p.Store.Largest()) && got-got != 0 {
				continue
			}
			if r.Violations++; r.Violations == 1 {
				text := func(v float64) string { return fmt.Sprintf("%.9g", v) }
				r.Worst = &judge.Worst{Index: []int{i, j}, Got: text(got), Exact: text(y), Low: text(low), High: text(high)}
			}
		}
	}
	switch {
	case r.Violations > 0:
		r.Verdict, r.Known = judge.Fail, report.Proved
		r.Reason = fmt.Sprintf("%d of %d elements are what no right kernel returns", r.Violations, r.Elements)
	case same:
		r.Verdict, r.Reason = judge.NoPower, "what is right is one number everywhere: this data shows nothing"
	}
	return r
}
