package main

import (
	"fmt"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one vector instruction set of amd64.
type isa struct {
	name  string
	lanes int // numbers of a register
	tiles int // rows of the register block of the multiplication; its columns are 2*lanes
	wide  []reg.VecPhysical
	half  []reg.VecPhysical // the same registers at half the width

	single bool // its numbers are float32, twice as many
}

var avx512 = isa{"AVX512", 8, 13, zmm(), ymm(), false}
var avx2 = isa{"AVX2", 4, 6, ymm()[:16], xmm()[:16], false}

// singles is the instruction set with float32 numbers.
func (i isa) singles() isa {
	i.lanes, i.single = 2*i.lanes, true
	return i
}

// size returns the bytes of a number.
func (i isa) size() int {
	if i.single {
		return 4
	}
	return 8
}

// number is the type of a number.
func (i isa) number() string {
	if i.single {
		return "float32"
	}
	return "float64"
}

// pattern returns the bits of a constant, which must be one of the numbers.
func (i isa) pattern(c float64) uint64 {
	if !i.single {
		return math.Float64bits(c)
	}
	if float64(float32(c)) != c {
		panic(fmt.Sprintf("%v is no float32 number", c))
	}
	return uint64(math.Float32bits(float32(c)))
}

// either returns the form of an instruction for the numbers.
func either[F any](i isa, double, single F) F {
	if i.single {
		return single
	}
	return double
}

// Instructions on vectors of numbers.
func (i isa) load(from, to Op)  { either(i, VMOVUPD, VMOVUPS)(from, to) }
func (i isa) copy(from, to Op)  { either(i, VMOVAPD, VMOVAPS)(from, to) }
func (i isa) add(x, y, r Op)    { either(i, VADDPD, VADDPS)(x, y, r) }
func (i isa) sub(x, y, r Op)    { either(i, VSUBPD, VSUBPS)(x, y, r) } // y - x
func (i isa) mul(x, y, r Op)    { either(i, VMULPD, VMULPS)(x, y, r) }
func (i isa) fma(x, y, r Op)    { either(i, VFMADD231PD, VFMADD231PS)(x, y, r) }   // r += x y
func (i isa) fnma(x, y, r Op)   { either(i, VFNMADD231PD, VFNMADD231PS)(x, y, r) } // r -= x y
func (i isa) clear(r Op)        { either(i, VXORPD, VXORPS)(r, r, r) }
func (i isa) spread(from, r Op) { either(i, VBROADCASTSD, VBROADCASTSS)(from, r) }

func zmm() []reg.VecPhysical {
	return []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10,
		reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22,
		reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}
}

func ymm() []reg.VecPhysical {
	return []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10,
		reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15, reg.Y16, reg.Y17, reg.Y18, reg.Y19, reg.Y20, reg.Y21, reg.Y22,
		reg.Y23, reg.Y24, reg.Y25, reg.Y26, reg.Y27, reg.Y28, reg.Y29, reg.Y30, reg.Y31}
}

func xmm() []reg.VecPhysical {
	return []reg.VecPhysical{reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7, reg.X8, reg.X9, reg.X10,
		reg.X11, reg.X12, reg.X13, reg.X14, reg.X15, reg.X16, reg.X17, reg.X18, reg.X19, reg.X20, reg.X21, reg.X22,
		reg.X23, reg.X24, reg.X25, reg.X26, reg.X27, reg.X28, reg.X29, reg.X30, reg.X31}
}

// vector returns the bytes of a register.
func (i isa) vector() int { return i.size() * i.lanes }

// lower returns the lower half of one of the registers.
func (i isa) lower(r reg.VecPhysical) reg.VecPhysical { return i.half[slices.Index(i.wide, r)] }

// halves is how many registers hold the eight channels of a block.
func (i isa) halves() int { return 8 / i.lanes }

// table is the vectors of constants of an instruction set, in memory.
type table struct {
	isa  isa
	mem  Mem
	at   map[uint64]int
	next int
}

var tables = map[string]*table{}

// newTable begins the constants of an instruction set under a symbol.
func newTable(i isa, symbol string) *table {
	t := &table{isa: i, at: map[uint64]int{}, mem: GLOBL(symbol, RODATA|NOPTR)}
	tables[i.name] = t
	return t
}

func (t *table) floats(all ...float64) {
	for _, c := range all {
		t.words(t.isa.pattern(c))
	}
}

func (t *table) words(all ...uint64) {
	for _, w := range all {
		if _, ok := t.at[w]; ok {
			continue
		}
		t.at[w] = t.next
		for range t.isa.lanes {
			if t.isa.single {
				DATA(t.next, U32(uint32(w)))
			} else {
				DATA(t.next, U64(w))
			}
			t.next += t.isa.size()
		}
	}
}

// roundings are the constants of roundPair.
func (t *table) roundings() {
	for _, f := range []format{float16Out, bfloat16Out} {
		t.words(f.half(), f.last(), f.least(), f.span())
	}
	t.words(1, math.MaxInt64, 1<<63)
}

// held are the constants that a kernel keeps in registers.
var held = map[uint64]reg.VecPhysical{}

// hold loads constants into registers from number first on, as many as there are
// before last, for the kernel under way: release ends it.
func (i isa) hold(first, last int, all ...float64) {
	for _, c := range all {
		w := i.pattern(c)
		if _, ok := held[w]; ok || first >= last {
			continue
		}
		VMOVUPD(i.bits(w), i.wide[first])
		held[w] = i.wide[first]
		first++
	}
}

func release() { clear(held) }

// float returns a constant, in memory or in a register.
func (i isa) float(c float64) Op {
	if r, ok := held[i.pattern(c)]; ok {
		return r
	}
	return i.bits(i.pattern(c))
}

// bits returns the memory operand of a bit pattern.
func (i isa) bits(w uint64) Mem {
	t := tables[i.name]
	at, ok := t.at[w]
	if !ok {
		panic(fmt.Sprintf("no constant %x", w))
	}
	return t.mem.Offset(at)
}
