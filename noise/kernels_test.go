package noise

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// walled returns n numbers between walls, and a check of the walls.
func walled(t *testing.T, n int) (middle []float64, check func(what string)) {
	const wall = 32
	all := make([]float64, n+2*wall)
	for i := range all {
		all[i] = -77
	}
	return all[wall : n+wall : n+wall], func(what string) {
		t.Helper()
		for i, v := range all {
			if (i < wall || i >= n+wall) && v != -77 {
				t.Fatalf("%s: wall written at %d of %d", what, i-wall, n)
			}
		}
	}
}

// Every length, from places all over the counter, by the kernels and one block
// at a time.
func TestKernelsDraw(t *testing.T) {
	k := asm.NoiseKernels()
	r := rand.New(rand.NewPCG(31, 32))
	words := []uint32{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1}
	word := func() uint32 {
		if r.IntN(2) == 0 {
			return words[r.IntN(len(words))]
		}
		return r.Uint32()
	}
	for _, kind := range []Kind{Normal, Exponential, Bernoulli, ComplexNormal} {
		perBlock := 4
		if kind == Exponential {
			perBlock = 2
		}
		for n := range 301 {
			d := &counterDraws{Counter: Counter{Seed: uint64(word())<<32 | uint64(word()), Operator: word()},
				step: word() >> 8, site: int(word() >> 24)}
			first := []int{0, 1 << 12, 1<<33 - n, perBlock << 31}[n%4] &^ 3 // 2^31: a carry out of the sign
			p := []float64{0, 1, 0.3, 0x1p-32, 1 - 0x1p-40}[n%5]
			realization := word()
			if kind == Bernoulli && n%5 > 2 { // the first word, or one half more
				x, _, _, _ := philox(uint32(d.Seed), uint32(d.Seed>>32), uint32(first/4), realization,
					d.step<<8|uint32(d.site), d.Operator)
				p = (float64(x) + float64(n%5-3)/2) * 0x1p-32
			}
			want := make([]float64, n)
			d.fill(nil, want, kind, p, realization, first, d.site, new(asm.Philox))
			got, check := walled(t, n)
			d.fill(k, got, kind, p, realization, first, d.site, new(asm.Philox))
			what := fmt.Sprintf("%v, %d numbers from %d of realization %d, %+v", kind, n, first, realization, d.Counter)
			check(what)
			sameBits(t, what, got, want)
		}
	}
}

// unphilox returns the counter whose block has the words x: each round is
// undone, as the multipliers are odd and so have inverses mod 2^32.
func unphilox(k0, k1 uint32, x [4]uint32) [4]uint32 {
	inverse := func(m uint32) uint32 {
		v := m // right in 3 bits; each step doubles them
		for range 4 {
			v *= 2 - m*v
		}
		return v
	}
	for round := uint32(9); round < 10; round-- {
		key0, key1 := k0+round*0x9e3779b9, k1+round*0xbb67ae85
		c0, c2 := x[3]*inverse(0xd2511f53), x[1]*inverse(0xcd9e8d57)
		hi0, _ := bits.Mul32(0xd2511f53, c0)
		hi1, _ := bits.Mul32(0xcd9e8d57, c2)
		x = [4]uint32{c0, x[0] ^ hi1 ^ key0, c2, x[2] ^ hi0 ^ key1}
	}
	return x
}

// The kernels' logarithms, sines and cosines to the last bit of float64, which
// rounding to float32 would hide.
func TestKernelsExact(t *testing.T) {
	k := asm.NoiseKernels()
	if k == nil {
		t.Log("no kernels")
		return
	}
	const groups = 4000
	dst := make([]float64, groups*6*k.Lanes)
	k.Exact(&dst[0], groups, &asm.NewPhilox(1, 2, 3, 4, 5, 6)[0])
	for block := range groups * k.Lanes {
		var x [4]uint32
		x[0], x[1], x[2], x[3] = philox(1, 2, uint32(3+block), 4, 5, 6)
		for pair := range 2 {
			a, b := x[2*pair], x[2*pair+1]
			sin, cos := sinCos(b & (1<<24 - 1))
			for j, want := range []float64{negLog(a, b), sin, cos} {
				got := dst[(block/k.Lanes*6+3*pair+j)*k.Lanes+block%k.Lanes]
				if math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("words %08x, %08x: number %d is %x, want %x", a, b, j, got, want)
				}
			}
		}
	}
}

// Words that a search would not find, in every lane: the ends of E and of the
// octants, the words around sqrt(1/2) 2^e. And counters that overflow.
func TestKernelsWords(t *testing.T) {
	k := asm.NoiseKernels()
	if k == nil {
		k = &asm.Noise{Lanes: 1} // the loop below then tests unphilox
	}
	const ones = 1<<32 - 1
	pairs := [][2]uint32{{0, 0}, {ones, ones}, {ones, 0}, {0, ones}, {1 << 31, 0}, {1<<31 - 1, ones}}
	for octant := range uint32(8) {
		for _, j := range []uint32{0, 1, 1<<21 - 1, 1<<20 + 12345} {
			pairs = append(pairs, [2]uint32{0x87654321, octant<<21 | j}, [2]uint32{ones, 0xff<<24 | octant<<21 | j})
		}
	}
	for e := range 40 {
		for off := range uint64(5) {
			n := (uint64(0xb504f333f9de6484>>(63-e)) + off - 2) | 1
			pairs = append(pairs, [2]uint32{uint32(n >> 9), uint32(n>>1) << 24})
		}
	}
	r := rand.New(rand.NewPCG(33, 34))
	for i, a := range pairs {
		b := pairs[(i*7+3)%len(pairs)]
		k0, k1 := r.Uint32(), r.Uint32()
		for lane := range k.Lanes {
			c := unphilox(k0, k1, [4]uint32{a[0], a[1], b[0], b[1]})
			c[0] -= uint32(lane)
			want := make([]float64, 0, 4*k.Lanes)
			exponential := make([]float64, 0, 2*k.Lanes)
			mask, below := make([]float64, 4*k.Lanes), uint64(a[1])+uint64(i%2)
			for l := range k.Lanes {
				var x [4]uint32
				x[0], x[1], x[2], x[3] = philox(k0, k1, c[0]+uint32(l), c[1], c[2], c[3])
				if l == lane && x != [4]uint32{a[0], a[1], b[0], b[1]} {
					t.Fatalf("unphilox misses %x: %x", [2][2]uint32{a, b}, x)
				}
				n0, n1 := boxMuller(x[0], x[1], 2)
				n2, n3 := boxMuller(x[2], x[3], 2)
				want = append(want, n0, n1, n2, n3)
				exponential = append(exponential, float64(float32(negLog(x[0], x[1]))), float64(float32(negLog(x[2], x[3]))))
				for j, w := range x {
					if uint64(w) < below {
						mask[4*l+j] = 1
					}
				}
			}
			if k.Normal == nil {
				continue
			}
			at := asm.NewPhilox(k0, k1, c[0], c[1], c[2], c[3])
			what := fmt.Sprintf("words %08x, %08x in lane %d", a, b, lane)
			got := make([]float64, len(want))
			k.Normal(&got[0], 1, &at[0], 2)
			sameBits(t, what, got, want)
			k.Exponential(&got[0], 1, &at[0])
			sameBits(t, what+", exponential", got[:len(exponential)], exponential)
			k.Bernoulli(&got[0], 1, &at[0], below)
			sameBits(t, what+", Bernoulli", got, mask)
		}
	}
}

// TestKernelsTorch: uniforms at the ends, at those of the octants and anywhere, by
// the kernel and by the simulation of its arithmetic.
func TestKernelsTorch(t *testing.T) {
	k := asm.NoiseKernels()
	if k == nil {
		t.Log("no kernels")
		return
	}
	const one = 1 << 24
	r := rand.New(rand.NewPCG(37, 38))
	ends := []int{0, 1, 2, one - 1, one - 2}
	for octant := range 8 {
		for d := -2; d <= 2; d++ {
			ends = append(ends, (octant*one/8+d)&(one-1), one-int(math.Ldexp(math.Sqrt2, 24-octant-1))+d)
		}
	}
	for blocks := 1; blocks < 400; blocks++ {
		got, check := walled(t, blocks*torchBlock)
		for i := range got {
			u := r.IntN(one)
			if r.IntN(3) == 0 {
				u = ends[r.IntN(len(ends))]
			}
			if r.IntN(3) == 0 { // 1-u small
				u = one - 1 - u>>r.IntN(24)
			}
			got[i] = float64(u) / one
		}
		std := []float32{1, float32(1 / math.Sqrt2), 0.3}[blocks%3]
		uniforms, want := slices.Clone(got), slices.Clone(got)
		for b := range slices.Chunk(want, torchBlock) {
			normalBlock((*[torchBlock]float64)(b), std)
		}
		k.TorchNormal(&got[0], blocks, std)
		check("TorchNormal")
		for i := range got {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Fatalf("%d blocks, number %d of uniforms %x: %x, want %x", blocks, i, uniforms[i/16*16:][:16], got[i], want[i])
			}
		}
	}
}

// The arithmetic of blocks by kernels and by plain Go, on numbers of every
// class and on ties, in every format, for every length and in place.
func TestKernelsApply(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1),
		fp16.NaN, math.Float64frombits(0xfff8000000000123), math.Float64frombits(0x7ff0000000000001), 1, -1, 0x1p-1074,
		-0x1p-1022, math.MaxFloat64, math.MaxFloat32, -65504, 65520, 0x1p-149, -0x1p-150, 0x1p-24, 0x1p-25}
	number := func(f fp16.Format) float64 {
		switch r.IntN(8) {
		case 0:
			return special[r.IntN(len(special))]
		case 1:
			return math.Ldexp(r.NormFloat64(), r.IntN(2200)-1100)
		case 2: // a tie, or next to one
			v := f.Round(math.Ldexp(r.NormFloat64(), r.IntN(300)-150))
			if v-v == 0 {
				v += f.Ulp(v) / 2
			}
			return math.Nextafter(v, []float64{v, 0, math.Inf(1)}[r.IntN(3)])
		case 3:
			return f.Round(math.Ldexp(r.NormFloat64(), r.IntN(40)-30))
		}
		return f.Round(r.NormFloat64())
	}
	for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
		fast, plain := newRounder(f), newRounder(f)
		plain.kernels = asm.NoiseApply{}
		for name, method := range map[string]func(r *rounder, dst, x, n []float64, s float64){
			"add": (*rounder).add, "modulate": (*rounder).modulate,
			"scale": func(r *rounder, dst, x, _ []float64, s float64) { r.scale(dst, x, s) },
			"sign":  func(r *rounder, dst, x, n []float64, _ float64) { r.sign(n, x); r.RoundSlice(dst, n) },
		} {
			for n := range 101 {
				for trial := range 3 {
					x, noise := make([]float64, n), make([]float64, n)
					for i := range x {
						x[i], noise[i] = number(f), number(f)
					}
					s := float64(float32(number(fp16.Float32)))
					want := make([]float64, n)
					method(plain, want, slices.Clone(x), slices.Clone(noise), s)
					what := fmt.Sprintf("%s in %v, %d numbers, s = %v", name, f, n, s)
					dst, check := walled(t, n)
					nx, checkX := walled(t, n)
					nn, checkN := walled(t, n)
					copy(nx, x)
					copy(nn, noise)
					switch trial {
					case 0:
						method(fast, dst, nx, nn, s)
					case 1: // dst is x
						method(fast, nx, nx, nn, s)
						dst = nx
					case 2: // dst is n
						method(fast, nn, nx, nn, s)
						dst = nn
					}
					check(what)
					checkX(what)
					checkN(what)
					sameBits(t, what, dst, want)
				}
			}
		}
	}
}
