package asm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// eachRows runs a test for every backend of this CPU that has kernels for rows.
func eachRows(t *testing.T, run func(t *testing.T, k *Rows)) {
	n := 0
	for _, b := range backends {
		if b.rows != nil {
			n++
			t.Run(b.name, func(t *testing.T) { run(t, b.rows) })
		}
	}
	t.Logf("%d backends with kernels", n)
}

// rowOf returns a row of guarded memory of such numbers.
func rowOf(r *rand.Rand, pixels int, odd bool) *guarded[float32] {
	g := newGuarded[float32](8*pixels, 7)
	v := make([]float64, 8*pixels)
	normData(r, v, odd)
	for i, x := range v {
		g.data()[i] = float32(x)
	}
	return g
}

func bits32(x float32) uint32 {
	if x != x {
		return 0x7fc00000
	}
	return math.Float32bits(x)
}

// rowSums is the kernel Sums in plain Go.
func rowSums(x []float32, pivot *[8]float64) (sums [2][8]float64) {
	var a [2][4][8]float64
	pixels := len(x) / 8
	for i, v := range x {
		p, l := i/8, i%8
		k := p % 4
		if p >= pixels&^3 {
			k = p - pixels&^3
		}
		d := float64(v) - pivot[l]
		a[0][k][l] += d
		a[1][k][l] = math.FMA(d, d, a[1][k][l])
	}
	for s := range sums {
		for l := range sums[s] {
			sums[s][l] = (a[s][0][l] + a[s][1][l]) + (a[s][2][l] + a[s][3][l])
		}
	}
	return sums
}

func TestRowSums(t *testing.T) {
	eachRows(t, func(t *testing.T, k *Rows) {
		r := rand.New(rand.NewPCG(1, 1))
		for pixels := range 30 {
			for trial := range 10 {
				x := rowOf(r, pixels+1, trial == 9)
				var pivot [8]float64
				for l := range pivot {
					pivot[l] = float64(float32(r.NormFloat64()))
				}
				want := rowSums(x.data(), &pivot)
				out := struct{ before, sums, after [2][8]float64 }{}
				k.Sums(x.at(0), pixels+1, &pivot, &out.sums)
				for s := range want {
					for l, w := range want[s] {
						if g := out.sums[s][l]; math.Float64bits(g) != math.Float64bits(w) && (g == g || w == w) {
							t.Fatalf("%d pixels, sum %d of lane %d: %x, want %x", pixels+1, s, l, g, w)
						}
					}
				}
				if out.before != [2][8]float64{} || out.after != [2][8]float64{} {
					t.Fatal("wall written")
				}
			}
		}
	})
}

// rowLine is the kernel Line for one number in plain Go, for a format of p bits.
func rowLine(x float32, c [5]float64, p, emin, emax int) (stored float32, open bool) {
	y := math.FMA(float64(x)-c[0], c[1], c[2])
	w := math.FMA(math.Abs(y), c[3], c[4])
	if p == 24 {
		lo, hi := float32(y-w), float32(y+w)
		return lo, bits32(lo) != bits32(hi)
	}
	lo, hi := math.Float64bits(y-w), math.Float64bits(y+w)
	half := uint64(1) << (52 - p)
	cut := 2*half - 1
	if y-w != y+w { // so is a NaN
		abs := (lo + half) &^ cut &^ (1 << 63)
		least, beyond := uint64(emin+1023)<<52, uint64(emax+1024)<<52
		open = (lo+half)&^cut != (hi+half)&^cut || abs < least || abs >= beyond
	}
	return float32(math.Float64frombits((lo + half) &^ cut)), open
}

func TestRowLine(t *testing.T) {
	formats := [Formats]struct{ p, emin, emax int }{
		Float32: {24, -126, 127}, Float16: {11, -14, 15}, BFloat16: {8, -126, 127},
	}
	eachRows(t, func(t *testing.T, k *Rows) {
		r := rand.New(rand.NewPCG(2, 2))
		opened, decided := 0, 0
		for f, g := range formats {
			for trial := range 600 {
				pixels := 1 + trial%19
				src, dst, flags := rowOf(r, pixels, trial%3 == 0), newGuarded[float32](8*pixels, 7), newGuarded[uint8](pixels, 7)
				lines := new([5][8]float64)
				for l := range 8 {
					scale := math.Ldexp(1+r.Float64(), []int{0, 0, -20, 20, -140, 130}[trial%6])
					for i, v := range []float64{r.NormFloat64(), scale, scale * r.NormFloat64(),
						math.Ldexp(1, -r.IntN(40)-12), math.Ldexp(scale, -r.IntN(40)-12)} {
						lines[i][l] = v
					}
					switch r.IntN(12) {
					case 0: // settled elsewhere
						lines[1][l], lines[2][l], lines[4][l] = 1, 0, math.Inf(1)
					case 1: // exact zeros
						lines[1][l], lines[2][l], lines[4][l] = 0, 0, 0
					}
				}
				before := append([]float32(nil), src.data()...)
				any := k.Line[f](dst.at(0), src.at(0), pixels, lines, flags.at(0))
				src.check(t, "src")
				dst.check(t, "dst")
				flags.check(t, "open")
				seen := false
				for i, x := range before {
					c := [5]float64{lines[0][i%8], lines[1][i%8], lines[2][i%8], lines[3][i%8], lines[4][i%8]}
					want, open := rowLine(x, c, g.p, g.emin, g.emax)
					at := fmt.Sprintf("format %d, %d pixels, x %x, line %x", f, pixels, x, c)
					if got := flags.data()[i/8]>>(i%8)&1 == 1; got != open && want == want {
						t.Fatalf("%s: open %v, want %v", at, got, open)
					}
					if got := dst.data()[i]; !open && bits32(got) != bits32(want) {
						t.Fatalf("%s: %x, want %x", at, got, want)
					}
					if seen = seen || flags.data()[i/8]>>(i%8)&1 == 1; open {
						opened++
					} else {
						decided++
					}
				}
				if seen != (any != 0) {
					t.Fatalf("format %d, %d pixels: any is %x", f, pixels, any)
				}
				k.Line[f](src.at(0), src.at(0), pixels, lines, flags.at(0))
				src.check(t, "dst in place")
				for i, want := range dst.data() {
					if got := src.data()[i]; bits32(got) != bits32(want) {
						t.Fatalf("format %d, %d pixels, in place: %x, want %x", f, pixels, got, want)
					}
				}
			}
		}
		if opened < 10000 || decided < 10000 {
			t.Errorf("%d open, %d decided: both should happen", opened, decided)
		}
	})
}

// rowActivations are the kernels and their twins.
var rowActivations = []struct {
	name   string
	kernel func(*RowActs) RowAct
	twin   func(float64) float64
}{
	{"gelu", func(a *RowActs) RowAct { return a.GELU }, ActGELU},
	{"gelu_tanh", func(a *RowActs) RowAct { return a.GELUTanh }, ActGELUTanh},
	{"silu", func(a *RowActs) RowAct { return a.SiLU }, ActSiLU},
	{"sigmoid", func(a *RowActs) RowAct { return a.Sigmoid }, ActSigmoid},
	{"tanh", func(a *RowActs) RowAct { return a.Tanh }, ActTanh},
}

// allNear reports whether no number is too large for ActGELUNear of a pixel and those
// that are evaluated with it: group of them, but the last ones of a row singly.
func allNear(row []float32, pixel, group int) bool {
	lo, n := pixel, 1
	if pixel < len(row)/8/group*group {
		lo, n = pixel/group*group, group
	}
	for _, x := range row[8*lo:][:8*n] {
		if !(math.Abs(float64(x)) <= 3.5) {
			return false
		}
	}
	return true
}

func TestRowActivations(t *testing.T) {
	grids := []*ActGrid{nil, NewActGrid(0x1p-10, 0x1p-14, 65504), NewActGrid(0x1p-7, 0x1p-126, 0x1.fep127)}
	eachRows(t, func(t *testing.T, k *Rows) {
		r := rand.New(rand.NewPCG(3, 3))
		for _, a := range rowActivations {
			for g, grid := range grids {
				opened, decided, near := 0, 0, 0
				for trial := range 300 {
					pixels := 1 + trial%17
					src, dst, flags := newGuarded[float32](8*pixels, 7), newGuarded[float32](8*pixels, 7), newGuarded[uint8](pixels, 7)
					for i, x := range numbers(r, 8*pixels) {
						if trial%3 == 0 {
							x = 3.5 * (2*r.Float64() - 1)
						}
						src.data()[i] = math.Float32frombits(bits32(float32(x))) // the one NaN
					}
					var any uint64
					if grid == nil {
						any = a.kernel(&k.Act[RowFloat32])(dst.at(0), src.at(0), pixels, nil, flags.at(0))
					} else {
						any = a.kernel(&k.Act[RowGrid])(dst.at(0), src.at(0), pixels, grid.Guard(), flags.at(0))
					}
					src.check(t, "src")
					dst.check(t, "dst")
					flags.check(t, "open")
					seen := false
					for i, x := range src.data() {
						y := a.twin(float64(x))
						if k.nearGELU > 0 && a.name == "gelu" && allNear(src.data(), i/8, k.nearGELU) {
							y = ActGELUNear(float64(x))
							near++
						}
						var want float32
						var ok bool
						if grid == nil {
							want = float32(math.FMA(y, -ActErr, y))
							ok = bits32(want) == bits32(float32(math.FMA(y, ActErr, y)))
						} else {
							var w float64
							w, ok = grid.Round(y)
							want = float32(w)
						}
						open := flags.data()[i/8]>>(i%8)&1 == 1
						seen = seen || open
						if open == ok {
							t.Fatalf("%s, format %d: %x is open: %v, want %v", a.name, g, x, open, !ok)
						}
						if !ok {
							opened++
							continue
						}
						decided++
						if got := dst.data()[i]; math.Float32bits(got) != bits32(want) {
							t.Fatalf("%s, format %d: %x becomes %x, want %x", a.name, g, x, got, want)
						}
					}
					if seen != (any != 0) {
						t.Fatalf("any is %x", any)
					}
				}
				if k.nearGELU > 0 && a.name == "gelu" && near < 3000 {
					t.Errorf("only %d numbers by the other evaluation", near)
				}
				least := 100
				if a.name == "sigmoid" { // which is subnormal nowhere that numbers are likely to be
					least = 3
				}
				if opened < least || decided < 10000 {
					t.Errorf("%s, format %d: %d open, %d decided: both should happen", a.name, g, opened, decided)
				}
			}
		}
		src, dst, flags := rowOf(r, 33, true), newGuarded[float32](8*33, 7), newGuarded[uint8](33, 7)
		if k.ReLU(dst.at(0), src.at(0), 33, nil, flags.at(0)) != 0 {
			t.Error("ReLU leaves numbers open")
		}
		src.check(t, "src")
		dst.check(t, "dst")
		flags.check(t, "open")
		for i, x := range src.data() {
			want := x
			if x < 0 {
				want = 0
			}
			if got := dst.data()[i]; bits32(got) != bits32(want) || flags.data()[i/8] != 0 {
				t.Fatalf("ReLU of %x is %x, open %v", x, got, flags.data()[i/8])
			}
		}
	})
}

func TestRowLayout(t *testing.T) {
	eachRows(t, func(t *testing.T, k *Rows) {
		r := rand.New(rand.NewPCG(5, 5))
		for _, pixels := range []int{8, 16, 40} {
			var lines [8]*guarded[float64]
			var at [8]*float64
			for c := range lines {
				lines[c] = newGuarded[float64](pixels, 7)
				for x := range lines[c].data() {
					lines[c].data()[x] = float64(float32(r.NormFloat64()))
				}
				at[c] = lines[c].at(0)
			}
			dst := newGuarded[float32](8*pixels, 7)
			k.Gather(dst.at(0), &at, pixels)
			dst.check(t, "dst")
			for i, v := range dst.data() {
				if want := lines[i%8].data()[i/8]; float64(v) != want {
					t.Fatalf("%d pixels: channel %d of pixel %d is %v, want %v", pixels, i%8, i/8, v, want)
				}
			}
		}
		for trial := range 200 {
			x := rowOf(r, 1+trial%9, false)
			for i := range x.all[:wall] {
				x.all[i] = float32(math.NaN())
			}
			want := trial%2 == 0
			if !want {
				x.data()[r.IntN(len(x.data()))] = []float32{
					float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
				}[trial%3]
			} else {
				x.data()[0] = -math.MaxFloat32
			}
			if got := k.Finite(x.at(0), len(x.data())/8); got != want {
				t.Fatalf("%x: finite is %v", x.data(), got)
			}
		}
	})
}

func TestRowGreatest(t *testing.T) {
	eachRows(t, func(t *testing.T, k *Rows) {
		r := rand.New(rand.NewPCG(7, 7))
		specials := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)),
			float32(math.Inf(-1)), 1, -1, 0x1p-149}
		for range 200 {
			pixels, step := 1+r.IntN(9), 1+r.IntN(3)
			dst, src := newGuarded[float32](8*pixels, 7), newGuarded[float32](8*((pixels-1)*step+1), 7)
			for _, of := range [][]float32{dst.data(), src.data()} {
				for i := range of {
					if of[i] = float32(r.NormFloat64()); r.IntN(2) == 0 {
						of[i] = specials[r.IntN(len(specials))]
					}
				}
			}
			want := slices.Clone(dst.data())
			for i := range want {
				if v := src.data()[i/8*8*step+i%8]; v > want[i] || v != v {
					want[i] = v
				}
			}
			k.Greatest(dst.at(0), src.at(0), pixels, step)
			dst.check(t, "dst")
			src.check(t, "src")
			for i, v := range dst.data() {
				if math.Float32bits(v) != math.Float32bits(want[i]) {
					t.Fatalf("%d pixels %d apart, number %d: %v, want %v", pixels, step, i, v, want[i])
				}
			}
		}
	})
}

// rowApplications are the kernels of RowApply in plain Go.
var rowApplications = []struct {
	name   string
	kernel func(*RowApply) RowFunc
	twin   func(rn func(float64) float64, x, n, s float64) float64
}{
	{"add", func(a *RowApply) RowFunc { return a.Add },
		func(rn func(float64) float64, x, n, s float64) float64 { return x + n }},
	{"noise", func(a *RowApply) RowFunc { return a.Noise },
		func(rn func(float64) float64, x, n, s float64) float64 { return x + rn(rn(n)*s) }},
	{"modulate", func(a *RowApply) RowFunc { return a.Modulate },
		func(rn func(float64) float64, x, n, s float64) float64 { return x * rn(1+rn(rn(n)*s)) }},
	{"mul", func(a *RowApply) RowFunc { return a.Mul },
		func(rn func(float64) float64, x, n, s float64) float64 { return x * n }},
	{"scale", func(a *RowApply) RowFunc { return a.Scale },
		func(rn func(float64) float64, x, n, s float64) float64 { return x * s }},
	{"shift", func(a *RowApply) RowFunc { return a.Shift },
		func(rn func(float64) float64, x, n, s float64) float64 { return x + s }},
	{"divide", func(a *RowApply) RowFunc { return a.Divide },
		func(rn func(float64) float64, x, n, s float64) float64 { return x / s }},
	{"most", func(a *RowApply) RowFunc { return a.Most },
		func(rn func(float64) float64, x, n, s float64) float64 {
			if s > x {
				return s
			}
			return x
		}},
	{"least", func(a *RowApply) RowFunc { return a.Least },
		func(rn func(float64) float64, x, n, s float64) float64 {
			if s < x {
				return s
			}
			return x
		}},
	{"leak", func(a *RowApply) RowFunc { return a.Leak },
		func(rn func(float64) float64, x, n, s float64) float64 {
			if y := rn(x * s); y > x {
				return y
			}
			return x
		}},
	{"round", func(a *RowApply) RowFunc { return a.Round },
		func(rn func(float64) float64, x, n, s float64) float64 { return x }},
}

func TestRowApply(t *testing.T) {
	formats := []fp16.Format{fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}
	eachRows(t, func(t *testing.T, k *Rows) {
		r := rand.New(rand.NewPCG(6, 6))
		for _, a := range rowApplications {
			for _, f := range formats {
				kernel, grid := a.kernel(&k.Apply[RowFloat32]), new(NoiseGrid)
				if f != fp16.Float32 {
					kernel = a.kernel(&k.Apply[RowGrid])
					grid = NewNoiseGrid(1-math.Ilogb(f.Ulp(1)), f.SmallestNormal(), f.Largest()+f.Ulp(f.Largest()))
				}
				if kernel == nil && a.name == "round" {
					continue
				}
				for trial := range 100 {
					pixels := 1 + trial%7
					x, n, dst := rowOf(r, pixels, true), rowOf(r, pixels, trial%2 == 0), newGuarded[float32](8*pixels, 7)
					for _, g := range []*guarded[float32]{x, n} {
						for i, v := range g.data() {
							g.data()[i] = math.Float32frombits(bits32(v))
						}
					}
					if a.name != "round" { // x is of the format
						for i, v := range x.data() {
							x.data()[i] = float32(f.Round(float64(v)))
						}
					}
					var s [8]float32
					for l := range s {
						s[l] = float32(math.Ldexp(r.NormFloat64(), r.IntN(30)-20))
					}
					kernel(dst.at(0), x.at(0), n.at(0), pixels, &s, &grid[0])
					x.check(t, "x")
					n.check(t, "n")
					dst.check(t, "dst")
					for i, got := range dst.data() {
						want := float32(f.Round(a.twin(f.Round, float64(x.data()[i]), float64(n.data()[i]), float64(s[i%8]))))
						if math.Float32bits(got) != bits32(want) {
							t.Fatalf("%s to %v: x %x, n %x, s %x: %x, want %x", a.name, f, x.data()[i], n.data()[i], s[i%8], got, want)
						}
					}
				}
			}
		}
	})
}

// BenchmarkRows is each kernel on a row of 128 pixels.
func BenchmarkRows(b *testing.B) {
	const pixels = 128
	r := rand.New(rand.NewPCG(4, 4))
	src, dst, other, flags := make([]float32, 8*pixels), make([]float32, 8*pixels), make([]float32, 8*pixels),
		make([]uint8, pixels)
	for i := range src {
		src[i], other[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
	}
	var lines [5][8]float64
	var pivot [8]float64
	var sums [2][8]float64
	var s [8]float32
	for l := range 8 {
		lines[1][l], lines[3][l], lines[4][l], s[l] = 1, 0x1p-48, 0x1p-48, 0.5
	}
	grid := NewNoiseGrid(11, 0x1p-14, 0x1p16)
	act := NewActGrid(0x1p-10, 0x1p-14, 65504)
	for _, back := range backends {
		k := back.rows
		if k == nil {
			continue
		}
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"sums", func() { k.Sums(&src[0], pixels, &pivot, &sums) }},
			{"line32", func() { k.Line[Float32](&dst[0], &src[0], pixels, &lines, &flags[0]) }},
			{"line16", func() { k.Line[Float16](&dst[0], &src[0], pixels, &lines, &flags[0]) }},
			{"gelu32", func() { k.Act[RowFloat32].GELU(&dst[0], &src[0], pixels, nil, &flags[0]) }},
			{"gelu16", func() { k.Act[RowGrid].GELU(&dst[0], &src[0], pixels, act.Guard(), &flags[0]) }},
			{"silu32", func() { k.Act[RowFloat32].SiLU(&dst[0], &src[0], pixels, nil, &flags[0]) }},
			{"tanh32", func() { k.Act[RowFloat32].Tanh(&dst[0], &src[0], pixels, nil, &flags[0]) }},
			{"relu", func() { k.ReLU(&dst[0], &src[0], pixels, nil, &flags[0]) }},
			{"add32", func() { k.Apply[RowFloat32].Add(&dst[0], &src[0], &other[0], pixels, &s, &grid[0]) }},
			{"noise16", func() { k.Apply[RowGrid].Noise(&dst[0], &src[0], &other[0], pixels, &s, &grid[0]) }},
		} {
			b.Run(back.name+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					c.run()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*8*pixels), "ns/elem")
			})
		}
	}
}

// TestRowHardSwish: what is decided is the exact quotient rounded, and what is open is a NaN or may lie between two
// numbers.
func TestRowHardSwish(t *testing.T) {
	eachRows(t, func(t *testing.T, k *Rows) {
		r := rand.New(rand.NewPCG(9, 9))
		open := 0
		for trial := range 400 {
			pixels := 1 + trial%7
			src, dst, flags := rowOf(r, pixels, trial%2 == 0), newGuarded[float32](8*pixels, 7), newGuarded[uint8](pixels, 7)
			if trial%2 == 1 {
				for i := range src.data() {
					src.data()[i] = float32(r.NormFloat64()) * []float32{1, 4, 1e-3, 1e-9, 1e-42}[trial%5]
				}
			}
			copy(src.data(), []float32{-3, 3, 0, float32(math.Copysign(0, -1)), float32(math.Inf(trial%2*2 - 1))})
			any := k.HardSwish(dst.at(0), src.at(0), pixels, nil, flags.at(0))
			src.check(t, "src")
			dst.check(t, "dst")
			flags.check(t, "flags")
			all := uint8(0)
			for _, f := range flags.data() {
				all |= f
			}
			if (all != 0) != (any != 0) {
				t.Fatalf("flags combined %b, want %b", any, all)
			}
			for i, x := range src.data() {
				if flags.data()[i/8]>>(i%8)&1 != 0 {
					open++
					continue
				}
				var want float32
				switch {
				case x <= -3:
					want = float32(math.Copysign(0, -1))
				case x >= 3 || x == 0:
					want = x
				default:
					v := new(big.Rat).SetFloat64(float64(x))
					s := new(big.Rat).Add(v, big.NewRat(3, 1))
					want, _ = s.Mul(s, v).Quo(s, big.NewRat(6, 1)).Float32()
				}
				if got := dst.data()[i]; math.Float32bits(got) != math.Float32bits(want) {
					t.Fatalf("hardswish of %v is %v, want %v", x, got, want)
				}
			}
		}
		if open == 0 || open > 2000 {
			t.Errorf("%d of some 12800 are open", open)
		}
	})
}
