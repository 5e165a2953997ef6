package operator_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

func smallOperator(t *testing.T) (*operator.Operator, *tensor.Tensor) {
	t.Helper()
	op, err := operator.Init(operator.Config{NumLayers: 2, BaseChannels: 4, InputChannels: 2, OutputChannels: 2,
		KernelSize: 3, Activation: "gelu", Normalization: "instance", NoiseType: "gaussian", NoiseScale: 0.1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.New(fp16.Float32, 1, 2, 4, 4)
	for i := range x.Data {
		x.Data[i] = float64(i%7) - 2.5
	}
	return op, x
}

// TestMisuse: what a caller may get wrong is an error or a panic that names the
// package and what is wrong, never a fault of the runtime, and never a result.
func TestMisuse(t *testing.T) {
	op, x := smallOperator(t)
	plan, zero := op.Compile(graph.Mode{Precision: fp16.Float32}, 1, 4, 4), new(tensor.Tensor)
	short, flat, odd := x.Clone(), x.Clone(), x.Clone()
	short.Data = short.Data[:3]
	flat.Shape = []int{32}
	odd.Shape[2] = -4
	w := tensor.New(fp16.Float32, 2, 2, 3, 3)
	w.Data[0] = 1
	k := conv.NewKernel(w, nil)
	gaussian := noise.Block{Type: noise.Gaussian, Scale: 1}
	forward := func(x *tensor.Tensor) func() error {
		return func() error { _, err := op.Forward(&operator.Pass{}, x); return err }
	}
	planned := func(dst, x *tensor.Tensor) func() error {
		return func() error { return plan.Forward(dst, x, nil, noise.Time{}) }
	}
	const (
		isNil = "a tensor is nil"
		rank  = "a tensor has another rank"
		data  = "a tensor's data has another length than its shape"
		shape = "a tensor has an impossible shape"
	)
	type call struct {
		what, want string
		do         func() error
	}
	calls := []call{
		{"operator, nil", "operator: input: " + isNil, forward(nil)},
		{"operator, zero", "operator: input: " + rank, forward(zero)},
		{"operator, flat", "operator: input: " + rank, forward(flat)},
		{"operator, short", "operator: input: " + data, forward(short)},
		{"operator, odd", "operator: input: " + shape, forward(odd)},
		{"operator, no such format", "precision Format(99): want a number format", func() error {
			_, err := op.Forward(&operator.Pass{Mode: graph.Mode{Precision: 99}}, x)
			return err
		}},
		{"plan, nil", "operator: input: " + isNil, planned(plan.Result(), nil)},
		{"plan, zero", "operator: input: " + rank, planned(plan.Result(), zero)},
		{"plan, short", "operator: input: " + data, planned(plan.Result(), short)},
		{"plan, to nil", "operator: " + isNil, planned(nil, x)},
		{"plan, to zero", "operator: " + rank, planned(zero, x)},
		{"plan, to short", "operator: " + data, planned(short, x)},
		{"no plan", "operator: a plan is made by Operator.Compile",
			func() error { return new(operator.Compiled).Forward(x, x, nil, noise.Time{}) }},
		{"no operator", "operator: an operator is made by",
			func() error { new(operator.Operator).Compile(graph.Mode{Precision: fp16.Float32}, 1, 4, 4); return nil }},
		{"plan of nothing", "operator: a plan of nothing",
			func() error { op.Compile(graph.Mode{Precision: fp16.Float32}, 1, 0, 4); return nil }},
		{"plan, huge", "tensor: too large",
			func() error { op.Compile(graph.Mode{Precision: fp16.Float32}, 1<<20, 1<<20, 1<<20); return nil }},
		{"kernel, nil", "conv: " + isNil, func() error { conv.NewKernel(nil, nil); return nil }},
		{"kernel, short", "conv: " + data, func() error { conv.NewKernel(short, nil); return nil }},
		{"noise, none", "noise: no draws", func() error { return gaussian.Apply(x.Clone(), x, noise.Time{}, nil) }},
	}
	// What has a destination and a source.
	for name, apply := range map[string]func(dst, src *tensor.Tensor){
		"norm instance": func(dst, src *tensor.Tensor) { norm.Instance(dst, src, nil, nil, 1e-5) },
		"norm group":    func(dst, src *tensor.Tensor) { norm.Group(dst, src, 2, nil, nil, 1e-5) },
		"norm batch": func(dst, src *tensor.Tensor) {
			norm.Batch(dst, src, []float64{0, 0}, []float64{1, 1}, nil, nil, 1e-5)
		},
		"act forward":     func(dst, src *tensor.Tensor) { act.Forward(dst, src, act.GELU) },
		"act approximate": func(dst, src *tensor.Tensor) { act.Approximate(dst, src, act.GELU) },
		"conv forward":    func(dst, src *tensor.Tensor) { conv.Forward(dst, src, k, conv.Square(1, 1, conv.Zeros)) },
		"conv wide":       func(dst, src *tensor.Tensor) { conv.Wide(dst, src, k, conv.Square(1, 1, conv.Zeros)) },
		"conv transposed": func(dst, src *tensor.Tensor) {
			conv.Transposed(dst, src, conv.NewTransposedKernel(w, nil), conv.Square(1, 1, conv.Zeros))
		},
		"noise block": func(dst, src *tensor.Tensor) { _ = gaussian.Apply(dst, src, noise.Time{}, nil) },
	} {
		pkg, _, _ := strings.Cut(name, " ")
		for _, bad := range []struct {
			t    *tensor.Tensor
			want string
		}{{nil, isNil}, {short, data}, {odd, shape}} {
			calls = append(calls,
				call{name + " to bad", pkg + ": " + bad.want, func() error { apply(bad.t, x); return nil }},
				call{name + " of bad", pkg + ": " + bad.want, func() error { apply(x.Clone(), bad.t); return nil }})
		}
	}
	for _, c := range calls {
		if got := said(c.do); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	if _, err := op.Forward(nil, x); err != nil { // the zero mode, without noise
		t.Errorf("no pass: %v", err)
	}
	if err := plan.Forward(plan.Result(), x, nil, noise.Time{}); err != nil {
		t.Errorf("a plan after misuse: %v", err)
	}
}

// said is what a call returned or panicked with.
func said(do func() error) (what string) {
	defer func() {
		if r := recover(); r != nil {
			what = fmt.Sprint(r)
		}
	}()
	return fmt.Sprint(do())
}

// waiting is draws that wait until they are told to go on.
type waiting struct{ begun, goOn chan struct{} }

func (w waiting) Draw(noise.Kind, float64, []int, []float64) error {
	close(w.begun)
	<-w.goOn
	return nil
}

// TestPlanInUse: a second application of a plan, while one is under way, panics and
// leaves the first one alone.
func TestPlanInUse(t *testing.T) {
	op, x := smallOperator(t)
	plan, w := op.Compile(graph.Mode{Precision: fp16.Float32}, 1, 4, 4), waiting{make(chan struct{}), make(chan struct{})}
	first := make(chan error)
	go func() { first <- plan.Forward(tensor.Like(x), x, w, noise.Time{}) }()
	<-w.begun
	if got := said(func() error { return plan.Forward(tensor.Like(x), x, nil, noise.Time{}) }); !strings.Contains(got,
		"operator: a plan serves one application at a time") {
		t.Errorf("the second one: %s", got)
	}
	close(w.goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := plan.Forward(tensor.Like(x), x, nil, noise.Time{}); err != nil {
		t.Error(err)
	}
}

// TestOperatorShared: one operator serves several goroutines at once, from the first
// call on, which makes what later ones keep.
func TestOperatorShared(t *testing.T) {
	one, x := smallOperator(t)
	want, err := one.Forward(&operator.Pass{Mode: graph.Mode{Precision: fp16.Float32}}, x)
	if err != nil {
		t.Fatal(err)
	}
	op, _ := smallOperator(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			plan := op.Compile(graph.Mode{Precision: fp16.Float32}, 1, 4, 4)
			y := plan.Result()
			err := plan.Forward(y, x, nil, noise.Time{})
			z, err2 := op.Forward(&operator.Pass{Mode: graph.Mode{Precision: fp16.Float32}}, x)
			if err != nil || err2 != nil {
				t.Error(err, err2)
				return
			}
			for i, v := range want.Data {
				if y.Data[i] != v || z.Data[i] != v {
					t.Errorf("element %d: %x and %x, want %x", i, y.Data[i], z.Data[i], v)
					return
				}
			}
		})
	}
	all.Wait()
}
