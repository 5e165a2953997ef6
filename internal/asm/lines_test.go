package asm

import (
	"math"
	"math/rand/v2"
	"testing"
)

func eachLines(t *testing.T, test func(t *testing.T, k *Lines)) {
	for _, b := range backends {
		if b.lines != nil {
			t.Run(b.name, func(t *testing.T) { test(t, b.lines) })
		}
	}
}

// TestLines: sums and products, rounded once more, with the one NaN, in place too.
func TestLines(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
		math.Float64frombits(0xfff8000000000123), math.MaxFloat32, 0x1p-149, 0x1p-127}
	eachLines(t, func(t *testing.T, k *Lines) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{8, 16, 24, 200} {
			for trial := range 20 {
				a, b, dst := newGuarded[float64](n, 7), newGuarded[float64](n, 7), newGuarded[float64](n, 7)
				for i := range n {
					a.data()[i], b.data()[i] = float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))
					if trial%2 == 1 && r.IntN(3) == 0 {
						a.data()[i], b.data()[i] = special[r.IntN(len(special))], special[r.IntN(len(special))]
					}
				}
				by := b.data()[0]
				for name, of := range map[string]struct {
					kernel func(dst, a, b *float64, n int)
					want   func(i int) float64
				}{
					"add":   {k.Add, func(i int) float64 { return a.data()[i] + b.data()[i] }},
					"mul":   {k.Mul, func(i int) float64 { return a.data()[i] * b.data()[i] }},
					"scale": {k.Scale, func(i int) float64 { return a.data()[i] * by }},
				} {
					of.kernel(dst.at(0), a.at(0), b.at(0), n)
					dst.check(t, name)
					for i, got := range dst.data() {
						want := math.Float64bits(float64(float32(of.want(i))))
						if y := of.want(i); y != y {
							want = 0x7ff8000000000000
						}
						if math.Float64bits(got) != want {
							t.Fatalf("%s, %d numbers: %x and %x: %x, want %x",
								name, n, a.data()[i], b.data()[i], math.Float64bits(got), want)
						}
					}
				}
				k.Add(a.at(0), a.at(0), b.at(0), n)
				k.Add(b.at(0), a.at(0), b.at(0), n)
				a.check(t, "a")
				b.check(t, "b")
			}
		}
	})
}

// TestLineWeave: lines side by side, and nothing but those.
func TestLineWeave(t *testing.T) {
	eachLines(t, func(t *testing.T, k *Lines) {
		for _, blocks := range []int{1, 2, 5} {
			for _, width := range []int{k.Abreast, 3 * k.Abreast} {
				n := blocks * k.Abreast
				line := n + 3
				src, dst := newGuarded[float64]((k.Abreast-1)*line+n, 7), newGuarded[float64]((n-1)*width+k.Abreast, 9)
				for i := range src.data() {
					src.data()[i] = float64(i)
				}
				k.Weave(dst.at(0), 8*width, src.at(0), 8*line, n)
				dst.check(t, "dst")
				for i, got := range dst.data() {
					want := 9.0
					if l := i % width; l < k.Abreast {
						want = float64(l*line + i/width)
					}
					if got != want {
						t.Fatalf("%d numbers, %d apart: number %d is %v, want %v", n, width, i, got, want)
					}
				}
			}
		}
	})
}

// TestLineGreatest: the greatest number of each lane and its sum, which is NaN where one is.
func TestLineGreatest(t *testing.T) {
	eachLines(t, func(t *testing.T, k *Lines) {
		r := rand.New(rand.NewPCG(3, 4))
		for trial := range 200 {
			n := 8 * (1 + r.IntN(9))
			x := newGuarded[float64](n, 7)
			for i := range n {
				x.data()[i] = r.NormFloat64()
				if trial%3 == 0 && r.IntN(6) == 0 {
					x.data()[i] = []float64{math.Inf(-1), math.NaN()}[r.IntN(2)]
				}
			}
			var out struct{ before, most, between, sums, after [8]float64 }
			k.Greatest(x.at(0), n, &out.most, &out.sums)
			if out.before != [8]float64{} || out.between != [8]float64{} || out.after != [8]float64{} {
				t.Fatal("wall written")
			}
			for l := range 8 {
				most, sum := math.Inf(-1), 0.0
				for i := l; i < n; i += 8 {
					most, sum = max(most, x.data()[i]), sum+x.data()[i]
				}
				if (sum == sum && (out.most[l] != most || out.sums[l] != sum)) || sum != sum && out.sums[l] == out.sums[l] {
					t.Fatalf("%d numbers, lane %d: %v and %v, want %v and %v", n, l, out.most[l], out.sums[l], most, sum)
				}
			}
		}
	})
}

// TestLineNarrow: float64 numbers to float32 and back, with the one NaN, at once or by eights.
func TestLineNarrow(t *testing.T) {
	eachLines(t, func(t *testing.T, k *Lines) {
		r := rand.New(rand.NewPCG(5, 6))
		for trial := range 100 {
			n, step := 8*(1+r.IntN(9)), 8*(1+r.IntN(3))
			x, single, by := newGuarded[float64](n, 7), newGuarded[float32]((n/8-1)*step+8, 9), newGuarded[float32](n, 7)
			line, shifted, widened := newGuarded[float32](n, 7), newGuarded[float64](n, 7), newGuarded[float64](n, 7)
			for i := range n {
				x.data()[i] = r.NormFloat64()
				if trial%3 == 0 && r.IntN(6) == 0 {
					x.data()[i] = []float64{math.Inf(-1), math.Inf(1), math.NaN(), math.Copysign(0, -1), 1e-40,
						math.Float64frombits(0xfff8000000000123)}[r.IntN(6)]
				}
				by.data()[i], line.data()[i] = float32(r.NormFloat64()), float32(x.data()[i])
			}
			k.Narrow(single.at(0), 4*step, x.at(0), n)
			k.Shift(shifted.at(0), line.at(0), by.at(0), n)
			k.Widen(widened.at(0), line.at(0), n)
			single.check(t, "single")
			shifted.check(t, "shifted")
			widened.check(t, "widened")
			for i, got := range single.data() {
				want := float32(9)
				if i%step < 8 {
					want = float32(x.data()[i/step*8+i%step])
				}
				if got != want && (got == got || want == want) {
					t.Fatalf("%d numbers, %d apart: number %d is %v, want %v", n, step, i, got, want)
				}
			}
			for i, v := range line.data() {
				for what, pair := range map[string][2]float64{"shifted": {shifted.data()[i], float64(v + by.data()[i])},
					"widened": {widened.data()[i], float64(v)}} {
					want := math.Float64bits(pair[1])
					if pair[1] != pair[1] {
						want = 0x7ff8 << 48
					}
					if math.Float64bits(pair[0]) != want {
						t.Fatalf("%s: %x, want %x", what, math.Float64bits(pair[0]), want)
					}
				}
			}
		}
	})
}
