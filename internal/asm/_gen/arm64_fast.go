package main

import "fmt"

// The kernels of asm.Fast on four lanes: the operations of fast.go in the same order. The
// register block of the multiplications is 6 tiles by 16 outputs: 24 sums, 6 registers
// with four channels of a tile each, and 2 of weights.
const (
	neonFastTiles   = 6
	neonFastOutputs = 16
	neonFastVectors = neonFastOutputs / 4
)

// lanes loads float32 constants into registers from 12 on, four each, and returns where
// each is.
func (n *neon) lanes(all []float64) map[float64]lane {
	at := map[float64]lane{}
	var list []float64
	for _, c := range all {
		if _, ok := at[c]; !ok {
			at[c] = lane{v(12 + len(list)/4), len(list) % 4}
			list = append(list, c)
		}
	}
	for len(list)%4 != 0 {
		list = append(list, 0)
	}
	bits := func(c float64) uint64 { return avx2.singles().pattern(c) }
	for i := 0; i < len(list); i += 4 {
		n.constant(bits(list[i])|bits(list[i+1])<<32, bits(list[i+2])|bits(list[i+3])<<32, v(12+i/4))
	}
	return at
}

// registers returns the registers from first on but 12 to 15.
func registers(first int) (all []v) {
	for r := first; r < 32; r++ {
		if r < 12 || r > 15 {
			all = append(all, v(r))
		}
	}
	return all
}

// fastInput is fastInput of fast.go, four channels at a time.
func (n *neon) fastInput(f form) {
	name := "fast" + f.name + "InputNEON"
	n.function(name, "src *float32, line, image int, dst *float32, also *[3]int, point, plane, blocks int, "+
		"scratch *float32", "", "transforms the window of one tile: see asm/fast.go.")
	at, side := n.lanes(append(f.inputConstants(), 1)), f.side()
	var also []string
	if f.taps == 4 {
		also = []string{"R15", "R16", "R17"}
		for k, r := range also {
			n.op("MOVD %d(R4), %s", 8*k, r)
		}
	}
	n.label("block")
	n.op("MOVD R0, R10")
	n.op("MOVD R3, R11")
	n.op("MOVD $2, R9")
	n.label("half")
	for x := range side {
		n.op("MOVD R10, R13")
		for y := range side {
			n.load("R13", 32*x, v(y))
			n.op("ADD R1, R13")
		}
		for y, r := range n.fastInputLine(f, at) {
			n.store(r, "R8", (side*y+x)*16)
		}
	}
	n.op("MOVD R11, R12")
	for y := range side {
		for x := 0; x < side; x += 2 {
			n.load2("R8", (side*y+x)*16, v(x), v(x+1))
		}
		for _, r := range n.fastInputLine(f, at) {
			n.store(r, "R12", 0)
			for _, place := range also {
				n.op("ADD R12, %s, R14", place)
				n.store(r, "R14", 0)
			}
			n.op("ADD R5, R12")
		}
	}
	n.op("ADD $16, R10")
	n.op("ADD $16, R11")
	n.op("SUBS $1, R9")
	n.op("BNE half")
	n.op("ADD R2, R0")
	n.op("ADD R6, R3")
	n.op("SUBS $1, R7")
	n.op("BNE block")
	n.op("RET")
}

// fastInputLine is isa.inputLine of the first registers, and returns where the results are.
func (n *neon) fastInputLine(f form, at map[float64]lane) []v {
	free := registers(f.side())
	take := func(from v) v {
		r := free[0]
		free = free[1:]
		n.move(from, r)
		return r
	}
	sum := func(c []float64, from int) v {
		j := len(c) - 1
		r := take(v(from + 2*j))
		for j--; j >= 0; j-- {
			if c[j] < 0 {
				n.fmlsBy(v(from+2*j), at[-c[j]], r)
			} else {
				n.fmlaBy(v(from+2*j), at[c[j]], r)
			}
		}
		return r
	}
	all, first := f.others(-1), f.first()
	var out []v
	if first == 1 {
		out = append(out, sum(all, 0))
	}
	for l, p := range f.points {
		c := f.others(l)
		low, plus := sum(c, first), sum(c, first+1)
		minus := take(plus)
		n.fmlaBy(low, at[p], plus)
		n.fmlsBy(low, at[p], minus)
		out = append(out, plus, minus)
	}
	return append(out, sum(all, first))
}

// fastOutput is fastOutput of fast.go, four outputs at a time.
func (n *neon) fastOutput(f form) {
	name := "fast" + f.name + "OutputNEON"
	n.function(name, "m *float32, point int, bias, dst *float32, line int, scratch *float32", "",
		"transforms one tile's outputs: see asm/fast.go.")
	at, side := n.lanes(f.outputConstants()), f.side()
	const shift, nan, mask v = 31, 30, 29
	n.constant(canonicalNaN<<32|canonicalNaN, canonicalNaN<<32|canonicalNaN, nan)
	n.op("MOVD $%d, R9", side)
	n.op("MUL R1, R9, R9") // a row of points
	n.op("MOVD $2, R8")
	n.label("half")
	n.op("MOVD R0, R10")
	for x := range side {
		n.op("MOVD R10, R11")
		for y := range side {
			n.load("R11", 0, v(y))
			n.op("ADD R9, R11")
		}
		n.op("ADD R1, R10")
		for y, r := range n.fastOutputLine(f, at) {
			n.store(r, "R5", (side*y+x)*16)
		}
	}
	n.load("R2", 0, shift)
	n.op("MOVD R3, R12")
	for y := range f.tile {
		for x := 0; x < side; x += 2 {
			n.load2("R5", (side*y+x)*16, v(x), v(x+1))
		}
		for x, r := range n.fastOutputLine(f, at) {
			n.fadd(r, shift, r)
			n.numbers(r, nan, mask)
			n.store(mask, "R12", 32*x)
		}
		n.op("ADD R4, R12")
	}
	n.op("ADD $16, R0")
	n.op("ADD $16, R2")
	n.op("ADD $16, R3")
	n.op("SUBS $1, R8")
	n.op("BNE half")
	n.op("RET")
}

// numbers sets d to r, every NaN replaced.
func (n *neon) numbers(r, nan, d v) {
	n.fcmeq(r, r, d)
	n.word(0x6e601c00|uint32(nan)<<16|uint32(r)<<5|uint32(d), "bsl "+d.gnu()+", "+r.gnu()+", "+nan.gnu())
}

// gnu is a register's bytes as the decoder writes them.
func (r v) gnu() string { return "v" + r.String()[1:] + ".16b" }

// fastOutputLine is isa.outputLine of the first registers, and returns where the results
// are.
func (n *neon) fastOutputLine(f form, at map[float64]lane) []v {
	first, last := f.first(), len(f.points)-1
	free := registers(f.side())
	take := func() v {
		r := free[0]
		free = free[1:]
		return r
	}
	zero, infinity := v(0), v(f.side()-1)
	s, t := make([]v, last+1), make([]v, last+1)
	for l := range f.points {
		plus, minus := v(first+2*l), v(first+2*l+1)
		s[l], t[l] = take(), plus
		n.fadd(plus, minus, s[l])
		n.fsub(plus, minus, plus)
	}
	if first == 0 {
		zero = take()
		n.move(s[0], zero)
	}
	for l := 1 - first; l <= last; l++ {
		n.fadd(zero, s[l], zero)
	}
	rows := []v{zero}
	for len(rows) < f.tile-1 {
		rows = append(rows, take())
	}
	rows = append(rows, infinity)
	term := func(l, row int) (lane, v) {
		p := f.points[l]
		return at[[]float64{1, p, p * p, p * p * p}[row]], [][]v{s, t}[row%2][l]
	}
	for l := last; l >= 0; l-- {
		for row := 1; row < f.tile; row++ {
			c, d := term(l, row)
			if l == last && row < f.tile-1 {
				n.fmulBy(d, c, rows[row])
			} else {
				n.fmlaBy(d, c, rows[row])
			}
		}
	}
	return rows
}

// fastBlock adds the products of 8 or 4 channels to the sums: tile t's channels lie at base(t),
// and the weights at R20.
func (n *neon) fastBlock(channels int, base func(t int) (string, int)) {
	for c := 0; c < channels; c += 4 {
		for t := range neonFastTiles {
			r, at := base(t)
			n.load(r, at+4*c, v(24+t))
		}
		for i := range 4 {
			for o := 0; o < neonFastVectors; o += 2 {
				n.load2("R20", (c+i)*4*neonFastOutputs+16*o, 30, 31)
				for k := range 2 {
					for t := range neonFastTiles {
						n.fmlaBy(v(30+k), lane{v(24 + t), i}, v(neonFastVectors*t+o+k))
					}
				}
			}
		}
	}
	n.op("ADD $%d, R20", channels*4*neonFastOutputs)
}

// addSums adds the sums of R6 to those in registers.
func (n *neon) addSums(base string) {
	for i := 0; i < neonFastTiles*neonFastVectors; i += 2 {
		n.load2(base, 16*i, 30, 31)
		n.fadd(v(i), 30, v(i))
		n.fadd(v(i+1), 31, v(i+1))
	}
}

// chain begins the next sums: R4 steps, or as many as R22 has left, into R23.
func (n *neon) chain() {
	n.op("CMP R4, R22")
	n.op("CSEL LT, R22, R4, R23")
	n.op("SUB R23, R22")
	for i := range neonFastTiles * neonFastVectors {
		n.zero(v(i))
	}
}

// fastMultiply is the multiplication of one point.
func (n *neon) fastMultiply() {
	n.function("fastMultiplyNEON", "v, u, m *float32, blocks, chain, groups int, next *float32, later *float32", "",
		"multiplies at one point: see asm/fast.go.")
	n.label("group")
	n.op("MOVD R1, R20")
	n.op("MOVD R3, R22")
	n.op("MOVD ZR, R24")
	n.label("sum")
	n.chain()
	n.label("block")
	n.fastBlock(8, func(t int) (string, int) { return "R0", 32 * t })
	n.op("ADD $%d, R0", 32*neonFastTiles)
	n.op("SUBS $1, R23")
	n.op("BNE block")
	n.op("CBZ R24, store")
	n.addSums("R2")
	n.label("store")
	for i := 0; i < neonFastTiles*neonFastVectors; i += 2 {
		n.store2(v(i), v(i+1), "R2", 16*i)
	}
	n.op("ADD $1, R24")
	n.op("CBNZ R22, sum")
	n.op("ADD $%d, R2", 4*neonFastTiles*neonFastOutputs)
	n.op("SUBS $1, R5")
	n.op("BNE group")
	n.op("RET")
}

// fastTaps is fastTaps of fast.go.
func (n *neon) fastTaps(channels int) {
	n.function(fmt.Sprintf("fastTapsOf%dNEON", channels), "src *float32, pixel int, taps *int, n, chain int, u, m, "+
		"bias, dst *float32, plane, groups int", "", "convolves tap by tap: see asm/fast.go.")
	pixels := [neonFastTiles]string{"R11", "R12", "R13", "R14", "R15", "R16"}
	n.label("group")
	n.op("MOVD R5, R20")
	n.op("MOVD R2, R21")
	n.op("MOVD R3, R22")
	n.op("MOVD ZR, R24")
	n.label("sum")
	n.chain()
	n.label("tap")
	n.op("MOVD.P 8(R21), R11")
	n.op("ADD R0, R11")
	for t := 1; t < neonFastTiles; t++ {
		n.op("ADD R1, %s, %s", pixels[t-1], pixels[t])
	}
	n.fastBlock(channels, func(t int) (string, int) { return pixels[t], 0 })
	n.op("SUBS $1, R23")
	n.op("BNE tap")
	n.op("CBZ R24, next")
	n.addSums("R6")
	n.label("next")
	n.op("ADD $1, R24")
	n.op("CBZ R22, store")
	for i := 0; i < neonFastTiles*neonFastVectors; i += 2 {
		n.store2(v(i), v(i+1), "R6", 16*i)
	}
	n.op("B sum")
	n.label("store")
	const nan, mask v = 28, 29
	n.constant(canonicalNaN<<32|canonicalNaN, canonicalNaN<<32|canonicalNaN, nan)
	n.op("ADD R9, R8, R17")
	for _, h := range []int{1, 0} { // the second 8 first: they may share the place of the first
		base := [2]string{"R8", "R17"}[h]
		for o := range 2 {
			n.load("R7", 32*h+16*o, 30)
			for t := range neonFastTiles {
				n.fadd(v(neonFastVectors*t+2*h+o), 30, 31)
				n.numbers(31, nan, mask)
				n.store(mask, base, 32*t+16*o)
			}
		}
	}
	n.op("ADD $%d, R8", 32*neonFastTiles)
	n.op("MOVD $%d, R17", neonFastTiles)
	n.op("MADD R17, R0, R1, R0")
	n.op("SUBS $1, R10")
	n.op("BNE group")
	n.op("RET")
}
