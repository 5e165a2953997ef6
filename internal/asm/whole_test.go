package asm

import (
	"math"
	"math/rand/v2"
	"slices"
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

// TestWholeNumbers holds what makes whole numbers, and numbers of them, to plain Go, specials among them, and memory
// between guard values.
func TestWholeNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 9))
	odd := []float64{
		math.Inf(1), math.Inf(-1), math.NaN(), 0.5, -2.5, 1.5, 32768, -32768, -32769, 1 << 40, -1 << 31, 1e300,
	}
	for _, b := range backends {
		k := b.whole
		if k == nil {
			continue
		}
		for trial := range 2000 {
			n := 8 * (1 + trial%9)
			src, dst, short := newGuarded[float64](n, 7), newGuarded[float64](n, 7), newGuarded[int16](n, 7)
			for i := range src.data() {
				src.data()[i] = float64(r.IntN(65535) - 32767)
				if trial%2 == 0 {
					src.data()[i] = r.NormFloat64() * 100
				}
			}
			if trial%3 == 0 {
				src.data()[r.IntN(n)] = odd[trial/3%len(odd)]
			}
			src.data()[r.IntN(n)] = math.Copysign(0, -1)
			size, fits := uint32(0), true
			for _, v := range src.data() {
				fits = fits && v == math.Trunc(v) && math.Abs(v) <= 32767
				size = max(size, uint32(min(math.Abs(v), 1<<31)))
			}
			most := k.Narrow(short.at(0), src.at(0), n)
			if (most <= 32767) != fits || fits && most != size {
				t.Fatalf("%s: narrow of %v: %d, want %d or more than 32767", b.name, src.data(), most, size)
			}
			for i, v := range src.data() {
				if fits && float64(short.data()[i]) != v {
					t.Fatalf("%s: narrow: %v: %d", b.name, v, short.data()[i])
				}
			}

			least, greatest, finite := [8]float64{}, [8]float64{0: 7}, true
			low, high := least, greatest
			for i, v := range src.data() {
				finite = finite && v-v == 0
				if v < low[i%8] {
					low[i%8] = v
				}
				if v > high[i%8] {
					high[i%8] = v
				}
			}
			if others := k.Extremes(src.at(0), n, &least, &greatest); (others == 0) != finite ||
				finite && (low != least || high != greatest) {
				t.Fatalf("%s: extremes of %v: %v and %v, want %v and %v", b.name, src.data(), least, greatest, low, high)
			}

			by := [4]float64{[]float64{1, 0.37, 2, -3}[trial%4], float64(r.IntN(256)), 0, 255}
			want, done := make([]float64, 0, n), -1
			for i, v := range src.data() {
				q := v / by[0]
				w := math.RoundToEven(q)
				if !(math.Abs(q-w) < 0.5) && done < 0 {
					done = i / 8 * 8
				}
				want = append(want, min(max(w+by[1], by[2]), by[3])+0)
			}
			if done < 0 {
				done = n
			}
			if got := k.Quantize(dst.at(0), src.at(0), n, &by); got != done {
				t.Fatalf("%s: quantize of %v by %v: %d done, want %d", b.name, src.data(), by, got, done)
			}
			for i := range done {
				if math.Float64bits(dst.data()[i]) != math.Float64bits(want[i]) {
					t.Fatalf("%s: quantize %v by %v: %v, want %v", b.name, src.data()[i], by, dst.data()[i], want[i])
				}
			}
			copy(dst.data(), src.data())
			done = slices.IndexFunc(src.data(), func(v float64) bool {
				return !(v == math.Trunc(v) && -1<<31 <= v && v < 1<<31)
			})
			if done < 0 {
				done = n
			}
			done &^= 7
			if got := k.Integers(dst.at(0), n); got != done {
				t.Fatalf("%s: integers of %v: %d done, want %d", b.name, src.data(), got, done)
			}
			for i, v := range src.data() {
				if i < done {
					v += 0
				}
				if math.Float64bits(dst.data()[i]) != math.Float64bits(v) {
					t.Fatalf("%s: integers: %v, want %v", b.name, dst.data()[i], v)
				}
			}
			for _, g := range []*guarded[float64]{src, dst} {
				g.check(t, "numbers")
			}
			short.check(t, "short")
		}
		a, c := newGuarded[int16](WholeColumns, 7), newGuarded[int16](WholeColumns, 7)
		woven := newGuarded[int16](2*WholeColumns, 7)
		sums, dst := newGuarded[int32](WholeColumns, 7), newGuarded[float64](WholeColumns, 7)
		for i := range WholeColumns {
			a.data()[i], c.data()[i], sums.data()[i] = int16(r.Uint32()), int16(r.Uint32()), int32(r.Uint32())
		}
		bytes, wide := newGuarded[int8](64, 7), newGuarded[int16](64, 7)
		for i := range bytes.data() {
			bytes.data()[i] = int8(4*i - 128)
		}
		k.Widen(wide.at(0), bytes.at(0), 64)
		for i, v := range wide.data() {
			if v != int16(4*i-128) {
				t.Fatalf("%s: widen %d: %d", b.name, 4*i-128, v)
			}
		}
		wide.check(t, "wide")
		k.Weave(woven.at(0), a.at(0), c.at(0))
		k.Floats(dst.at(0), sums.at(0), 0.25)
		for i := range WholeColumns {
			if woven.data()[2*i] != a.data()[i] || woven.data()[2*i+1] != c.data()[i] {
				t.Fatalf("%s: weave of %v and %v: %v", b.name, a.data(), c.data(), woven.data())
			}
			if want := float64(sums.data()[i]) + 0.25; dst.data()[i] != want {
				t.Fatalf("%s: sum %d plus 0.25: %v", b.name, sums.data()[i], dst.data()[i])
			}
		}
		for _, g := range []*guarded[int16]{a, c, woven} {
			g.check(t, "woven")
		}
		sums.check(t, "sums")
		dst.check(t, "dst")
	}
}
