package fp16_test

import (
	"math"
	"testing"

	"github.com/x448/float16"

	"github.com/refrun/refrun/fp16"
)

var halves = []fp16.Format{fp16.Float16, fp16.BFloat16}

// TestHalfBits visits all 2^16 bit patterns: what they stand for, by integers and
// by x448/float16, and the way back.
func TestHalfBits(t *testing.T) {
	for _, f := range halves {
		l := layouts[f]
		for i := range 1 << 16 {
			b := uint16(i)
			want := math.Float64frombits(l.widen(wide(b)))
			var one64 [1]float64
			var one32 [1]float32
			fp16.Unpack(f, one64[:], []uint16{b})
			fp16.Unpack(f, one32[:], []float16.Float16{float16.Frombits(b)})
			if got := f.FromBits(uint64(b)); !same(got, want) || !same(one64[0], want) ||
				math.Float32bits(one32[0]) != math.Float32bits(float32(want)) {
				t.Fatalf("%v %#04x: FromBits %x, Unpack %x and %x, want %x", f, b, got, one64[0], one32[0], want)
			}
			back := uint64(b)
			if want != want {
				back = l.nan()
			}
			if got := f.Bits(want); got != back {
				t.Fatalf("%v.Bits(%x) = %#04x, want %#04x", f, want, got, back)
			}
			if f == fp16.Float16 {
				// x448 reads NaNs as float32 NaNs with sign and payload, quiet.
				bits := math.Float32bits(float32(want))
				if want != want {
					bits = uint32(b>>15)<<31 | 0x7fc00000 | uint32(b&0x3ff)<<13
				}
				if got := math.Float32bits(float16.Frombits(b).Float32()); got != bits {
					t.Fatalf("x448/float16 reads %#04x as %#08x, want %#08x", b, got, bits)
				}
			}
		}
	}
}

// TestHalfTies rounds, for every number of the half formats and the next one away
// from zero, the middle of both and the float64s beside the numbers and beside
// the middle. All the latter become the middle as float32, where the way through
// float32 is wrong for one of two.
func TestHalfTies(t *testing.T) {
	for _, f := range halves {
		l, traps := layouts[f], 0
		for i := range uint16(l.nan() - 1<<(l.frac-1)) { // the finite numbers >= 0
			v := math.Float64frombits(l.widen(wide(i)))
			next := math.Ldexp(1, l.emax+1) // where +Inf is, as numbers go
			if w := math.Float64frombits(l.widen(wide(i + 1))); !math.IsInf(w, 1) {
				next = w
			}
			tie := v + (next-v)/2
			up, down := func(x float64) float64 { return math.Nextafter(x, math.Inf(1)) },
				func(x float64) float64 { return math.Nextafter(x, math.Inf(-1)) }
			for _, c := range []struct {
				x    float64
				want uint16
			}{
				{v, i}, {up(v), i}, {down(tie), i}, {tie, i + i&1}, {up(tie), i + 1}, {down(next), i + 1}, {next, i + 1},
			} {
				want := math.Float64frombits(l.widen(wide(c.want)))
				if twice := f.Round(float64(float32(c.x))); !same(twice, want) {
					traps++
				}
				for _, sign := range []uint16{0, 1 << 15} {
					x := math.Copysign(c.x, float64(1-int(sign>>14)))
					var packed [1]uint16
					var rounded [1]float64
					fp16.Pack(f, packed[:], []float64{x})
					f.RoundSlice(rounded[:], []float64{x})
					want := math.Copysign(want, x)
					if b := f.Bits(x); b != uint64(sign|c.want) || packed[0] != sign|c.want {
						t.Fatalf("%v of %x: Bits %#04x, Pack %#04x, want %#04x", f, x, b, packed[0], sign|c.want)
					}
					if r := f.Round(x); !same(r, want) || !same(rounded[0], want) {
						t.Fatalf("%v of %x: Round %x, RoundSlice %x, want %x", f, x, r, rounded[0], want)
					}
				}
			}
		}
		// One of the two float64s beside every tie, below half the least number too.
		if want := int(l.nan() - 1<<(l.frac-1)); traps != want {
			t.Errorf("%v: the way through float32 was wrong for %d numbers, want %d", f, traps, want)
		}
	}
}

// TestHalfOrder walks from -Inf to +Inf by NextUp and back by NextDown, counting:
// the walk visits every number once (-0 going up, +0 going down) and the count is
// the distance.
func TestHalfOrder(t *testing.T) {
	for _, f := range halves {
		l := layouts[f]
		inf := int(l.nan() - 1<<(l.frac-1))
		at := func(k int) float64 { // k-th number from zero
			return math.Copysign(math.Float64frombits(l.widen(uint32(max(k, -k)))), float64(k))
		}
		for k := -inf; k <= inf; k++ {
			v := at(k)
			up, down := at(min(k+1, inf)), at(max(k-1, -inf))
			if k == -1 {
				up = math.Copysign(0, -1)
			}
			if got := f.NextUp(v); !same(got, up) {
				t.Fatalf("%v.NextUp(%x) = %x, want %x", f, v, got, up)
			}
			if got := f.NextDown(v); !same(got, down) {
				t.Fatalf("%v.NextDown(%x) = %x, want %x", f, v, got, down)
			}
			for _, m := range []int{0, 1, -1, 1000, -inf, inf, k, -k, max(k-5, -inf)} {
				want := uint64(max(m-k, k-m))
				if got := f.Distance(v, at(m)); got != want {
					t.Fatalf("%v.Distance(%x, %x) = %d, want %d", f, v, at(m), got, want)
				}
			}
			// Between numbers: the nearest one counts, and the neighbours are both.
			if k > 0 && k < inf-1 {
				x := v + (up-v)/4
				if f.NextUp(x) != up || f.NextDown(x) != v || f.NextUp(-x) != -v || f.NextDown(-x) != -up ||
					f.Distance(x, v) != 0 || f.Distance(x, up) != 1 {
					t.Fatalf("%v: neighbours of %x: %x and %x", f, x, f.NextDown(x), f.NextUp(x))
				}
				x = up - (up-v)/4
				if f.NextUp(x) != up || f.NextDown(x) != v || f.Distance(x, up) != 0 || f.Distance(x, v) != 1 {
					t.Fatalf("%v: neighbours of %x: %x and %x", f, x, f.NextDown(x), f.NextUp(x))
				}
			}
		}
	}
}
