package main

// The register block of the multiplication is 6 tiles by 8 outputs: 24 of the 32
// registers are sums, 6 hold two channels of the tiles each, 2 the weights. That
// is 48 multiply-adds, by element so that nothing is broadcast, for 10 loads,
// and more sums than the 16 that 4 pipes of 4 cycles keep busy.
const (
	neonTiles   = 6
	neonOutputs = 8
	neonPlane   = 8 * 8 * neonTiles           // bytes of a point of V
	neonProduct = 8 * neonOutputs * neonTiles // and of M
)

// The coefficients of the transforms, in pairs.
var (
	coefA, coefB   = lane{13, 0}, lane{13, 1}
	coefAA, coefBB = lane{14, 0}, lane{14, 1}
	coefS, coefQ   = lane{15, 0}, lane{15, 1} // a^2+b^2 and a^2 b^2
	coefA3, coefB3 = lane{15, 0}, lane{15, 1} // of the output
)

func rowName(i int) string { return [6]string{"R7", "R8", "R9", "R10", "R11", "R12"}[i] }

// input is the transform of a tile, two channels at a time: see winograd.go.
func (n *neon) input() {
	n.function("winogradInputNEON", "src *float32, line, image int, dst *float64, point, blocks int, scratch *float64",
		"", "transforms the window of one tile: see asm/winograd.go.")
	n.op("MOVD R0, R7")
	for y := 1; y < 6; y++ {
		n.op("ADD R1, %s, %s", rowName(y-1), rowName(y))
	}
	n.op("SUB $32, R2, R2")
	n.floats(a, b, coefA.v)
	n.floats(a*a, b*b, coefAA.v)
	n.floats(a*a+b*b, a*a*b*b, coefS.v)
	n.label("block")
	n.op("MOVD $4, R13")
	n.label("pair")
	d := [6]v{0, 1, 2, 3, 4, 5}
	for x := range 6 {
		for y := range 6 {
			n.op("FMOVD %d(%s), %s", 32*x, rowName(y), d[y].f())
			n.widen(d[y], d[y])
		}
		for y, r := range n.inputLine() {
			n.store(r, "R6", (6*y+x)*16)
		}
	}
	n.op("MOVD R3, R14")
	for y := range 6 {
		for x := 0; x < 6; x += 2 {
			n.load2("R6", (6*y+x)*16, d[x], d[x+1])
		}
		for _, r := range n.inputLine() {
			n.store(r, "R14", 0)
			n.op("ADD R4, R14")
		}
	}
	for y := range 6 {
		n.op("ADD $8, %s", rowName(y))
	}
	n.op("ADD $16, R3")
	n.op("SUBS $1, R13")
	n.op("BNE pair")
	for y := range 6 {
		n.op("ADD R2, %s", rowName(y))
	}
	n.op("ADD $%d, R3", neonPlane-64)
	n.op("SUBS $1, R5")
	n.op("BNE block")
	n.op("RET")
}

// inputLine is isa.inputLine of registers 0 to 5, and returns where the results are.
func (n *neon) inputLine() [6]v {
	const d0, d1, d2, d3, d4, d5 v = 0, 1, 2, 3, 4, 5
	const r0, e, r2, o, r4 v = 6, 7, 8, 9, 10
	n.move(d4, r0)
	n.move(d4, e)
	n.move(d3, o)
	n.fmlsBy(d2, coefS, r0)
	n.fmlsBy(d2, coefBB, e)
	n.fmlsBy(d2, coefAA, d4)
	n.fmlsBy(d3, coefS, d5)
	n.fmlsBy(d1, coefBB, o)
	n.fmlsBy(d1, coefAA, d3)
	n.fmlaBy(d0, coefQ, r0)
	n.fmlaBy(d1, coefQ, d5)
	n.move(e, r2)
	n.move(d4, r4)
	n.fmlaBy(o, coefA, e)
	n.fmlsBy(o, coefA, r2)
	n.fmlaBy(d3, coefB, d4)
	n.fmlsBy(d3, coefB, r4)
	return [6]v{r0, e, r2, d4, r4, d5}
}

// multiply is the multiplication of one point.
func (n *neon) multiply() {
	n.function("winogradMultiplyNEON", "v, u, m *float64, blocks, chain, groups int, next *float64, later *float32", "",
		"multiplies at one point: see asm/winograd.go.")
	const pairs = neonOutputs / 2
	sum := func(t, o int) v { return v(pairs*t + o) }
	x := func(t int) v { return v(24 + t) }
	n.label("group")
	n.op("MOVD R1, R7")
	n.op("MOVD R3, R8")
	n.op("MOVD ZR, R9")
	n.label("sum")
	n.op("CMP R4, R8")
	n.op("CSEL LT, R8, R4, R6")
	n.op("SUB R6, R8")
	for i := range neonTiles * pairs {
		n.zero(v(i))
	}
	n.label("block")
	for c := 0; c < 8; c += 2 {
		for t := range neonTiles {
			n.load("R0", 64*t+8*c, x(t))
		}
		for i := range 2 {
			for o := 0; o < pairs; o += 2 {
				n.load2("R7", (c+i)*8*neonOutputs+16*o, 30, 31)
				for k := range 2 {
					for t := range neonTiles {
						n.fmlaBy(v(30+k), lane{x(t), i}, sum(t, o+k))
					}
				}
			}
		}
	}
	n.op("ADD $%d, R0", neonPlane)
	n.op("ADD $%d, R7", 64*neonOutputs)
	n.op("SUBS $1, R6")
	n.op("BNE block")
	n.op("CBZ R9, store")
	for i := 0; i < neonTiles*pairs; i += 2 {
		n.load2("R2", 16*i, 30, 31)
		n.fadd(v(i), 30, v(i))
		n.fadd(v(i+1), 31, v(i+1))
	}
	n.label("store")
	for i := 0; i < neonTiles*pairs; i += 2 {
		n.store2(v(i), v(i+1), "R2", 16*i)
	}
	n.op("ADD $1, R9")
	n.op("CBNZ R8, sum")
	n.op("ADD $%d, R2", neonProduct)
	n.op("SUBS $1, R5")
	n.op("BNE group")
	n.op("RET")
}

// output is the transform of a tile's products, two outputs at a time.
func (n *neon) output(f format) {
	n.function("winogradOutput"+f.name+"NEON",
		"m *float64, point int, k float64, table *float64, dst *float32, line int, flags *uint8, scratch *float64", "",
		"transforms one tile's outputs and rounds them: see asm/winograd.go.")
	k := lane{12, 0}
	const t, lo, hi, e, bias, most v = 6, 8, 9, 10, 27, 28
	n.floats(a, b, coefA.v)
	n.floats(a*a, b*b, coefAA.v)
	n.floats(a*a*a, b*b*b, coefA3.v)
	n.roundings(f)
	n.constant(laneBits(0), laneBits(0), bitsOf)
	n.op("ADD R1<<1, R1, R11")
	n.op("LSL $1, R11, R11") // 6 points
	n.op("MOVD ZR, (R6)")
	n.op("MOVD ZR, 8(R6)")
	n.op("MOVD $4, R8")
	n.label("pair")
	d := [6]v{0, 1, 2, 3, 4, 5}
	n.op("MOVD R0, R10")
	for x := range 6 {
		n.op("MOVD R10, R12")
		for y := range 6 {
			n.load("R12", 0, d[y])
			n.op("ADD R11, R12")
		}
		n.op("ADD R1, R10")
		for y, r := range n.outputLine() {
			n.store(r, "R7", (6*y+x)*16)
		}
	}
	n.load("R3", 16*64, bias)
	n.load("R3", 17*64, most)
	n.op("MOVD R4, R9")
	for y := range 4 {
		for x := 0; x < 6; x += 2 {
			n.load2("R7", (6*y+x)*16, d[x], d[x+1])
		}
		for x, r := range n.outputLine() {
			n.load("R3", (4*y+x)*64, lo)
			n.move(most, e)
			n.fmlaBy(lo, k, e)
			n.fadd(r, bias, r)
			n.fsub(r, e, lo)
			n.fadd(r, e, hi)
			n.roundPair(f, lo, hi, t, v(20+x))
			if f.name != "Float32" {
				n.narrow(lo, lo)
			}
			n.op("FMOVD %s, %d(R9)", lo.f(), 32*x)
		}
		n.open(f, [4]v{20, 21, 22, 23})
		n.op("FMOVS %d(R6), F21", 4*y)
		n.op("VORR V20.B16, V21.B16, V20.B16")
		n.op("FMOVS F20, %d(R6)", 4*y)
		if y < 3 {
			n.op("ADD R5, R9")
		}
	}
	n.op("VSHL $2, V11.H8, V11.H8")
	n.op("ADD $16, R0")
	n.op("ADD $16, R3")
	n.op("ADD $8, R4")
	n.op("SUBS $1, R8")
	n.op("BNE pair")
	n.op("RET")
}

// outputLine is isa.outputLine of registers 0 to 5, and returns where the
// results are. It leaves register 8 and those from 9 to 23 alone.
func (n *neon) outputLine() [4]v {
	const d0, d1, d2, d3, d4, d5 v = 0, 1, 2, 3, 4, 5
	const s, t, r1, r2 v = 6, 7, 24, 25
	n.fadd(d1, d2, s)
	n.fsub(d1, d2, d1)
	n.fadd(d3, d4, t)
	n.fsub(d3, d4, d3)
	n.fadd(d0, s, d0)
	n.fadd(d0, t, d0)
	n.fmulBy(d3, coefB, r1)
	n.fmlaBy(d1, coefA, r1)
	n.fmulBy(t, coefBB, r2)
	n.fmlaBy(s, coefAA, r2)
	n.fmlaBy(d3, coefB3, d5)
	n.fmlaBy(d1, coefA3, d5)
	return [4]v{d0, r1, r2, d5}
}

// dot is one output of a 3x3 convolution directly.
func (n *neon) dot() {
	n.function("winogradDotNEON", "src, next *float32, line, image int, w *float32, blocks int, out *[8]float64", "",
		"is one output directly: see asm/winograd.go.")
	sum := func(y, h int) v { return v(4*y + h) }
	rows := [3]string{"R0", "R7", "R8"}
	n.op("ADD R2, R0, R7")
	n.op("ADD R2, R7, R8")
	for i := range 12 {
		n.zero(v(i))
	}
	n.label("block")
	for y := range 3 {
		for c := range 3 {
			n.load2(rows[y], 32*c, 16, 17)
			n.load2("R4", 32*(3*y+c), 18, 19)
			for h := range 4 {
				x, w := v(20+h), v(24+h)
				if h%2 == 0 {
					n.widen(v(16+h/2), x)
					n.widen(v(18+h/2), w)
				} else {
					n.widenUpper(v(16+h/2), x)
					n.widenUpper(v(18+h/2), w)
				}
				n.fmla(x, w, sum(y, h))
			}
		}
	}
	for _, r := range rows {
		n.op("ADD R3, %s", r)
	}
	n.op("ADD $%d, R4", 9*32)
	n.op("SUBS $1, R5")
	n.op("BNE block")
	for y := 1; y < 3; y++ {
		for h := range 4 {
			n.fadd(sum(0, h), sum(y, h), sum(0, h))
		}
	}
	for h := 0; h < 4; h += 2 {
		n.store2(sum(0, h), sum(0, h+1), "R6", 16*h)
	}
	n.op("RET")
}
