package main

// singles writes the kernels of singles.go, sixteen numbers at a time in four registers, of
// float64 numbers in eight.
func (n *neon) singles() {
	n.single = true
	n.singleApply("Add", (*neon).fadd, false)
	n.singleApply("Mul", (*neon).fmul, false)
	n.singleApply("Scale", (*neon).fmul, true)
	n.singleShift()
	n.singleLay()
	n.singleBlocks()
	n.singleGreatest()
	n.singleExp()
	n.singleSums(false)
	n.singleSums(true)
	n.singleLine()
}

func (n *neon) singleKernel(what, arguments string) {
	n.function("single"+what+"NEON", arguments, "", "is one of asm.Singles: see asm/singles.go.")
}

// sixteen goes on with the next sixteen numbers, to which the pointers move, and returns after
// the last of them, but for what is done then.
func (n *neon) sixteen(count string, then func(), pointers ...string) {
	for _, p := range pointers {
		n.op("ADD $64, %s", p)
	}
	n.op("SUBS $16, %s", count)
	n.op("BNE next")
	then()
	n.op("RET")
}

func nothing() {}

// load4 loads sixteen numbers, and store4 stores them.
func (n *neon) load4(base string, d v) {
	n.load2(base, 0, d, d+1)
	n.load2(base, 32, d+2, d+3)
}

func (n *neon) store4(s v, base string) {
	n.store2(s, s+1, base, 0)
	n.store2(s+2, s+3, base, 32)
}

// spread sets the lanes of d to a number of memory.
func (n *neon) spread(base, as string, d v) { n.op("VLD1R (%s), [%s]", base, d.as(as)) }

func (n *neon) singleApply(what string, apply func(n *neon, l, r, d v), spread bool) {
	n.singleKernel(what, "dst, a, b *float32, n int")
	const nan, mask, by v = 16, 17, 18
	n.constant(canonicalNaN<<32|canonicalNaN, canonicalNaN<<32|canonicalNaN, nan)
	pointers := []string{"R0", "R1", "R2"}
	if spread {
		n.spread("R2", "S4", by)
		pointers = pointers[:2]
	}
	n.label("next")
	n.load4("R1", 0)
	if !spread {
		n.load4("R2", 4)
	}
	for h := range v(4) {
		if spread {
			apply(n, h, by, h)
		} else {
			apply(n, h, 4+h, h)
		}
		n.numbers(h, nan, mask)
		n.move(mask, h)
	}
	n.store4(0, "R0")
	n.sixteen("R3", nothing, pointers...)
}

func (n *neon) singleShift() {
	n.singleKernel("Shift", "dst *float32, step int, src *float32, line int, by *float32, n, rows int")
	const shift, nan, mask v = 4, 16, 17
	n.constant(canonicalNaN<<32|canonicalNaN, canonicalNaN<<32|canonicalNaN, nan)
	n.label("next")
	n.op("MOVD R0, R7")
	n.op("MOVD R2, R8")
	n.op("MOVD R6, R9")
	n.load4("R4", shift)
	n.label("row")
	n.load4("R8", 0)
	for h := range v(4) {
		n.fadd(h, shift+h, h)
		n.numbers(h, nan, mask)
		n.move(mask, h)
	}
	n.store4(0, "R7")
	n.op("ADD R1, R7")
	n.op("ADD R3, R8")
	n.op("SUBS $1, R9")
	n.op("BNE row")
	n.sixteen("R5", nothing, "R0", "R2", "R4")
}

func (n *neon) singleLay() {
	n.singleKernel("Lay", "dst *float32, step int, src *float32, n int")
	n.label("next")
	n.load2("R2", 0, 0, 1)
	n.store2(0, 1, "R0", 0)
	n.op("ADD R1, R0")
	n.op("ADD $32, R2")
	n.op("SUBS $8, R3")
	n.op("BNE next")
	n.op("RET")
}

func (n *neon) singleBlocks() {
	n.singleKernel("Blocks", "dst *float32, plane int, src *float32, line int, by *float32, blocks, pixels int")
	const shift, nan, mask v = 4, 16, 17
	n.constant(canonicalNaN<<32|canonicalNaN, canonicalNaN<<32|canonicalNaN, nan)
	n.label("next")
	n.op("MOVD R0, R7")
	n.op("MOVD R2, R8")
	n.op("MOVD R6, R9")
	n.load2("R4", 0, shift, shift+1)
	n.label("pixel")
	n.load2("R8", 0, 0, 1)
	for h := range v(2) {
		n.fadd(h, shift+h, h)
		n.numbers(h, nan, mask)
		n.move(mask, h)
	}
	n.store2(0, 1, "R7", 0)
	n.op("ADD $32, R7")
	n.op("ADD R3, R8")
	n.op("SUBS $1, R9")
	n.op("BNE pixel")
	n.op("ADD R1, R0")
	n.op("ADD $32, R2")
	n.op("ADD $32, R4")
	n.op("SUBS $1, R5")
	n.op("BNE next")
	n.op("RET")
}

func (n *neon) singleGreatest() {
	n.singleKernel("Greatest", "x *float32, n int, most *[16]float32")
	n.load4("R2", 0)
	n.label("next")
	n.load4("R0", 4)
	for h := range v(4) {
		n.fmax(h, 4+h, h)
	}
	n.sixteen("R1", func() { n.store4(0, "R2") }, "R0")
}

func (n *neon) singleExp() {
	n.singleKernel("Exp", "dst, src *float32, n int, top *float32, sums *[16]float32")
	const sum, top, z, k, p, q, t v = 0, 4, 5, 6, 7, 8, 9
	const far, round, perLn2, high, low, terms v = 16, 17, 18, 19, 20, 21
	n.op("MOVD $·fastExpVectors(SB), R5")
	for c := range v(eTerms/64 + fastExpTerms) {
		n.load("R5", 64*int(c), far+c)
	}
	n.spread("R3", "S4", top)
	n.load4("R4", sum)
	n.label("next")
	for h := range 4 {
		n.load("R1", 16*h, z)
		n.fsub(z, top, z)
		n.move(round, k)
		n.fmla(z, perLn2, k)
		n.fsub(k, round, p)
		n.fcmgt(far, z, t) // below: not of NaN
		n.fmls(p, high, z)
		n.fmls(p, low, z)
		n.move(terms+fastExpTerms-1, p)
		p, q := p, q
		for term := v(fastExpTerms - 2); term >= 0; term-- {
			n.move(terms+term, q)
			n.fmla(z, p, q)
			p, q = q, p
		}
		n.op("VSHL $23, %s, %s", k.as("S4"), k.as("S4"))
		n.op("VADD %s, %s, %s", k.as("S4"), p.as("S4"), p.as("S4"))
		n.bic(p, t, p)
		n.fadd(sum+v(h), p, sum+v(h))
		n.store(p, "R0", 16*h)
	}
	n.sixteen("R2", func() { n.store4(sum, "R4") }, "R0", "R1")
}

// doubles does arithmetic with float64 numbers.
func (n *neon) doubles(do func()) {
	n.single = false
	do()
	n.single = true
}

func (n *neon) singleSums(squares bool) {
	const sum, x, mean v = 0, 8, 16
	what, arguments, out := "Sums", "x *float32, n int, sums *[16]float64", "R2"
	if squares {
		what, arguments, out = "Squares", "x *float32, n int, mean *float64, sums *[16]float64", "R3"
	}
	n.singleKernel(what, arguments)
	if squares {
		n.spread("R2", "D2", mean)
	}
	for h := range 4 {
		n.load2(out, 32*h, sum+v(2*h), sum+v(2*h)+1)
	}
	n.label("next")
	n.load4("R0", x)
	n.doubles(func() {
		for h := range v(4) {
			n.widen(x+h, 20)
			n.widenUpper(x+h, 21)
			for k := range v(2) {
				s := sum + 2*h + k
				if squares {
					n.fsub(20+k, mean, 20+k)
					n.fmla(20+k, 20+k, s)
				} else {
					n.fadd(s, 20+k, s)
				}
			}
		}
	})
	n.sixteen("R1", func() {
		for h := range 4 {
			n.store2(sum+v(2*h), sum+v(2*h)+1, out, 32*h)
		}
	}, "R0")
}

func (n *neon) singleLine() {
	n.singleKernel("Line", "dst, src, scale, shift *float32, n int, line *[2]float64")
	const x, scale, shift, nan, mask, mean, slope v = 0, 4, 8, 16, 17, 18, 19
	n.constant(canonicalNaN<<32|canonicalNaN, canonicalNaN<<32|canonicalNaN, nan)
	n.spread("R5", "D2", mean)
	n.op("ADD $8, R5")
	n.spread("R5", "D2", slope)
	n.label("next")
	n.load4("R1", x)
	n.load4("R2", scale)
	n.load4("R3", shift)
	for h := range v(4) {
		n.doubles(func() {
			for k, r := range []v{x, scale, shift} {
				n.widen(r+h, v(20+2*k))
				n.widenUpper(r+h, v(21+2*k))
			}
			for k := range v(2) {
				n.fsub(20+k, mean, 20+k)
				n.fmul(20+k, slope, 20+k)
				n.fmla(20+k, 22+k, 24+k)
			}
			n.narrow(24, x+h)
			n.narrowUpper(25, x+h)
		})
		n.numbers(x+h, nan, mask)
		n.move(mask, x+h)
	}
	n.store4(x, "R0")
	n.sixteen("R4", nothing, "R0", "R1", "R2", "R3")
}
