// Command network evaluates an ONNX file, for networks.py: network MODEL THREADS INPUTS
// [fast], of inputs "name k" in a safetensors file, and with fast in that arithmetic. For
// each line "k" it evaluates the k-th and prints the seconds; with "k FILE" it writes the
// first output, y, to a safetensors file.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
}

func run() error {
	if n := len(os.Args); n != 4 && (n != 5 || os.Args[4] != "fast") {
		return fmt.Errorf("want MODEL THREADS INPUTS, and fast or nothing")
	}
	threads, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(threads)
	model, err := onnx.Open(os.Args[1])
	if err != nil {
		return err
	}
	g, _, err := model.Graph(nil)
	if err != nil {
		return err
	}
	file, err := safetensors.Open(os.Args[3])
	if err != nil {
		return err
	}
	var types []graph.Type
	input := func(k string) (of []*tensor.Tensor, err error) {
		for _, in := range model.Inputs {
			t, err := file.Tensor(in.Name + " " + k)
			if err != nil {
				return nil, err
			}
			data, err := t.Float64s()
			if err != nil {
				return nil, err
			}
			of = append(of, tensor.Of(fp16.Float32, data, t.Shape...))
		}
		return of, nil
	}
	x, err := input("0")
	if err != nil {
		return err
	}
	for _, t := range x {
		types = append(types, graph.Type{Shape: t.Shape, Format: t.Format})
	}
	p, err := plan.New(g, graph.Mode{Precision: fp16.Float32, Fast: len(os.Args) == 5}, types...)
	if err != nil {
		return err
	}
	var out []*tensor.Tensor
	for i := range g.Outputs {
		out = append(out, tensor.New(p.Type(i).Format, p.Type(i).Shape...))
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if x, err = input(words[0]); err != nil {
			return err
		}
		began := time.Now()
		if err := p.Run(nil, noise.Time{}, out, x); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		if len(words) == 2 {
			t, err := safetensors.OfFloat64s("y", safetensors.DTypeOf(fp16.Float32), out[0].Shape, out[0].Data)
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
