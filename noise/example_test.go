package noise_test

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// The stochastic block on two realizations, at step 7 of the project's own stream. Each
// realization's numbers are the same in whatever batch it is drawn.
func ExampleBlock_Apply() {
	b := noise.Block{Type: noise.Gaussian, Scale: 0.5}
	x := tensor.New(fp16.Float32, 2, 1, 1, 3)
	y := tensor.Like(x)
	stream := noise.Counter{Seed: 42}
	draws, err := stream.At(7, 0, 2)
	if err != nil {
		log.Fatal(err)
	}
	if err := b.Apply(y, x, noise.Time{}, draws); err != nil {
		log.Fatal(err)
	}
	one := y.Samples(1, 2).Clone()
	if draws, err = stream.At(7, 1, 2); err != nil {
		log.Fatal(err)
	}
	if err := b.Apply(y.Samples(1, 2), x.Samples(1, 2), noise.Time{}, draws); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y.Plane(1, 0))
	fmt.Println(one.Data)
	// Output:
	// [-0.2568722665309906 -0.26973673701286316 0.5209916234016418]
	// [-0.2568722665309906 -0.26973673701286316 0.5209916234016418]
}

// torch.manual_seed(0); torch.randn(20) of PyTorch 2, bit for bit.
func ExampleTorchCPU() {
	g, err := noise.ParseTorchCPU("torch-cpu:2.x", "")
	if err != nil {
		log.Fatal(err)
	}
	g.Seed(0)
	x := make([]float64, 20)
	g.Normal(x)
	fmt.Printf("%.4f\n", x[:4])
	// Output: [-1.1258 -1.1524 -0.2506 -0.4339]
}
