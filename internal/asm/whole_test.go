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
			short, wide := newGuarded[int8](pairs*WholeColumns*2, 7), newGuarded[int16](2*pairs*WholeColumns, 7)
			for i, n := range right.data() {
				short.data()[i] = int8(n)
				wide.data()[i] = int16(int8(n))
			}
			short.data()[0], wide.data()[0] = -128, -128
			a.data()[0], right.data()[0] = 32767, -32767
			for _, c := range []struct {
				name     string
				lines    int
				right    []int16
				multiply func(a *int16, line int, sums *int32)
			}{
				{"line", 1, right.data(), func(a *int16, line int, sums *int32) {
					k.MultiplyLine(a, line, right.at(0), pairs, sums)
				}},
				{"lines", WholeLines, right.data(), func(a *int16, line int, sums *int32) {
					k.Multiply(a, line, right.at(0), pairs, sums)
				}},
				{"bytes", 1, wide.data(), func(a *int16, _ int, sums *int32) {
					k.MultiplyBytes(a, short.at(0), pairs, sums)
				}},
			} {
				sums := newGuarded[int32](c.lines*WholeColumns, 7)
				c.multiply(a.at(0), 2*line, sums.at(0))
				a.check(t, "a")
				right.check(t, "b")
				short.check(t, "bytes")
				sums.check(t, "sums")
				for i, got := range sums.data() {
					want, l, column := int32(0), i/WholeColumns, i%WholeColumns
					for p := range 2 * pairs {
						want += int32(a.data()[l*line+p]) * int32(c.right[(p/2*WholeColumns+column)*2+p%2])
					}
					if got != want {
						t.Fatalf("%s, %s: %d pairs, line %d, column %d: %d, want %d", b.name, c.name, pairs, l, column, got, want)
					}
				}
			}
		}
	}
}
