package judge

import (
	"fmt"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// relus is a question of so many relus, one after the other.
func relus(t testing.TB, nodes int, f fp16.Format) Question {
	g := graph.New(nil)
	v := g.Input("x")
	op, err := graph.Bind("relu", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		v = g.Add(op, fmt.Sprint("y", i), v)
	}
	g.Outputs = []int{v}
	x := tensor.New(f, 32)
	for i := range x.Data {
		x.Data[i] = float64(i) - 7
	}
	y := x.Clone()
	for i := range y.Data {
		y.Data[i] = max(0, y.Data[i])
	}
	return Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y}
}

// TestLongGraphs: a graph four times as long takes some four times as long, and a report says which
// steps were not tried.
func TestLongGraphs(t *testing.T) {
	took := func(nodes int, f fp16.Format) time.Duration {
		least := time.Hour
		for range 2 {
			q, began := relus(t, nodes, f), time.Now()
			r, err := Check(q)
			if err != nil || r.Verdict != Pass {
				t.Fatal(nodes, f, r, err)
			}
			least = min(least, time.Since(began))
			if (r.Untried > 0) != (nodes >= 500 && f == fp16.Float32) {
				t.Errorf("%d nodes, %v: %d steps untried", nodes, f, r.Untried)
			}
		}
		return least
	}
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		for try := 1; ; try++ { // other programs slow one of the two at times, and a square of nodes the second always
			a, b := took(1000, f), took(4000, f)
			if b <= 10*a {
				break
			}
			if try == 4 {
				t.Errorf("%v: 1,000 nodes take %v, 4,000 take %v", f, a, b)
				break
			}
		}
	}
}

func BenchmarkLongGraph(b *testing.B) {
	for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
		for _, nodes := range []int{1000, 20000} {
			b.Run(fmt.Sprintf("%v/nodes=%d", f, nodes), func(b *testing.B) {
				for b.Loop() {
					if _, err := Check(relus(b, nodes, f)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
