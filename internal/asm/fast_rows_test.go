package asm

import "testing"

// TestFastGELUVectors: the kernels' constants are those of the definition, in all lanes.
func TestFastGELUVectors(t *testing.T) {
	want := append([]float32{-5.25, 5.25, 0, 1, -13.78125, 0.5}, FastGELU.Phi[:]...)
	for i, c := range want {
		for k, v := range fastGELUVectors[i] {
			if v != c {
				t.Errorf("constant %d is %v in lane %d: want %v", i, v, k, c)
			}
		}
	}
}
