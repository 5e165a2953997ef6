package main

// direct computes 8 channels of 3 vectors of pixels: 24 registers of sums, 3 of
// pixels, 4 of weights, which multiply by element, and one for the products of
// Float64. The arguments are those of directOutputs.
func (n *neon) direct(f format) {
	n.function("direct"+f.name+"NEON", "src *float64, taps *int, n int, w, table, window, out *float64, flags *uint8",
		"", "convolves directly: see asm/direct.go.")
	const outputs = 8
	for i := range outputs * vectors {
		n.zero(v(i))
	}
	n.label("taps")
	n.op("MOVD.P 8(R1), R8")
	n.op("ADD R0, R8")
	n.load2("R8", 0, 24, 25)
	n.load("R8", 32, 26)
	n.load2("R3", 0, 27, 28)
	n.load2("R3", 32, 29, 30)
	for o := range outputs {
		w := lane{v(27 + o/2), o % 2}
		for x := range vectors {
			sum := v(vectors*o + x)
			if f.name == "Float64" {
				n.fmulBy(v(24+x), w, 31)
				n.fadd(sum, 31, sum)
			} else {
				n.fmlaBy(v(24+x), w, sum)
			}
		}
	}
	n.op("ADD $%d, R3", 8*outputs)
	n.op("SUBS $1, R2")
	n.op("BNE taps")

	// The sums wait in out, and all registers are free.
	for i := 0; i < outputs*vectors; i += 2 {
		n.store2(v(i), v(i+1), "R6", 16*i)
	}
	const lo, hi, t, bias, slope, e, window v = 6, 7, 8, 9, 10, 12, 24
	n.roundings(f)
	n.constant(laneBits(0), laneBits(0), bitsOf)
	if f.name != "Float64" {
		n.load2("R5", 0, window, window+1)
		n.load("R5", 32, window+2)
		n.op("ADD $%d, R4, R9", 8*outputs)
		n.op("ADD $%d, R4, R10", 16*outputs)
	}
	n.op("MOVD $%d, R2", outputs)
	n.label("round")
	n.load2("R6", 0, 0, 1)
	n.load("R6", 32, 2)
	n.op("VLD1R.P 8(R4), [%s]", bias.as("D2"))
	if f.name != "Float64" {
		n.op("VLD1R.P 8(R9), [%s]", slope.as("D2"))
		n.op("VLD1R.P 8(R10), [%s]", e.as("D2"))
	}
	for x := range v(vectors) {
		y, same := x, 20+x
		n.fadd(y, bias, y)
		if f.name == "Float64" {
			n.fcmeq(y, y, same)
			continue
		}
		n.move(e, hi)
		n.op("VFMLA %s, %s, %s", slope.as("D2"), (window + x).as("D2"), hi.as("D2"))
		n.fsub(y, hi, lo)
		n.fadd(y, hi, hi)
		n.roundPair(f, lo, hi, t, same)
		if f.name == "Float32" {
			n.widen(lo, y)
		} else {
			n.move(lo, y)
		}
	}
	n.store2(0, 1, "R6", 0)
	n.store(2, "R6", 32)
	n.open(f, [4]v{20, 21, 22, 22})
	n.op("VMOV V20.D[0], R11")
	n.op("MOVH R11, (R7)")
	n.op("LSR $16, R11")
	n.op("MOVB R11, 2(R7)")
	n.op("ADD $48, R6")
	n.op("ADD $3, R7")
	n.op("SUBS $1, R2")
	n.op("BNE round")
	n.op("RET")
}

// add is directAdd: 24 registers of sums, 3 of pixels, 4 of weights.
func (n *neon) add() {
	n.function("directAddNEON", "src *float64, w *float64, n int, sums *float64, next *float32", "",
		"adds sums of products: see asm/direct.go.")
	const outputs = 8
	for i := range outputs * vectors {
		n.zero(v(i))
	}
	for line := range addLines {
		n.op("PRFM %d(R4), PLDL2KEEP", 64*line)
	}
	n.label("products")
	n.load2("R0", 0, 24, 25)
	n.load("R0", 32, 26)
	n.load2("R1", 0, 27, 28)
	n.load2("R1", 32, 29, 30)
	for o := range outputs {
		for x := range vectors {
			n.fmlaBy(v(24+x), lane{v(27 + o/2), o % 2}, v(vectors*o+x))
		}
	}
	n.op("ADD $%d, R0", 16*vectors)
	n.op("ADD $%d, R1", 8*outputs)
	n.op("SUBS $1, R2")
	n.op("BNE products")
	for i := 0; i < outputs*vectors; i += 2 {
		n.load2("R3", 16*i, 24, 25)
		n.fadd(24, v(i), 24)
		n.fadd(25, v(i+1), 25)
		n.store2(24, 25, "R3", 16*i)
	}
	n.op("RET")
}

// directWiden makes float64 numbers of n float32 numbers, a multiple of 6.
func (n *neon) directWiden() {
	n.function("directWidenNEON", "dst *float64, src *float32, n int", "", "converts numbers: see asm/direct.go.")
	n.label("numbers")
	for x := range v(vectors) {
		n.op("FMOVD.P 8(R1), %s", x.f())
		n.widen(x, x)
	}
	n.store2(0, 1, "R0", 0)
	n.store(2, "R0", 32)
	n.op("ADD $48, R0")
	n.op("SUBS $6, R2")
	n.op("BNE numbers")
	n.op("RET")
}

// directRound finishes the sums of 8 outputs: the arguments are those of amd64's.
func (n *neon) directRound(f format) {
	at := n.function("directRound"+f.name+"NEON", "sums *float64, slope *float64, window *float64, dst *float64, "+
		"line int, flags *uint8", " (any uint64)", "rounds sums: see asm/direct.go.")
	const outputs = 8
	const lo, hi, t, slope, e, window v = 6, 7, 8, 9, 10, 24
	n.roundings(f)
	n.constant(laneBits(0), laneBits(0), bitsOf)
	n.load2("R2", 0, window, window+1)
	n.load("R2", 32, window+2)
	n.op("MOVD $%d, R8", outputs)
	n.op("MOVD ZR, R9")
	n.label("round")
	n.load2("R0", 0, 0, 1)
	n.load("R0", 32, 2)
	n.op("VLD1R.P 8(R1), [%s]", slope.as("D2"))
	for x := range v(vectors) {
		y, same := x, 20+x
		n.fmul(slope, window+x, e)
		n.fsub(y, e, lo)
		n.fadd(y, e, hi)
		n.roundPair(f, lo, hi, t, same)
		if f.name == "Float32" {
			n.widen(lo, y)
		} else {
			n.move(lo, y)
		}
	}
	n.store2(0, 1, "R3", 0)
	n.store(2, "R3", 32)
	n.open(f, [4]v{20, 21, 22, 22})
	n.op("VMOV V20.D[0], R11")
	n.op("MOVH R11, (R5)")
	n.op("LSR $16, R11, R12")
	n.op("MOVB R12, 2(R5)")
	n.op("AND $0xffffff, R11")
	n.op("ORR R11, R9")
	n.op("ADD $48, R0")
	n.op("ADD R4, R3")
	n.op("ADD $3, R5")
	n.op("SUBS $1, R8")
	n.op("BNE round")
	n.op("MOVD R9, any+%d(FP)", at)
	n.op("RET")
}
