package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFastLine: a row alone has the bits that it has in a group of rows, by one panel and by several, for
// every number of blocks and with chains of several lengths, infinities and NaNs among them, and memory
// between guard values.
func TestFastLine(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	ran := 0
	for _, b := range backends {
		k := b.fast
		if k == nil || k.Line == nil {
			continue
		}
		for blocks := 1; blocks < 70; blocks++ {
			chain, size := []int{1, 2, 16, 100}[blocks%4], blocks*8*k.Outputs
			v, u := newGuarded[float32](blocks*8, 3), newGuarded[float32](FastPanels*size, 3)
			for _, g := range [][]float32{v.data(), u.data()} {
				for i := range g {
					g[i] = float32(r.NormFloat64())
				}
			}
			if blocks%5 == 0 {
				v.data()[r.IntN(blocks*8)], u.data()[r.IntN(size)] = float32(math.Inf(1)), float32(math.NaN())
			}
			group := make([]float32, blocks*8*k.Tiles)
			for i, x := range v.data() {
				group[i/8*8*k.Tiles+i%8] = x // row 0
			}
			want, next := make([]float32, FastPanels*k.Outputs), make([]float32, size+1024)
			for p := range FastPanels {
				m := make([]float32, k.Tiles*k.Outputs)
				k.Multiply(&group[0], &u.data()[p*size], &m[0], blocks, chain, 1, &next[0], &next[0])
				copy(want[p*k.Outputs:], m[:k.Outputs])
			}
			for panels, kernel := range map[int]func(v, u *float32, panel int, m *float32, blocks, chain int){
				1: k.Line, FastPanels: k.Lines,
			} {
				m := newGuarded[float32](panels*k.Outputs, 3)
				kernel(v.at(0), u.at(0), 4*size, m.at(0), blocks, chain)
				v.check(t, "v")
				u.check(t, "u")
				m.check(t, "m")
				for i, got := range m.data() {
					if math.Float32bits(got) != math.Float32bits(want[i]) && !(got != got && want[i] != want[i]) {
						t.Fatalf("%s: %d blocks, chains of %d, number %d of %d panels is %v, want %v",
							b.name, blocks, chain, i, panels, got, want[i])
					}
				}
				ran++
			}
		}
	}
	if ran == 0 {
		t.Skip("no kernels of a row")
	}
}
