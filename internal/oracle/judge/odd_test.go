package judge

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/randgraph"
	"github.com/refrun/refrun/tensor"
)

var odds = flag.Int("judge.odd", 12, "odd shapes of each operation")

// TestOddShapes: the right output of every operation, of inputs of odd shapes, has a verdict that is
// not FAIL, or an error.
func TestOddShapes(t *testing.T) {
	formats := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16}
	for _, name := range randgraph.Names() {
		for seed, answered := uint64(0), 0; answered < *odds && seed < 4000; seed++ {
			c := randgraph.Odd(name, seed)
			if c == nil {
				continue
			}
			answered++
			if err := survives(c, formats[seed%3]); err != nil {
				t.Errorf("%s, seed %d, %v: %v", name, seed, c.Types, err)
			}
		}
	}
}

// TestOddChains: the kernels of several operations, of shapes that mostly do not fit together, are
// judged or refused.
func TestOddChains(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := func(int64s bool) *tensor.Tensor {
		x := tensor.New(fp16.Float32, [][]int{nil, {0}, {1}, {4}, {2, 4}, {0, 4}, {4, 0}, {1, 2, 4}, {2, 4, 3}}[r.IntN(9)]...)
		if int64s {
			x.Format = fp16.Int64
		}
		for i := range x.Data {
			x.Data[i] = float64(r.IntN(3))
		}
		return x
	}
	judged := 0
	for range 400 {
		for _, op := range Chains() {
			names := strings.Fields(cmp.Or(arguments[op], "input"))
			g, _, err := Kernel(op, nil, names)
			if err != nil {
				t.Fatal(err)
			}
			q := Question{Graph: g, Shallow: true}
			for _, name := range names {
				q.Inputs = append(q.Inputs, odd(name == "target"))
			}
			types, err := q.types()
			if err != nil {
				continue
			}
			q.Output = tensor.New(fp16.Float32, types[g.Outputs[0]].Shape...)
			func() {
				defer func() {
					if e := recover(); e != nil {
						t.Errorf("%s of %v: panic: %v %s", op, types, e, debug.Stack())
					}
				}()
				if _, err := Check(q); err == nil {
					judged++
				}
			}()
		}
	}
	if judged < 100 {
		t.Errorf("%d kernels were judged", judged)
	}
}

// survives says what is wrong with the verdict about a right output.
func survives(c *randgraph.Case, f fp16.Format) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic: %v %s", e, debug.Stack())
		}
	}()
	g := *c.Graph
	g.Outputs = g.Outputs[:1]
	q := Question{Graph: &g, Shallow: true}
	for _, x := range c.Inputs(0) {
		x.Format = f
		f.RoundSlice(x.Data, x.Data)
		q.Inputs = append(q.Inputs, x)
	}
	var types []graph.Type
	for _, x := range q.Inputs {
		types = append(types, graph.Type{Shape: x.Shape, Format: x.Format})
	}
	program, err := g.Infer(graph.Mode{Precision: fp16.Float32}, types...)
	if err != nil {
		return nil
	}
	right, err := program.Run(&graph.Run{}, q.Inputs...)
	if err != nil {
		return nil
	}
	q.Output = right[0]
	r, err := Check(q)
	if err == nil && r.Verdict == Fail {
		return fmt.Errorf("%s: %s, %+v", r.Verdict, r.Reason, r.Worst)
	}
	return nil
}
