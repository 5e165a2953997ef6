package plan_test

import (
	"crypto/sha256"
	"flag"
	"runtime"
	"testing"

	"github.com/refrun/refrun/asm"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/randgraph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

var graphs = flag.Int("graphs", 400, "how many random graphs TestRandomGraphs evaluates")

// TestRandomGraphs: on random graphs of all operations, in a mode each, a plan has the bits of
// Run, on every instruction set and with 1, 2 and 7 goroutines. With -graphs 20000 it takes a
// minute or two; the digest that it says is that of every build.
func TestRandomGraphs(t *testing.T) {
	defer asm.Use(asm.ISA())
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	all, modes := sha256.New(), append(randgraph.Modes(), graph.Mode{Precision: fp16.Float32, Fast: true})
	evaluated, refused, planned, failed, nodes := 0, 0, 0, 0, map[string]int{}
	for seed := range *graphs {
		c := randgraph.New(uint64(seed))
		mode := modes[seed%len(modes)]
		program, err := c.Graph.Infer(mode, c.Types...)
		switch {
		case err != nil:
			refused++
		default:
			evaluated++
			for _, name := range c.Names {
				nodes[name]++
			}
			var sum []byte
			for k, isa := range asm.ISAs() {
				if err := asm.Use(isa); err != nil {
					t.Fatal(err)
				}
				runtime.GOMAXPROCS([]int{1, 2, 7}[(seed+k)%3])
				in := c.Inputs(0)
				want, err := program.Run(&graph.Run{}, in...)
				of := randgraph.Digest(want, err)
				if sum == nil {
					sum = of
				} else if string(sum) != string(of) {
					t.Errorf("graph %d, %v, %v: %s differs from %s", seed, mode, c.Names, isa, asm.ISAs()[0])
				}
				if err != nil {
					failed++
				}
				if mode.Precision == fp16.Float64 {
					continue
				}
				p, err2 := plan.NewFor([]int{1, 2, 7}[(seed+2*k)%3], c.Graph, mode, c.Types...)
				if err2 != nil {
					t.Errorf("graph %d, %v, %v: no plan: %v", seed, mode, c.Names, err2)
					continue
				}
				planned++
				for again := range 2 {
					var out []*tensor.Tensor
					for i := range c.Graph.Outputs {
						out = append(out, tensor.New(p.Type(i).Format, p.Type(i).Shape...))
					}
					if again == 1 { // other numbers in between
						p.Run(nil, noise.Time{}, out, c.Inputs(1))
					}
					err2 := p.Run(nil, noise.Time{}, out, in)
					if (err == nil) != (err2 == nil) || err == nil && string(randgraph.Digest(out, nil)) != string(of) {
						t.Errorf("graph %d, %v, %v, %s: plan and Run differ: %v, %v", seed, mode, c.Names, isa, err, err2)
					}
				}
			}
			all.Write(sum)
		}
	}
	t.Logf("%d graphs: %d evaluated, %d refused by their mode, %d plans, %d evaluations with an error, digest %x",
		*graphs, evaluated, refused, planned, failed, all.Sum(nil)[:8])
	if evaluated < *graphs*8/10 {
		t.Errorf("%d of %d graphs were evaluated", evaluated, *graphs)
	}
	if *graphs >= 2000 {
		for _, name := range randgraph.Names() {
			if nodes[name] < *graphs/200 {
				t.Errorf("%s: %d nodes", name, nodes[name])
			}
		}
	}
}
