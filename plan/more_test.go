package plan_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// TestMoreThanThereIs: every operation that makes much of little is refused before it takes the
// memory, by a program and by a plan, with the node's name and the bytes, or by inference where
// sizes are beyond all numbers.
func TestMoreThanThereIs(t *testing.T) {
	memory.Limit(1 << 30)
	defer memory.Limit(0)
	line, image, column := []int{4}, []int{1, 1, 3, 3}, []int{1 << 16, 1}
	grows := 0
	for _, c := range []struct {
		op    string
		shape []int
		// of the inputs after the first: 0 is the first once more, 1 its transpose, 2 a convolution's weights, 3 an index
		like  []int
		attr  string
		sizes []int // %d in attr
	}{
		{"expand", []int{1}, nil, `{"size":[%d]}`, []int{1 << 28, 1 << 33, 1 << 40, 1 << 62}},
		{"expand", []int{1, 1}, nil, `{"size":[%d,%[1]d]}`, []int{1 << 15, 1 << 20, 1 << 32, 1 << 40}},
		{"repeat", line, nil, `{"repeats":[%d]}`, []int{1 << 26, 1 << 33, 1 << 62}},
		{"repeat", line, nil, `{"repeats":[%d,%[1]d,4]}`, []int{1 << 15, 1 << 32}},
		{"repeat_interleave", line, nil, `{"repeats":%d}`, []int{1 << 26, 1 << 33, 1 << 62}},
		{"pad", line, nil, `{"before":[%d],"after":[0]}`, []int{1 << 28, 1 << 34, 1 << 62}},
		{"pad", image, nil, `{"before":[0,0,%d,%[1]d],"after":[0,0,%[1]d,%[1]d]}`, []int{1 << 15, 1 << 20, 1 << 39}},
		{"interpolate", image, nil, `{"size":[%d,%[1]d]}`, []int{1 << 15, 1 << 20, 1 << 40}},
		{"interpolate", image, nil, `{"scale_factor":[%d,%[1]d]}`, []int{1 << 15, 1000000000, 1 << 60}},
		{"interpolate", image, nil, `{"size":[%d,%[1]d],"mode":"bilinear"}`, []int{1 << 15, 1 << 20}},
		{"interpolate", image, nil, `{"size":[%d,%[1]d],"mode":"bicubic"}`, []int{1 << 15, 1 << 20}},
		{"interpolate", image, nil, `{"size":[%d,%[1]d],"mode":"area"}`, []int{1 << 15, 1 << 20}},
		{"one_hot", line, nil, `{"num_classes":%d}`, []int{1 << 28, 1 << 34, 1 << 62}},
		{"conv2d", image, []int{2}, `{"padding":[%d,%[1]d]}`, []int{1 << 14, 1 << 20, 1 << 39}},
		{"conv_transpose2d", image, []int{2}, `{"stride":[%d,%[1]d]}`, []int{1 << 14, 1 << 20, 1 << 39}},
		{"conv_transpose2d", image, []int{2}, `{"dilation":[%d,%[1]d]}`, []int{1 << 14, 1 << 20, 1 << 39}},
		{"matmul", column, []int{1}, `{}`, []int{0}},
		{"add", column, []int{1}, `{}`, []int{0}},
		{"einsum", column, []int{0}, `{"equation":"ia,ja->ij"}`, []int{0}},
		{"cat", []int{1 << 26}, []int{0, 0}, `{"dim":0}`, []int{0}},
		{"stack", []int{1 << 26}, []int{0, 0}, `{"dim":0}`, []int{0}},
		{"fft_rfft", line, nil, `{"n":%d,"dim":-1}`, []int{1 << 28, 1 << 34}},
	} {
		for _, size := range c.sizes {
			attr := c.attr
			if strings.Contains(attr, "%") {
				attr = fmt.Sprintf(attr, size)
			}
			op, err := graph.Bind(c.op, []byte(attr))
			if err != nil { // beyond what an attribute may be
				if !strings.Contains(err.Error(), "want ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s %s: %v", c.op, attr, err)
				}
				continue
			}
			g := graph.New(nil)
			format := fp16.Float32
			if c.op == "one_hot" {
				format = fp16.Int64
			}
			in := []int{g.Input("x")}
			for _, k := range c.like {
				switch k {
				case 0:
					in = append(in, in[0])
				case 1:
					in = append(in, g.Add(graph.Transpose{A: 0, B: 1}, "t", in[0]))
				case 2:
					in = append(in, g.Constant("w", tensor.New(fp16.Float32, 1, 1, 3, 3)))
				}
			}
			g.Outputs = []int{g.Add(op, "big", in...)}
			of := graph.Type{Shape: c.shape, Format: format}
			p, err := g.Infer(graph.Mode{Precision: fp16.Float32}, of)
			if err != nil { // beyond what sizes may be
				if line := err.Error(); !strings.HasPrefix(line, "big: ") || strings.Contains(line, "\n") {
					t.Errorf("%s %s: %q", c.op, attr, line)
				}
				continue
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, run := p.Run(new(graph.Run), tensor.New(of.Format, of.Shape...))
			_, planned := plan.New(g, graph.Mode{Precision: fp16.Float32}, of)
			runtime.ReadMemStats(&after)
			for _, err := range []error{run, planned} {
				if err == nil || !strings.HasPrefix(err.Error(), "big: with output [") ||
					!strings.Contains(err.Error(), " of memory: want at most 1.07 GB, which --memory says") {
					t.Errorf("%s %s: error %v, want one of the memory that names the node", c.op, attr, err)
				}
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 640<<20 {
				t.Errorf("%s %s: took %d bytes before it was refused", c.op, attr, took)
			}
			grows++
		}
	}
	if grows < 30 {
		t.Errorf("%d graphs were refused", grows)
	}
	t.Logf("%d graphs were refused", grows)
}
