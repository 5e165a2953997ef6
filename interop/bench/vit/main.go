// Command vit is ViT-B/16 as a graph, for vit.py: vit WEIGHTS THREADS runs input k for each
// line "k", the tensor inputK of the safetensors file, and prints the seconds. "k FILE"
// writes the result to a safetensors file as well.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vit:", err)
		os.Exit(1)
	}
}

// builder adds named operations to a graph.
type builder struct {
	*graph.Graph
	weights map[string]*tensor.Tensor
	n       int
	err     error
}

func (b *builder) op(name, attributes string, in ...int) int {
	op, err := graph.Bind(name, []byte(attributes))
	if err != nil {
		b.err = err
		return 0
	}
	b.n++
	return b.Add(op, fmt.Sprintf("%s %d", name, b.n), in...)
}

func (b *builder) constant(name string) int {
	t := b.weights[name]
	if t == nil {
		b.err = fmt.Errorf("%s: no such tensor", name)
	}
	return b.Constant(name, t)
}

// with applies an operation with a weight and a bias.
func (b *builder) with(op, attributes, name string, x int) int {
	return b.op(op, attributes, x, b.constant(name+".weight"), b.constant(name+".bias"))
}

// block is a layer: attention and a perceptron, each beside a residual.
func (b *builder) block(at string, x int) int {
	y := b.with("layer_norm", `{"eps": 1e-6}`, at+"norm1", x)
	y = b.op("reshape", `{"shape": [1, 197, 3, 12, 64]}`, b.with("linear", "", at+"qkv", y))
	y = b.op("permute", `{"dims": [2, 0, 3, 1, 4]}`, y)
	var parts []int
	for k := range 3 {
		parts = append(parts, b.op("select", fmt.Sprintf(`{"dim": 0, "index": %d}`, k), y))
	}
	y = b.op("scaled_dot_product_attention", "", parts...)
	y = b.op("reshape", `{"shape": [1, 197, 768]}`, b.op("permute", `{"dims": [0, 2, 1, 3]}`, y))
	x = b.op("add", "", x, b.with("linear", "", at+"proj", y))
	y = b.with("layer_norm", `{"eps": 1e-6}`, at+"norm2", x)
	y = b.op("gelu", "", b.with("linear", "", at+"fc1", y))
	return b.op("add", "", x, b.with("linear", "", at+"fc2", y))
}

func (b *builder) network() {
	x := b.with("conv2d", `{"stride": 16}`, "patch", b.Input("x"))
	x = b.op("permute", `{"dims": [0, 2, 1]}`, b.op("flatten", `{"start_dim": 2}`, x))
	x = b.op("cat", `{"dim": 1}`, b.constant("cls"), x)
	x = b.op("add", "", x, b.constant("pos"))
	for i := range 12 {
		x = b.block(fmt.Sprintf("blocks.%d.", i), x)
	}
	x = b.with("layer_norm", `{"eps": 1e-6}`, "norm", x)
	x = b.with("linear", "", "head", b.op("select", `{"dim": 1, "index": 0}`, x))
	b.Outputs = []int{x}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("want WEIGHTS THREADS")
	}
	threads, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(threads)
	file, err := safetensors.Open(os.Args[1])
	if err != nil {
		return err
	}
	b := &builder{Graph: graph.New(&graph.Kept{}), weights: map[string]*tensor.Tensor{}}
	for _, name := range file.Names() {
		t, err := file.Tensor(name)
		if err != nil {
			return err
		}
		data, err := t.Float64s()
		if err != nil {
			return err
		}
		b.weights[t.Name] = tensor.Of(fp16.Float32, data, t.Shape...)
	}
	if b.network(); b.err != nil {
		return b.err
	}
	p, err := plan.New(b.Graph, graph.Mode{Precision: fp16.Float32}, graph.Type{Shape: []int{1, 3, 224, 224}, Format: fp16.Float32})
	if err != nil {
		return err
	}
	out := tensor.New(fp16.Float32, p.Type(0).Shape...)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		x := b.weights["input"+words[0]]
		if x == nil {
			return fmt.Errorf("input%s: no such tensor", words[0])
		}
		began := time.Now()
		if err := p.Run(nil, noise.Time{}, []*tensor.Tensor{out}, []*tensor.Tensor{x}); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		if math.IsNaN(out.Data[0]) {
			return fmt.Errorf("the result is NaN")
		}
		if len(words) == 2 {
			t, err := safetensors.OfFloat64s("y", safetensors.DTypeOf(fp16.Float32), out.Shape, out.Data)
			if err == nil {
				err = safetensors.WriteFile(words[1], []*safetensors.Tensor{t}, nil)
			}
			if err != nil {
				return err
			}
		}
		fmt.Println(took)
	}
	return lines.Err()
}
