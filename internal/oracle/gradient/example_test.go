package gradient_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/gradient"
	"github.com/refrun/refrun/tensor"
)

// A kernel of tanh's gradient, dy (1 - y²), and one that forgets the square.
func ExampleCheck() {
	g, _, err := gradient.Kernel("tanh", nil, []string{"input"})
	if err != nil {
		panic(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	x, dy := tensor.New(fp16.Float32, 8, 64), tensor.New(fp16.Float32, 8, 64)
	right, wrong := tensor.New(fp16.Float32, 8, 64), tensor.New(fp16.Float32, 8, 64)
	for i := range x.Data {
		x.Data[i], dy.Data[i] = float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))
		y := math.Tanh(x.Data[i])
		right.Data[i] = float64(float32(dy.Data[i] * (1 - float64(y*y))))
		wrong.Data[i] = float64(float32(dy.Data[i] * (1 - y)))
	}
	for _, dx := range []*tensor.Tensor{right, wrong} {
		a, err := gradient.Check(gradient.Question{Graph: g, Inputs: []*tensor.Tensor{x},
			GradOutputs: []*tensor.Tensor{dy}, Grads: map[string]*tensor.Tensor{"input": dx}})
		if err != nil {
			panic(err)
		}
		fmt.Println(a.Verdict)
	}
	// Output:
	// PASS
	// FAIL
}
