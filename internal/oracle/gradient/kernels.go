package gradient

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/judge"
)

// Kernel returns the graph of one operation as [judge.Kernel] does, and the order of its inputs. What has one function
// there is here what it consists of: cross_entropy, rotary_embedding and, of an input and a mask, dropout.
func Kernel(op string, attributes []byte, names []string) (*graph.Graph, []string, error) {
	make := map[string]func(b *builder, attributes []byte, in []int) (int, error){
		"cross_entropy": crossEntropy, "rotary_embedding": rotary, "dropout": dropout,
	}[op]
	if make == nil {
		return judge.Kernel(op, attributes, names)
	}
	order := arguments[op]
	for _, n := range order {
		if !slices.Contains(names, n) {
			return nil, nil, fmt.Errorf("%s: no tensor %s: want %v, of %.200q", op, n, order, names)
		}
	}
	if len(names) > len(order) {
		return nil, nil, fmt.Errorf("%s: tensors %.200q: want %v", op, names, order)
	}
	b := &builder{graph.New(nil)}
	var in []int
	for _, n := range order {
		in = append(in, b.Input(n))
	}
	out, err := make(b, attributes, in)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", op, err)
	}
	b.Outputs = []int{out}
	return b.Graph, order, nil
}

var arguments = map[string][]string{
	"cross_entropy": {"input", "target"}, "rotary_embedding": {"input", "cos", "sin"}, "dropout": {"input", "mask"},
}

type builder struct{ *graph.Graph }

func (b *builder) f(name, as string, in int) int {
	f, err := pointwise.Parse(name, nil)
	if err != nil {
		panic("gradient: " + err.Error())
	}
	return b.Add(graph.Unary{Func: f}, as, in)
}

func (b *builder) pair(of pointwise.Op, as string, in ...int) int {
	return b.Add(graph.Binary{Of: of}, as, in...)
}

func (b *builder) with(of pointwise.Op, as string, in int, number float64) int {
	return b.Add(graph.Binary{Of: of, Other: &number}, as, in)
}

// dropout is x mask / (1 - p).
func dropout(b *builder, attributes []byte, in []int) (int, error) {
	a := struct {
		P float64 `json:"p"`
	}{0.5}
	if err := read(attributes, &a); err != nil {
		return 0, err
	}
	if !(a.P >= 0 && a.P < 1) {
		return 0, fmt.Errorf("p: %v: want a number from 0 to below 1", a.P)
	}
	mask := b.Add(graph.Cast{Dtype: fp16.Float64.String()}, "mask_numbers", in[1])
	return b.with(pointwise.Mul, "output", b.pair(pointwise.Mul, "kept", in[0], mask), 1/(1-a.P)), nil
}

// rotary is x cos + (-second half of x, first half) sin.
func rotary(b *builder, attributes []byte, in []int) (int, error) {
	var a struct {
		Interleaved int `json:"interleaved"`
	}
	if err := read(attributes, &a); err != nil {
		return 0, err
	}
	if a.Interleaved != 0 {
		return 0, fmt.Errorf("interleaved: %d: want 0, or a function", a.Interleaved)
	}
	half := b.AddNode(graph.Chunk{Chunks: 2, Axis: -1}, "halves", 2, in[0])
	turned := b.Add(graph.Cat{Axis: -1}, "turned", b.f("neg", "negated", half[1]), half[0])
	return b.pair(pointwise.Add, "output", b.pair(pointwise.Mul, "by_cos", in[0], in[1]),
		b.pair(pointwise.Mul, "by_sin", turned, in[2])), nil
}

// crossEntropy is -log_softmax(x)[target] of each row, 0 where the target is ignored, and their sum or mean; smoothing
// is the part of it that is the mean of -log_softmax(x).
func crossEntropy(b *builder, attributes []byte, in []int) (int, error) {
	a := struct {
		Reduction string  `json:"reduction"`
		Ignore    float64 `json:"ignore_index"`
		Smoothing float64 `json:"label_smoothing"`
	}{Reduction: "none", Ignore: -100}
	if err := read(attributes, &a); err != nil {
		return 0, err
	}
	if !slices.Contains([]string{"none", "sum", "mean"}, a.Reduction) {
		return 0, fmt.Errorf("reduction: %.60q: want none, sum or mean", a.Reduction)
	}
	counted := b.with(pointwise.NotEqual, "counted", in[1], a.Ignore)
	y := b.Add(graph.Softmax{Axis: 1, Log: true}, "log_probabilities", in[0])
	zero := b.with(pointwise.Mul, "class_0", in[1], 0)
	column := b.Add(graph.Unsqueeze{Axes: graph.Ints{1}}, "column", b.Add(graph.Where{}, "class", counted, in[1], zero))
	loss := b.f("neg", "loss",
		b.Add(graph.Squeeze{Axes: graph.Ints{1}}, "chosen", b.Add(graph.Gather{Axis: 1}, "chosen_column", y, column)))
	if a.Smoothing != 0 {
		all := b.f("neg", "smoothed", b.Add(graph.Reduction{Of: "mean", Axes: []int{1}}, "mean", y))
		loss = b.pair(pointwise.Add, "mixed", b.with(pointwise.Mul, "loss_part", loss, 1-a.Smoothing),
			b.with(pointwise.Mul, "smoothed_part", all, a.Smoothing))
	}
	shown := b.Add(graph.Cast{Dtype: fp16.Float64.String()}, "shown", counted)
	loss = b.pair(pointwise.Mul, "losses", loss, shown)
	if a.Reduction == "none" {
		return loss, nil
	}
	total := b.Add(graph.Reduction{Of: "sum", Axes: []int{0}}, "total", loss)
	if a.Reduction == "sum" {
		return total, nil
	}
	return b.pair(pointwise.Div, "output", total, b.Add(graph.Reduction{Of: "sum", Axes: []int{0}}, "count", shown)), nil
}

func read(attributes []byte, to any) error {
	if len(attributes) == 0 {
		return nil
	}
	return attr.Read(attributes, to)
}
