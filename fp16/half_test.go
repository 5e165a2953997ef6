package fp16_test

import (
	"math"
	"testing"

	"github.com/x448/float16"

	"github.com/refrun/refrun/fp16"
)

// fromFloat16 and fromBFloat16 return what the 16 bits stand for.
func fromFloat16(b uint16) float64  { return float64(float16.Frombits(b).Float32()) }
func fromBFloat16(b uint16) float64 { return float64(math.Float32frombits(uint32(b) << 16)) }

// roundFloat16 rounds a float32 by x448/float16.
func roundFloat16(v float32) float64 { return float64(float16.Fromfloat32(v).Float32()) }

// roundBFloat16 rounds a float32 by adding to its bits: 0x7fff, and one more
// if the last bit that stays is odd, carries into that bit when it must.
func roundBFloat16(v float32) float64 {
	b := math.Float32bits(v)
	b += 0x7fff + b>>16&1
	return float64(math.Float32frombits(b &^ 0xffff))
}

var halves = []struct {
	f     fp16.Format
	of    func(uint16) float64
	round func(float32) float64
}{
	{fp16.Float16, fromFloat16, roundFloat16},
	{fp16.BFloat16, fromBFloat16, roundBFloat16},
}

// TestHalfNeighbours visits all 2^16 numbers, the ties between them, and the
// float32 on both sides of each.
func TestHalfNeighbours(t *testing.T) {
	for _, h := range halves {
		for b := range 1 << 16 {
			v := h.of(uint16(b))
			if v != v {
				if !same(h.f.Round(v), fp16.NaN) {
					t.Fatalf("%v: NaN %#04x is not canonical", h.f, b)
				}
				continue
			}
			if !h.f.Holds(v) || !same(h.f.Round(v), v) {
				t.Fatalf("%v does not hold its number %#04x = %x", h.f, b, v)
			}
			next := h.of(uint16(b) + 1)
			tie := float32(v + (next-v)/2)
			for _, x := range []float32{
				float32(v), math.Nextafter32(float32(v), 3e38), math.Nextafter32(float32(v), -3e38),
				tie, math.Nextafter32(tie, 3e38), math.Nextafter32(tie, -3e38),
			} {
				checkHalf(t, h.f, x, h.round)
			}
		}
	}
}

// TestHalfStride walks through all float32 numbers in steps of a prime.
func TestHalfStride(t *testing.T) {
	const stride = 4099
	for _, h := range halves {
		for b := uint64(0); b < 1<<32; b += stride {
			checkHalf(t, h.f, math.Float32frombits(uint32(b)), h.round)
		}
	}
}

func checkHalf(t *testing.T, f fp16.Format, x float32, round func(float32) float64) {
	t.Helper()
	want := fp16.NaN
	if x == x {
		want = round(x)
	}
	if got := f.Round(float64(x)); !same(got, want) {
		t.Fatalf("%v.Round(%x) = %x, want %x", f, x, got, want)
	}
}
