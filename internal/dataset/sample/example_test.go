package sample_test

import (
	"fmt"
	"log"

	"github.com/refrun/refrun/internal/dataset/sample"
)

// The first points of a Sobol sequence, of which every next one falls into the largest gap.
func ExampleNew() {
	s, err := sample.New(sample.Config{Method: sample.Sobol, Dims: 2, Points: 4})
	if err != nil {
		log.Fatal(err)
	}
	x := make([]float64, 2)
	for i := range 4 {
		s.At(i, x)
		fmt.Println(x)
	}
	// Output:
	// [0 0]
	// [0.5 0.5]
	// [0.75 0.25]
	// [0.25 0.75]
}
