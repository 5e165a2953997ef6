package initial_test

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/internal/dataset/initial"
)

// A random field whose neighbours are alike: its correlation falls within a tenth of the
// side.
func ExampleParse() {
	c, err := initial.Parse("spec.json", "initial", []byte(`{"type": "gaussian_random_field", "length_scale": 0.1}`))
	if err != nil {
		log.Fatal(err)
	}
	x := make([]float64, 3*32*32)
	if err := c.Fill(7, 3, 32, x); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.3f\n", x[:4])
	// Output:
	// [1.037 1.059 1.043 0.898]
}
