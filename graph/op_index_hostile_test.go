package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// moving are the operations of this family.
var moving = []string{"reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose", "expand",
	"cat", "stack", "split", "chunk", "unbind", "slice", "select", "flip", "roll", "repeat", "repeat_interleave", "pad",
	"tril", "triu", "pixel_shuffle", "pixel_unshuffle", "depth_to_space", "space_to_depth", "gather", "index_select",
	"embedding", "index", "gather_nd", "one_hot", "scatter", "scatter_add", "scatter_reduce", "index_add",
	"index_reduce", "index_put", "scatter_nd", "embedding_bag", "argmax", "argmin", "sort", "topk"}

// fitting are the shapes of inputs that some of them take, the index second.
var fitting = map[string][][]int{
	"index_add": {{3, 4}, {2}, {2, 4}}, "index_reduce": {{3, 4}, {2}, {2, 4}}, "index_put": {{3, 4}, {2}, {4}},
	"scatter_nd": {{3, 4}, {2, 1}, {2, 4}},
	"scatter":    {{3, 4}, {2, 5}, {2, 6}}, "scatter_add": {{3, 4}, {5, 4}, {5, 4}},
	"scatter_reduce": {{3, 4}, {2, 5}, {2, 6}},
	"embedding_bag":  {{3, 4}, {2, 2}},
}

// hostile sets the attributes of an operation to anything.
func hostile(r *rand.Rand, op Op) Op {
	number := func() int {
		if r.IntN(4) > 0 {
			return r.IntN(7) - 3
		}
		return []int{math.MaxInt, math.MinInt, math.MaxInt - 1, 1 << 40, -1 << 40, 1 << 32, 1 << 20, 1000003,
			-4611686018427387904}[r.IntN(9)]
	}
	v := reflect.New(reflect.TypeOf(op)).Elem()
	v.Set(reflect.ValueOf(op))
	for i := range v.NumField() {
		f := v.Field(i)
		if v.Type().Field(i).Tag.Get("json") == "-" || r.IntN(8) == 0 {
			continue
		}
		switch f.Interface().(type) {
		case int:
			f.SetInt(int64(number()))
		case bool:
			f.SetBool(r.IntN(2) == 0)
		case float64:
			f.SetFloat([]float64{math.NaN(), math.Inf(1), 1e300, 2, 0}[r.IntN(5)])
		case *float64:
			f.Set(reflect.ValueOf(&[]float64{math.NaN(), -1, 1e300, 2, 0}[r.IntN(5)]))
		case Order:
			f.SetFloat([]float64{math.NaN(), math.Inf(-1), 1, 2, 0}[r.IntN(5)])
		case string:
			f.SetString([]string{"sum", "mean", "amax", "amin", "none", "max", "constant", "reflect", "replicate",
				"circular", "DCR", "CRD", "", "\x1b[2J"}[r.IntN(14)])
		case *int:
			n := number()
			f.Set(reflect.ValueOf(&n))
		case Ints:
			of := make(Ints, r.IntN(5))
			if r.IntN(30) == 0 {
				of = make(Ints, 40)
			}
			for i := range of {
				of[i] = number()
			}
			f.Set(reflect.ValueOf(of))
		default:
			panic(f.Type())
		}
	}
	return v.Interface().(Op)
}

// TestHostileMoving: whatever attributes, shapes and indices a file has, an operation
// infers and evaluates, or says what is wrong in one line that names it.
func TestHostileMoving(t *testing.T) {
	r := rand.New(rand.NewPCG(40, 1))
	evaluated := map[string]int{}
	for _, name := range moving {
		base, err := Bind(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			op := hostile(r, base)
			shape := func() []int {
				s := make([]int, r.IntN(5))
				for a := range s {
					s[a] = r.IntN(5)
				}
				if r.IntN(50) == 0 {
					s = append(s, 1<<39)
				}
				return s
			}
			var types []Type
			first := shape()
			for k := range 1 + r.IntN(4) {
				s := first
				if r.IntN(3) == 0 {
					s = shape()
				}
				f := []fp16.Format{fp16.Float32, fp16.Int64, fp16.Float16}[min(r.IntN(4), 2)]
				if k == 1 && r.IntN(4) > 0 {
					f = fp16.Int64
				}
				types = append(types, Type{s, f})
			}
			if of := fitting[name]; of != nil && r.IntN(2) == 0 {
				types = nil
				for k, s := range of {
					types = append(types, Type{s, []fp16.Format{fp16.Float32, fp16.Int64, fp16.Float32}[k]})
				}
			}
			says := fmt.Sprintf("%s %+v of %v", name, op, types)
			inf, err := op.Infer(Mode{Precision: fp16.Float32}, types)
			if err != nil {
				if s := err.Error(); strings.ContainsAny(s, "\n\x1b") || len(s) > 600 || s == "" {
					t.Fatalf("%s: %q", says, s)
				}
				continue
			}
			small := true
			for _, of := range append(inf.Out, types...) {
				n := 1.0
				for _, d := range of.Shape {
					n *= float64(d)
					if d < 0 {
						t.Fatalf("%s: output of shape %v", says, of.Shape)
					}
				}
				small = small && n < 1e5 && bounded(of.Shape) == nil
			}
			if !small {
				continue
			}
			g := New(new(Kept))
			var in []*tensor.Tensor
			var values []int
			for _, of := range types {
				x := tensor.New(of.Format, of.Shape...)
				for i := range x.Data {
					x.Data[i] = float64(r.IntN(3) - r.IntN(2))
				}
				in, values = append(in, x), append(values, g.Input("x"))
			}
			g.Outputs = g.AddNode(op, "y", len(inf.Out), values...)
			if len(g.Outputs) == 0 {
				t.Fatalf("%s: no output", says)
			}
			p, err := g.Infer(Mode{Precision: fp16.Float32}, types...)
			if err != nil {
				t.Fatalf("%s: %v", says, err)
			}
			func() {
				defer func() {
					if e := recover(); e != nil {
						t.Fatalf("%s: panic %v", says, e)
					}
				}()
				if _, err := p.Run(&Run{}, in...); err == nil {
					evaluated[name]++
				}
			}()
			if _, err := json.Marshal(op); err != nil && !strings.Contains(err.Error(), "unsupported value") {
				t.Fatalf("%s: %v", says, err)
			}
		}
		if evaluated[name] < 5 {
			t.Errorf("%s was evaluated %d times only", name, evaluated[name])
		}
	}
	t.Log(evaluated)
}
