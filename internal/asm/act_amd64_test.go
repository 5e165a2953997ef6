//go:build !purego

package asm

import (
	"math"
	"testing"
)

// TestActVectors: AVX2's constants of activations are those of all, in all four lanes.
func TestActVectors(t *testing.T) {
	err, last := 16+len(actTable.exp)+len(actTable.mills)+len(actTable.gauss), len(actVectors)-1
	for _, c := range []struct {
		at   int
		want uint64
	}{{0, math.Float64bits(actTable.perLn2)}, {13, actTable.exponent}, {15, actTable.sign},
		{16, math.Float64bits(actTable.exp[0])}, {err, math.Float64bits(ActErr)},
		{err + 1, math.Float64bits(0.5)}, {err + 3, actTable.near.limit},
		{last - 3, math.Float64bits(actTable.near.phi[17])}, {last, math.Float64bits(actTable.huge)}} {
		if v := actVectors[c.at]; v != [4]uint64{c.want, c.want, c.want, c.want} {
			t.Errorf("vector %d is %x: want %x in all lanes", c.at, v, c.want)
		}
	}
}
