package molecule_test

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/molecule"
	"github.com/refrun/refrun/safetensors"
)

// Energies and forces of water, in float32.
func Example() {
	weights, err := safetensors.Open("testdata/weights.safetensors")
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := molecule.New(molecule.Config{Kind: molecule.PaiNN, Cutoff: 5}, molecule.Sizes{}, weights)
	if err != nil {
		fmt.Println(err)
		return
	}
	water, err := molecule.ReadXYZ("water.xyz", []byte("3\n\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := m.Evaluator(graph.Mode{Precision: fp16.Float32}).Evaluate(m.Batch(water...))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(water[0].Formula(), r.Energies, r.Forces[:2])
	// Output: H2O [0.561913013458252] [-0.06395281106233597 -0.0751478523015976]
}

// Two atoms exactly at the cutoff are neighbours only in an inclusive list.
func ExampleNeighbours() {
	positions := []float64{0, 0, 0, 3, 4, 0, 0, 0, 1}
	fmt.Println(molecule.Neighbours(positions, 5, false))
	fmt.Println(molecule.Neighbours(positions, 5, true))
	// Output:
	// {[0 2] [2 0]}
	// {[0 0 1 2] [1 2 0 0]}
}
