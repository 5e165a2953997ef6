package asm

import (
	"math/rand/v2"
	"testing"
)

// TestWhole holds products of whole numbers to plain Go, of every number of terms, the greatest numbers among them,
// and memory between guard values.
func TestWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, b := range backends {
		k := b.whole
		if k == nil {
			continue
		}
		for pairs := 1; pairs < 70; pairs++ {
			line := 2 * (pairs + pairs%3)
			a, right := newGuarded[int16](WholeLines*line, 7), newGuarded[int16](pairs*WholeColumns*2, 7)
			for _, g := range [][]int16{a.data(), right.data()} {
				for i := range g {
					switch g[i] = int16(r.IntN(511) - 255); pairs % 4 {
					case 0:
						g[i] = 255
					case 1:
						g[i] = []int16{-255, 255}[r.IntN(2)]
					}
				}
			}
			a.data()[0], right.data()[0] = 32767, -32767
			for lines, multiply := range map[int]func(*int16, int, *int16, int, *int32){
				1: k.MultiplyLine, WholeLines: k.Multiply,
			} {
				sums := newGuarded[int32](lines*WholeColumns, 7)
				multiply(a.at(0), 2*line, right.at(0), pairs, sums.at(0))
				a.check(t, "a")
				right.check(t, "b")
				sums.check(t, "sums")
				for i, got := range sums.data() {
					want, l, c := int32(0), i/WholeColumns, i%WholeColumns
					for p := range 2 * pairs {
						want += int32(a.data()[l*line+p]) * int32(right.data()[(p/2*WholeColumns+c)*2+p%2])
					}
					if got != want {
						t.Fatalf("%s: %d pairs, %d lines, line %d, column %d: %d, want %d", b.name, pairs, lines, l, c, got, want)
					}
				}
			}
		}
	}
}
