package plan_test

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// most runs f and returns the most bytes of objects that there were meanwhile, beyond those before.
func most(f func()) int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() int64 { metrics.Read(sample); return int64(sample[0].Value.Uint64()) }
	runtime.GC()
	before, end, peak := read(), make(chan bool), make(chan int64)
	go func() {
		most := int64(0)
		for {
			most = max(most, read())
			select {
			case <-end:
				peak <- most
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	f()
	end <- true
	return <-peak - before
}

// weights stands for those of a convolution.
const weights = -1

// node is one of a chain: each reads the one before, and what is named by number before that.
type node struct {
	op, attributes string
	also           []int // outputs before the last, 0 the input
	outputs        int   // 0 for one
}

// TestNeedsAreTaken: what a plan and a program say that they hold at once is what they hold, of
// chains of all kinds of operations: neither less, so that nobody is refused without need, nor
// more, so that nobody is ended by the system.
func TestNeedsAreTaken(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	mode, sumTook, sumSays := graph.Mode{Precision: fp16.Float32}, int64(0), int64(0)
	report := func(name string, took, says int64) {
		t.Logf("%s: %d MB, says %d MB", name, took>>20, says>>20)
		// Beside it there are what workers have and what the collector has not taken back: a tenth, and
		// as much again while it works.
		if took > says+says/5+16<<20 {
			t.Errorf("%s: took %d MB, and said %d MB", name, took>>20, says>>20)
		}
		sumTook, sumSays = sumTook+took, sumSays+says
	}
	images, line, square := []int{4, 8, 192, 192}, []int{1 << 21}, []int{768, 768}
	for _, c := range []struct {
		name  string
		shape []int
		nodes []node
	}{
		{"element by element", line, []node{
			{"exp", "{}", nil, 0}, {"tanh", "{}", nil, 0}, {"add", "{}", []int{1}, 0}, {"sigmoid", "{}", nil, 0},
		}},
		{"moved", images, []node{
			{"permute", `{"dims":[0,2,3,1]}`, nil, 0},
			{"flip", `{"dims":[1]}`, nil, 0},
			{"reshape", `{"shape":[-1]}`, nil, 0},
		}},
		{"repeated", []int{1, 1 << 18}, []node{{"repeat", `{"repeats":[8,1]}`, nil, 0}, {"relu", "{}", nil, 0}}},
		{"expanded", []int{1, 1 << 18}, []node{{"expand", `{"size":[8,-1]}`, nil, 0}, {"relu", "{}", nil, 0}}},
		{"put together", line, []node{{"exp", "{}", nil, 0}, {"cat", `{"dim":0}`, []int{0, 1}, 0}, {"relu", "{}", nil, 0}}},
		{"products", square,
			[]node{{"matmul", "{}", []int{0}, 0}, {"softmax", `{"dim":-1}`, nil, 0}, {"matmul", "{}", []int{0}, 0}}},
		{"resized", []int{1, 2, 256, 256},
			[]node{{"interpolate", `{"size":[1024,1024],"mode":"bilinear"}`, nil, 0}, {"relu", "{}", nil, 0}}},
		{"resized, cubic", []int{1, 2, 256, 256}, []node{{"interpolate", `{"size":[1024,1024],"mode":"bicubic"}`, nil, 0}}},
		{"padded", images, []node{
			{"pad", `{"before":[0,0,64,64],"after":[0,0,64,64]}`, nil, 0},
			{"avg_pool2d", `{"kernel_size":[2,2]}`, nil, 0},
		}},
		{"pooled", images, []node{
			{"max_pool2d", `{"kernel_size":[3,3],"stride":[1,1],"padding":[1,1]}`, nil, 0}, {"relu", "{}", nil, 0},
		}},
		{"summed", images, []node{
			{"mean", `{"dim":[2,3],"keepdim":true}`, nil, 0},
			{"sub", "{}", []int{0}, 0},
			{"cumsum", `{"dim":3}`, nil, 0},
		}},
		{"in order", square, []node{{"sort", `{"dim":-1}`, nil, 2}}},
		{"norms", square, []node{{"layer_norm", `{"normalized_shape":[768]}`, nil, 0}, {"gelu", "{}", nil, 0}}},
		{"spectra", []int{8, 65536}, []node{{"fft_rfft", `{"dim":-1}`, nil, 0}}},
		{"attention", []int{8, 1024, 16}, []node{{"scaled_dot_product_attention", "{}", []int{0, 0}, 0}}},
		{"convolved", []int{1, 16, 128, 128}, []node{
			{"conv2d", `{"padding":[1,1]}`, []int{weights}, 0},
			{"relu", "{}", nil, 0},
			{"conv2d", `{"padding":[1,1]}`, []int{weights}, 0},
		}},
		{"convolved, transposed", []int{1, 16, 96, 96},
			[]node{{"conv_transpose2d", `{"stride":[2,2]}`, []int{weights}, 0}, {"relu", "{}", nil, 0}}},
		{"outer", []int{2048}, []node{{"einsum", `{"equation":"i,j->ij"}`, []int{0}, 0}}},
	} {
		g := graph.New(nil)
		outputs := []int{g.Input("x")}
		for _, n := range c.nodes {
			op, err := graph.Bind(n.op, []byte(n.attributes))
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			in := []int{outputs[len(outputs)-1]}
			for _, k := range n.also {
				if k == weights {
					in = append(in, g.Constant("w", tensor.New(fp16.Float32, 16, 16, 3, 3)))
				} else {
					in = append(in, outputs[k])
				}
			}
			outputs = append(outputs, g.AddNode(op, n.op, max(1, n.outputs), in...)[0])
		}
		g.Outputs = outputs[len(outputs)-1:]
		of := graph.Type{Shape: c.shape, Format: fp16.Float32}
		p, err := g.Infer(mode, of)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		took := most(func() {
			if _, err := p.Run(new(graph.Run), tensor.New(of.Format, of.Shape...)); err != nil {
				t.Error(err)
			}
		})
		report(c.name+", by definition", took, p.Peak())
		var fast *plan.Plan
		took = most(func() {
			x := tensor.New(of.Format, of.Shape...)
			y := tensor.New(p.Type(g.Outputs[0]).Format, p.Type(g.Outputs[0]).Shape...)
			if fast, err = plan.New(g, mode, of); err == nil {
				err = fast.Run(nil, noise.Time{}, []*tensor.Tensor{y}, []*tensor.Tensor{x})
			}
			if err != nil {
				t.Error(err)
			}
		})
		report(c.name+", by a plan", took, fast.Needs())
	}
	if sumTook < sumSays/2 {
		t.Errorf("all took %d MB, and said %d MB: who says twice too much refuses what there is room for",
			sumTook>>20, sumSays>>20)
	}
}
