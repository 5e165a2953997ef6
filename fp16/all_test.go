package fp16_test

import (
	"flag"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/x448/float16"

	"github.com/refrun/refrun/fp16"
)

var exhaustive = flag.Bool("fp16.exhaustive", false, "convert all 2^32 float32 numbers (minutes; use -timeout 0)")

const block = 1 << 12

// converter holds what one goroutine needs to convert a block in every way.
type converter struct {
	x32    []float32
	x64, r []float64
	packed []uint16
	plain  []float16.Float16
}

func newConverter() *converter {
	return &converter{make([]float32, block), make([]float64, block), make([]float64, block), make([]uint16, block),
		make([]float16.Float16, block)}
}

// check compares every conversion of the float32 numbers with bits us, at most
// block of them, with the integers' answer. It says whether all agree.
func (c *converter) check(t *testing.T, us []uint32) bool {
	x32, x64, r, packed, plain := c.x32[:len(us)], c.x64[:len(us)], c.r[:len(us)], c.packed[:len(us)], c.plain[:len(us)]
	for i, u := range us {
		x32[i] = math.Float32frombits(u)
		x64[i] = float64(x32[i])
	}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		l := layouts[f]
		f.RoundSlice(r, x64)
		fp16.Pack(f, packed, x32)
		fp16.Pack(f, plain, x64)
		for i, u := range us {
			code := l.code(u, fp16.NearestEven)
			want := narrow(code)
			if packed[i] != want || plain[i].Bits() != want || f.Bits(x64[i]) != uint64(want) {
				t.Errorf("%v of float32 %#08x: Pack %#04x from float32, %#04x from float64, Bits %#04x, want %#04x",
					f, u, packed[i], plain[i], f.Bits(x64[i]), want)
				return false
			}
			wide := l.widen(code)
			if one := f.Round(x64[i]); math.Float64bits(one) != wide || math.Float64bits(r[i]) != wide {
				t.Errorf("%v of float32 %#08x: Round %x, RoundSlice %x, want %#016x", f, u, one, r[i], wide)
				return false
			}
			if f == fp16.Float16 {
				if x32[i] != x32[i] { // x448 keeps sign and payload, and makes it quiet
					want = uint16(u>>31<<15 | 0x7e00 | u>>13&0x3ff)
				}
				if got := float16.Fromfloat32(x32[i]).Bits(); got != want {
					t.Errorf("x448/float16 of float32 %#08x: %#04x, want %#04x", u, got, want)
					return false
				}
			}
		}
	}
	l := layouts[fp16.TF32]
	fp16.TF32.RoundSlice(r, x64)
	for i, u := range us {
		for way := fp16.NearestEven; way <= fp16.TowardZero; way++ {
			code := l.code(u, way)
			want := l.widen(code)
			got := fp16.RoundTF32(x64[i], way)
			if math.Float64bits(got) != want {
				t.Errorf("%v of float32 %#08x: %x, want %#016x", way, u, got, want)
				return false
			}
			if way == fp16.NearestEven && (!same(got, r[i]) || !same(got, fp16.TF32.Round(x64[i])) ||
				fp16.TF32.Bits(x64[i]) != uint64(code>>31<<31|code<<13)) {
				t.Errorf("tf32 of float32 %#08x: %x, RoundSlice %x, Bits %#08x", u, got, r[i], fp16.TF32.Bits(x64[i]))
				return false
			}
		}
	}
	return true
}

// structured returns mantissas on and within 2 ulps of each number and each tie
// of TF32 and Float16. Those of BFloat16, which has fewer bits, are among them,
// and so are those of subnormal numbers, which have fewer, too.
func structured() (m []uint32) {
	for j := range uint32(1 << 10) {
		for d := range uint32(5) {
			m = append(m, (j<<13+d-2)&(1<<23-1), j<<13+1<<12+d-2)
		}
	}
	return m
}

// TestFloat32 converts float32 numbers of every sign and exponent: those with a
// structured mantissa, or all.
func TestFloat32(t *testing.T) {
	mantissas := structured()
	of, numbers := func(i uint64) uint32 { return mantissas[i] }, uint64(len(mantissas))
	if *exhaustive {
		of, numbers = func(i uint64) uint32 { return uint32(i) }, 1<<23
	}
	var next, done atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			c, us := newConverter(), make([]uint32, block)
			for !t.Failed() {
				top := next.Add(1) - 1 // sign and exponent
				if top >= 1<<9 {
					return
				}
				for i := uint64(0); i < numbers; i += block {
					us = us[:min(block, numbers-i)]
					for k := range us {
						us[k] = uint32(top)<<23 | of(i+uint64(k))
					}
					if !c.check(t, us) {
						return
					}
					done.Add(uint64(len(us)))
				}
				us = us[:block]
			}
		})
	}
	wg.Wait()
	if got := done.Load(); got != numbers<<9 {
		t.Errorf("converted %d numbers, want %d", got, numbers<<9)
	}
	t.Logf("%d float32 numbers to float16, bfloat16 and (three roundings) tf32, and by x448/float16", done.Load())
}
