package dataset_test

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/dataset"
)

// A space of two fields, and three operators of it.
func ExampleParse() {
	spec, err := dataset.Parse("spec.json", []byte(`{
		"operators": 3, "seed": 1,
		"operator": {"num_layers": 1, "base_channels": 4, "grid_size": 16, "noise_type": "gaussian"},
		"rollout":  {"num_timesteps": 11, "num_realizations": 2},
		"space":    {"operator.noise_scale": {"log": [0.001, 1]}, "operator.kernel_size": {"choice": [3, 5]}}}`))
	if err != nil {
		log.Fatal(err)
	}
	units, err := spec.Units("spec.json")
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		u, err := units.At(i)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("kernel %d, noise %.4f\n", u.Operator.KernelSize, u.Operator.NoiseScale)
	}
	// Output:
	// kernel 3, noise 0.0072
	// kernel 5, noise 0.0556
	// kernel 3, noise 0.3264
}
