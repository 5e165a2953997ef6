package pointwise

import (
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

// TestIntegerTypes: types have the ranges that Go's have.
func TestIntegerTypes(t *testing.T) {
	for name, want := range map[string][2]float64{"bool": {0, 1}, "int2": {-2, 1}, "uint2": {0, 3},
		"int4": {-8, 7}, "uint4": {0, 15}, "int8": {math.MinInt8, math.MaxInt8}, "uint8": {0, math.MaxUint8},
		"int16": {math.MinInt16, math.MaxInt16}, "uint16": {0, math.MaxUint16}, "int32": {math.MinInt32, math.MaxInt32},
		"uint32": {0, math.MaxUint32}, "int64": {-1 << 53, 1 << 53}, "uint64": {0, 1 << 53}} {
		of, err := ParseInteger(name)
		if lo, hi := of.Range(); err != nil || lo != want[0] || hi != want[1] || of.String() != name {
			t.Errorf("%s: %v, %v to %v, %v", name, of, lo, hi, err)
		}
	}
	if _, err := ParseInteger("int7"); err == nil || !strings.HasPrefix(err.Error(), `"int7": want one of bool, int2,`) {
		t.Error(err)
	}
}

// TestToIntegers: whole numbers keep the bits that Go's conversions keep, others are cut
// towards 0 or are errors.
func TestToIntegers(t *testing.T) {
	r, o := rand.New(rand.NewPCG(41, 1)), hashed.New(t, *elements)
	go8 := map[Integer]func(int64) int64{
		Int8: func(v int64) int64 { return int64(int8(v)) }, Uint8: func(v int64) int64 { return int64(uint8(v)) },
		Int16: func(v int64) int64 { return int64(int16(v)) }, Uint16: func(v int64) int64 { return int64(uint16(v)) },
		Int32: func(v int64) int64 { return int64(int32(v)) }, Uint32: func(v int64) int64 { return int64(uint32(v)) },
		Int4: func(v int64) int64 { return v << 60 >> 60 }, Uint4: func(v int64) int64 { return v & 15 },
		Int64: func(v int64) int64 { return v },
		Bool:  func(v int64) int64 { return int64(truth(v != 0)) },
	}
	for _, to := range slices.Sorted(maps.Keys(go8)) {
		conversion := go8[to]
		x := tensor.New(fp16.Int64, max(5000, *elements))
		for i := range x.Data {
			x.Data[i] = float64(r.Int64N(1<<(1+uint(i)%53)) - 1<<(uint(i)%53))
		}
		y := tensor.Like(x)
		if err := ToIntegers(y, x, to); err != nil {
			t.Fatal(err)
		}
		o.Add(to.String(), y.Data...)
		for i, v := range x.Data {
			if y.Data[i] != float64(conversion(int64(v))) {
				t.Fatalf("%v of %v: %v, want %v", to, v, y.Data[i], conversion(int64(v)))
			}
		}
		lo, hi := to.Range()
		for _, c := range []struct {
			v, want float64
			ok      bool
		}{{0.9, 0, true}, {hi, hi, true}, {lo, lo, true}, {hi + 1, 0, false}, {lo - 1, 0, false}, {nan, 0, false},
			{inf, 0, false}, {negZero, 0, true}} {
			if to == Int64 && !c.ok && c.v-c.v == 0 || to == Bool {
				continue // 2^53+1 is no float64
			}
			y := tensor.New(fp16.Int64, 1)
			err := ToIntegers(y, tensor.Of(fp16.Float32, []float64{c.v}, 1), to)
			if (err == nil) != c.ok || c.ok && math.Float64bits(y.Data[0]) != math.Float64bits(c.want) {
				t.Errorf("%v of %v: %v, %v", to, c.v, y.Data[0], err)
			}
		}
	}
	y := tensor.New(fp16.Int64, 6)
	if err := ToIntegers(y, tensor.Of(fp16.Float32, []float64{0, negZero, nan, inf, 0.1, -3}, 6), Bool); err != nil ||
		y.Data[0]+y.Data[1] != 0 || y.Data[2]+y.Data[3]+y.Data[4]+y.Data[5] != 4 {
		t.Errorf("truth values %v, %v", y.Data, err)
	}
}

// TestQuantize: of every kind of number, and of exact ties and quotients beside them, what
// fractions say.
func TestQuantize(t *testing.T) {
	r, o := rand.New(rand.NewPCG(42, 1)), hashed.New(t, *elements)
	n, wrong, ties := 0, 0, 0
	for round := 0; n < *elements; round++ {
		to := []Integer{Int8, Uint8, Int4, Uint16, Uint32}[round%5]
		lo, hi := to.Range()
		size := min(*elements, 1<<14)
		x, s, z := tensor.New(fp16.Float32, size), tensor.New(fp16.Float32, size), tensor.New(fp16.Int64, size)
		for i := range size {
			s.Data[i] = fp16.Float32.Round(math.Ldexp(1+r.Float64(), r.IntN(40)-30))
			k := math.Trunc(1.2*hi*(2*r.Float64()-1)) + 0.5*float64(r.IntN(2))
			switch i % 4 {
			case 0: // beside a whole number or a half, as near as numbers lie
				x.Data[i] = fp16.Float32.Round(k * s.Data[i])
			case 1: // a tie
				s.Data[i] = math.Ldexp(float64(1+2*r.IntN(8)), r.IntN(20)-12)
				x.Data[i] = fp16.Float32.Round((math.Trunc(k/64) + 0.5) * s.Data[i])
			case 2:
				x.Data[i] = fp16.Float32.Round(hi * s.Data[i] * r.NormFloat64())
				if to == Uint32 { // so near half a number that float64 has it so: odd numbers a h = 1 mod 2^32
					a := r.Uint32N(1<<24)>>1<<1 | 1<<23 | 1
					h := a // 3 bits of the inverse, and twice as many with each step
					for range 4 {
						h *= 2 - a*h
					}
					if i%8 == 2 {
						h = -h
					}
					s.Data[i], x.Data[i] = float64(a), math.Ldexp(float64((uint64(a)*uint64(h)+1)>>32), 31)
				}
			case 3:
				x.Data[i] = fp16.Float32.Round(float64(math.Float32frombits(r.Uint32())))
				if x.Data[i] != x.Data[i] {
					x.Data[i] = -inf
				}
			}
			z.Data[i] = lo + math.Trunc((hi-lo)*r.Float64()/4)
		}
		y := tensor.New(fp16.Int64, size)
		if err := Quantize(y, x, s, z, to); err != nil {
			t.Fatal(err)
		}
		o.Add("quantize", y.Data...)
		if !o.Judge {
			n += size
			continue
		}
		for i, v := range x.Data {
			want := math.Copysign(inf, v)
			if v-v == 0 {
				q := new(big.Rat).Quo(bigref.Rat(v), bigref.Rat(s.Data[i]))
				half := big.NewRat(1, 2)
				up := new(big.Rat).Add(q, half)
				whole := new(big.Int).Div(up.Num(), up.Denom()) // rounded down, so that ties go up
				if new(big.Rat).Sub(new(big.Rat).SetInt(whole), q).Cmp(half) == 0 {
					ties++
					if whole.Bit(0) == 1 {
						whole.Sub(whole, big.NewInt(1))
					}
				}
				want, _ = new(big.Float).SetInt(whole.Add(whole, big.NewInt(int64(z.Data[i])))).Float64()
			}
			want = min(max(want, lo), hi)
			if n++; y.Data[i] != want {
				if wrong++; wrong < 5 {
					t.Errorf("%v of %x by %x and %v: %v, want %v", to, v, s.Data[i], z.Data[i], y.Data[i], want)
				}
			}
		}
	}
	if ties < n/50 && o.Judge {
		t.Errorf("only %d ties", ties)
	}
	t.Logf("%d elements, %d wrong, %d ties", n, wrong, ties)
	y := tensor.New(fp16.Int64, 1)
	for _, c := range [][2]float64{{nan, 1}, {0, 0}, {1, nan}} {
		if err := Quantize(y, tensor.Of(fp16.Float32, c[:1], 1), tensor.Of(fp16.Float32, c[1:], 1), nil, Int8); err ==
			nil || err.Error() != "element 0: NaN: want a number to quantize" {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestDequantize: products of all the bits of both, rounded once.
func TestDequantize(t *testing.T) {
	r, o := rand.New(rand.NewPCG(43, 1)), hashed.New(t, *elements)
	n, wrong := 0, 0
	for n < *elements {
		size := min(*elements, 1<<14)
		x, s, z := tensor.New(fp16.Int64, size), tensor.New(fp16.Float32, size), tensor.New(fp16.Int64, size)
		for i := range size {
			bits := []uint{4, 8, 16, 32}[i%4]
			x.Data[i] = float64(r.Int64N(1<<bits) - 1<<(bits-1))
			z.Data[i] = float64(r.Int64N(1<<bits) - 1<<(bits-1))
			s.Data[i] = fp16.Float32.Round(math.Ldexp(r.NormFloat64(), r.IntN(60)-40))
			if i%8 < 2 { // ties of the short formats
				s.Data[i] = math.Ldexp(float64(1+2*r.IntN(128)), -r.IntN(30))
			}
		}
		for _, f := range short {
			y := tensor.New(f, size)
			Dequantize(y, x, s, z)
			o.Add("dequantize", y.Data...)
			for i, got := range y.Data {
				if n++; !o.Judge {
					continue
				}
				want := bigref.Exactly(x.Data[i]).Sub(bigref.Exactly(z.Data[i])).Mul(bigref.Exactly(s.Data[i])).Or(f,
					func() float64 {
						return bigref.Round(new(big.Rat).Mul(new(big.Rat).Sub(bigref.Rat(x.Data[i]), bigref.Rat(z.Data[i])),
							bigref.Rat(s.Data[i])), f)
					})
				if got != want {
					if wrong++; wrong < 5 {
						t.Errorf("%v: (%v - %v) %x: %x, want %x", f, x.Data[i], z.Data[i], s.Data[i], got, want)
					}
				}
			}
		}
	}
	t.Logf("%d elements, %d wrong", n, wrong)
}

// TestQuantizeDynamic: scale, zero point and numbers are what fractions say, of ranges of every
// size and side.
func TestQuantizeDynamic(t *testing.T) {
	r, o := rand.New(rand.NewPCG(44, 1)), hashed.New(t, *elements)
	whole := func(q *big.Rat) float64 { // the nearest, of two the even one
		up := new(big.Rat).Add(q, big.NewRat(1, 2))
		n := new(big.Int).Div(up.Num(), up.Denom())
		if up.IsInt() && n.Bit(0) == 1 {
			n.Sub(n, big.NewInt(1))
		}
		f, _ := new(big.Float).SetInt(n).Float64()
		return f
	}
	n := 0
	for round := 0; n < *elements; round++ {
		f := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16}[round%3]
		x := tensor.New(f, 64)
		size, shift := math.Ldexp(1+r.Float64(), r.IntN(20)-10), 3*r.Float64()-1.5
		for i := range x.Data {
			x.Data[i] = f.Round(size * (r.Float64() - 0.5 + shift))
			if round%4 == 0 { // 255 even steps, of which halves are ties
				x.Data[i] = f.Round(math.Ldexp(float64(r.IntN(511)-100), round%9-4))
			}
		}
		if round%4 == 0 {
			x.Data[5], x.Data[6] = f.Round(math.Ldexp(-100, round%9-4)), f.Round(math.Ldexp(410, round%9-4))
		}
		least, greatest := big.NewRat(0, 1), big.NewRat(0, 1)
		for _, v := range x.Data {
			if q := bigref.Rat(v); q.Cmp(least) < 0 {
				least = q
			} else if q.Cmp(greatest) > 0 {
				greatest = q
			}
		}
		y, scale, zero := tensor.New(fp16.Int64, 64), tensor.New(f), tensor.New(fp16.Int64)
		if err := QuantizeDynamic(y, scale, zero, x); err != nil {
			t.Fatal(err)
		}
		o.Add("dynamic", append(y.Data, scale.Data[0], zero.Data[0])...)
		if !o.Judge {
			n += len(x.Data)
			continue
		}
		step := bigref.Round(new(big.Rat).Quo(new(big.Rat).Sub(greatest, least), big.NewRat(255, 1)), f)
		at := whole(new(big.Rat).Quo(new(big.Rat).Neg(least), bigref.Rat(step)))
		if at = min(max(at, 0), 255); scale.Data[0] != step || zero.Data[0] != at {
			t.Fatalf("%v to %v in %v: scale %x, zero point %v: want %x, %v",
				least, greatest, f, scale.Data[0], zero.Data[0], step, at)
		}
		for i, v := range x.Data {
			n++
			if want := min(max(whole(new(big.Rat).Quo(bigref.Rat(v), bigref.Rat(step)))+at, 0), 255); y.Data[i] != want {
				t.Fatalf("%x by %x and %v: %v, want %v", v, step, at, y.Data[i], want)
			}
		}
	}
	y, scale, zero := tensor.New(fp16.Int64, 1), tensor.New(fp16.Float32), tensor.New(fp16.Int64)
	for _, c := range []struct{ x, scale, y float64 }{{0, 1, 0}, {0x1p-149, 1, 0}, {255, 1, 255}, {-510, 2, 0}} {
		if err := QuantizeDynamic(y, scale, zero, tensor.Of(fp16.Float32, []float64{c.x}, 1)); err != nil ||
			scale.Data[0] != c.scale || y.Data[0] != c.y {
			t.Errorf("%v: scale %v, %v, %v", c.x, scale.Data[0], y.Data[0], err)
		}
	}
	empty := tensor.New(fp16.Int64, 0)
	if err := QuantizeDynamic(empty, scale, zero, tensor.New(fp16.Float32, 0)); err != nil || scale.Data[0] != 1 ||
		zero.Data[0] != 0 {
		t.Errorf("of nothing: %v, %v, %v", scale.Data[0], zero.Data[0], err)
	}
	for _, v := range []float64{nan, inf} {
		if err := QuantizeDynamic(y, scale, zero, tensor.Of(fp16.Float32, []float64{v}, 1)); err == nil ||
			!strings.HasSuffix(err.Error(), "want a finite number to quantize") {
			t.Errorf("%v: %v", v, err)
		}
	}
}
