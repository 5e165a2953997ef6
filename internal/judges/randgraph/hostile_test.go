package randgraph

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

var hostileNodes = flag.Int("randgraph.hostile", 400, "hostile nodes of each operation")

// hostile is a node of one operation as an enemy would write it: what a maker chose, with
// attributes and inputs changed.
type hostile struct {
	*rand.Rand
	name       string
	attributes string // JSON
	types      []graph.Type
	constant   []bool
}

// bytes is a source of random numbers that a fuzzer writes, and then those of a generator.
type bytes struct {
	of   []byte
	then *rand.PCG
}

func (b *bytes) Uint64() uint64 {
	if len(b.of) == 0 {
		return b.then.Uint64()
	}
	v := b.of[0]
	b.of = b.of[1:]
	return uint64(v) * 0x9e3779b97f4a7c15
}

// newHostile returns a node of the operation of that name.
func newHostile(r *rand.Rand, name string) *hostile {
	h := &hostile{Rand: r, name: name}
	a := attributes{}
	b := &builder{Rand: r, g: graph.New(new(graph.Kept))}
	if maker := makers[name]; maker != nil {
		made := maker(b)
		maps.Copy(a, made.attributes)
		for _, v := range made.in {
			h.types = append(h.types, b.types[v])
		}
	} else {
		h.types = []graph.Type{{Shape: []int{1, 2, 3, 4}, Format: fp16.Float32}}
	}
	for range []int{0, 1, 1, 2, 4}[r.IntN(5)] {
		h.changeAttribute(a)
	}
	for range []int{0, 0, 1, 1, 3}[r.IntN(5)] {
		h.changeTypes()
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	h.attributes = string(text)
	for range h.types {
		h.constant = append(h.constant, r.IntN(3) == 0)
	}
	return h
}

// named returns an attribute's name, mostly one of the operation's.
func (h *hostile) named(a attributes) string {
	names := slices.Sorted(maps.Keys(a))
	if op, err := graph.Bind(h.name, nil); err == nil {
		t := reflect.TypeOf(op)
		for i := range t.NumField() {
			if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag != "" && tag != "-" {
				names = append(names, tag)
			}
		}
	}
	if h.IntN(10) == 0 || len(names) == 0 {
		names = []string{"dim", "axis", "keepdim", "alpha", "beta", "min", "max", "self", "other", "threshold", "scale",
			"approximate", "negative_slope", "rounding_mode", "lambd", "size", "", "\x1b[2J", strings.Repeat("x", 500)}
	}
	return names[h.IntN(len(names))]
}

func (h *hostile) changeAttribute(a attributes) {
	name := h.named(a)
	if h.IntN(8) == 0 {
		delete(a, name)
		return
	}
	a[name] = h.value()
}

// value is what JSON can say.
func (h *hostile) value() any {
	switch h.IntN(9) {
	default:
		return h.number()
	case 3, 4:
		of := make([]any, h.IntN(6))
		if h.IntN(20) == 0 {
			of = make([]any, 40)
		}
		for i := range of {
			of[i] = h.number()
		}
		return of
	case 5:
		return []float64{0.5, -1, 1e300, -1e-300, 1e39, 3}[h.IntN(6)]
	case 6:
		return h.IntN(2) == 0
	case 7:
		return []string{"", "sum", "mean", "same", "valid", "reflect", "circular", "bicubic", "bilinear", "nearest",
			"ortho", "tanh", "floor", "int8", "bool", "float16", "add", "CRD", "ij,jk->ik", "...i->i...", "i->ii",
			"\x1b[2J\n", strings.Repeat("ab,", 300)}[h.IntN(23)]
	case 8:
		return []any{nil, map[string]any{"a": 1}, []any{[]any{1}}, []any{"x"}}[h.IntN(4)]
	}
}

func (h *hostile) number() int {
	if h.IntN(4) > 0 {
		return h.IntN(9) - 4
	}
	return []int{
		math.MaxInt, math.MinInt, math.MaxInt - 1, 1 << 40, -1 << 40, 1 << 32, 1<<31 - 1, 1 << 20, 1000003, -1 << 62,
	}[h.IntN(10)]
}

func (h *hostile) changeTypes() {
	if len(h.types) == 0 || h.IntN(8) == 0 {
		shape := make([]int, h.IntN(5))
		for i := range shape {
			shape[i] = h.IntN(4)
		}
		h.types = append(h.types, graph.Type{Shape: shape, Format: fp16.Float32})
		return
	}
	k := h.IntN(len(h.types))
	t := h.types[k]
	t.Shape = slices.Clone(t.Shape)
	switch h.IntN(7) {
	case 0:
		h.types = slices.Delete(h.types, k, k+1)
		return
	case 1:
		h.types = append(h.types, t)
		return
	case 2:
		t.Format = []fp16.Format{fp16.Int64, fp16.Float64, fp16.Float16, fp16.BFloat16, fp16.Float32}[h.IntN(5)]
	case 3:
		t.Shape = append(t.Shape, 1+h.IntN(3))
	case 4:
		t.Shape = t.Shape[:h.IntN(len(t.Shape)+1)]
	default:
		if len(t.Shape) > 0 {
			t.Shape[h.IntN(len(t.Shape))] = []int{0, 1, 2, 3, 5, 7, 1 << 39, 1 << 20}[min(h.IntN(24), 7)]
		}
	}
	h.types[k] = t
}

// tensor returns numbers of a type, whole ones out of any range.
func (h *hostile) tensor(t graph.Type) *tensor.Tensor {
	x := numbers(h.Rand, t.Shape)
	x.Format = t.Format
	far := h.IntN(4) == 0
	for i := range x.Data {
		if t.Format == fp16.Int64 {
			x.Data[i] = float64(h.IntN(4))
			if far && h.IntN(4) == 0 {
				x.Data[i] = []float64{-1, -5, 1 << 31, -1 << 53, 1 << 53, 1e6}[h.IntN(6)]
			}
		}
	}
	t.Format.RoundSlice(x.Data, x.Data)
	return x
}

// few bounds the numbers of the tensors with which a node is evaluated.
const few = 4000

// count returns how many numbers a shape would have without axes of size 0.
func count(shape []int) float64 {
	n := 1.0
	for _, d := range shape {
		n *= float64(max(d, 1))
	}
	return n
}

// allocated returns the bytes that were ever taken, those of small objects a little late.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// survive binds, infers and evaluates the node, and holds each step to a result, in memory
// that it is worth, or an error of one line that says what was wanted. others is what others
// may take of the memory meanwhile. It reports whether there was a result.
func (h *hostile) survive(t *testing.T, others float64) (evaluated bool) {
	says := func() string { return fmt.Sprintf("%s %.300s of %v", h.name, h.attributes, h.types) }
	defer func() {
		if e := recover(); e != nil {
			t.Errorf("%s: panic: %v\n%s", says(), e, debug.Stack())
		}
	}()
	refused := func(err error) bool {
		if err == nil {
			return false
		}
		if s := err.Error(); len(s) > 500 ||
			strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || !strings.Contains(s, "want") {
			t.Errorf("%s: %q: want a line of what is wrong and what would be right", says(), s)
		}
		return true
	}
	before := allocated()
	op, err := graph.Bind(h.name, []byte(h.attributes))
	if refused(err) {
		return false
	}
	modes := Modes()
	m := modes[h.IntN(len(modes))]
	g := graph.New(new(graph.Kept))
	var in []*tensor.Tensor
	var of []graph.Type
	var values []int
	total := 0.0
	for _, t := range h.types {
		total += count(t.Shape)
	}
	for k, t := range h.types {
		if h.constant[k] && total <= few && t.Format != fp16.Float64 {
			values = append(values, g.Constant("constant", h.tensor(t)))
			continue
		}
		values, of = append(values, g.Input("x")), append(of, t)
	}
	inf, err := op.Infer(m, h.types)
	if refused(err) {
		return false
	}
	g.Outputs = g.AddNode(op, "y", len(inf.Out), values...)
	p, err := g.Infer(m, of...)
	if took := float64(allocated() - before); took > others+(8<<20)+float64(1000*len(inf.Out)) {
		t.Errorf("%s: %.0f bytes to infer: want none in the size of tensors", says(), took)
	}
	if refused(err) {
		return false
	}
	for _, v := range g.Outputs {
		total += count(p.Type(v).Shape)
	}
	if total > few {
		return false
	}
	for _, t := range of {
		in = append(in, h.tensor(t))
	}
	run := &graph.Run{}
	if h.name == "noise" {
		draws, err := noise.Counter{Seed: 1}.At(0, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		run.Draws = draws
	}
	before = allocated()
	_, err = p.Run(run, in...)
	// to settle an element takes megabytes, which are let go again
	if took := float64(allocated() - before); took > others+(64<<20)+1e7*total {
		t.Errorf("%s: %.0f bytes for %.0f numbers", says(), took, total)
	}
	return !refused(err)
}

// TestHostile: whatever a file says of a node of any operation, it is a node or is refused in
// a line.
func TestHostile(t *testing.T) {
	for _, name := range graph.Names() {
		evaluated := 0
		for seed := range uint64(*hostileNodes) {
			h := newHostile(rand.New(rand.NewPCG(seed, 77)), name)
			if h.survive(t, 0) {
				evaluated++
			}
			if t.Failed() && !testing.Verbose() {
				return
			}
		}
		if evaluated < *hostileNodes/80 {
			t.Errorf("%s: %d of %d nodes were evaluated: want more", name, evaluated, *hostileNodes)
		}
	}
}

// FuzzNode is TestHostile with what a fuzzer writes: the choices, and the attributes instead of
// those chosen if there are some.
func FuzzNode(f *testing.F) {
	names := graph.Names()
	for i, name := range names {
		f.Add(uint16(i), []byte(name), "")
	}
	f.Add(uint16(slices.Index(names, "conv2d")), []byte{1, 2, 3}, `{"stride": [0, 9223372036854775807]}`)
	f.Fuzz(func(t *testing.T, which uint16, choices []byte, attributes string) {
		if len(choices)+len(attributes) > 1<<12 {
			return
		}
		h := newHostile(rand.New(&bytes{choices, rand.NewPCG(uint64(len(choices)), 7)}), names[int(which)%len(names)])
		if attributes != "" {
			h.attributes = attributes
		}
		h.survive(t, 64<<20) // the fuzzer itself
	})
}
