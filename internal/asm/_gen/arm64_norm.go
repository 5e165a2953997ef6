package main

// top is the greatest high and low word of the bits of |x|: see top of norm.go.
func (n *neon) top() {
	n.function("normTopNEON", "x *float64, n int, out *[16]uint32", "", "finds the largest number: see asm/norm.go.")
	for h := range v(4) {
		n.zero(h)
	}
	n.label("top")
	for h := v(0); h < 4; h += 2 {
		n.load2("R0", 16*int(h), 4+h, 5+h)
	}
	for h := range v(4) {
		n.fabs(4+h, 4+h)
		n.op("VUMAX %s, %s, %s", (4 + h).as("S4"), h.as("S4"), h.as("S4"))
	}
	n.op("ADD $64, R0")
	n.op("SUBS $8, R1")
	n.op("BNE top")
	n.store2(0, 1, "R2", 0)
	n.store2(2, 3, "R2", 32)
	n.op("RET")
}

// sums are five accumulators and a check, for each of 8 lanes: see sums of
// norm.go.
func (n *neon) sums() {
	n.function("normSumsNEON", "x *float64, n int, acc *[6][8]float64", "",
		"adds numbers and their squares: see asm/norm.go.")
	const x, q, t v = 24, 25, 26
	acc := func(k, h int) v { return v(4*k + h) }
	for k := range 6 {
		for h := 0; h < 4; h += 2 {
			n.load2("R2", 64*k+16*h, acc(k, h), acc(k, h+1))
		}
	}
	// add adds r to the accumulator a, and leaves in r what a lost of it.
	add := func(r, a v) {
		n.fadd(a, r, t)
		n.fsub(t, a, a)
		n.fsub(r, a, r)
		n.move(t, a)
	}
	n.label("sums")
	for h := range 4 {
		n.load("R0", 16*h, x)
		n.fmul(x, x, q)
		add(x, acc(0, h))
		add(q, acc(2, h))
		add(x, acc(1, h))
		add(q, acc(3, h))
		rest := acc(5, h)
		n.op("VORR %s, %s, %s", x.as("B16"), rest.as("B16"), rest.as("B16"))
		n.fadd(acc(4, h), q, acc(4, h))
	}
	n.op("ADD $64, R0")
	n.op("SUBS $8, R1")
	n.op("BNE sums")
	for k := range 6 {
		for h := 0; h < 4; h += 2 {
			n.store2(acc(k, h), acc(k, h+1), "R2", 64*k+16*h)
		}
	}
	n.op("RET")
}

// apply evaluates a line, with its guard: see apply of norm.go.
func (n *neon) apply(f format) {
	result := n.function("normApply"+f.name+"NEON", "dst, src *float64, n int, line *[6]float64, open *uint8",
		" (any uint64)", "normalises and rounds: see asm/norm.go.")
	const muHi, muLo, slope, beta, ct, cy v = 0, 1, 2, 3, 4, 5
	const y, e, lo, hi v = 6, 7, 8, 9
	for c := range v(6) {
		n.op("VLD1R.P 8(R3), [%s]", c.as("D2"))
	}
	n.constant(f.half()+1, f.half()+1, half)
	n.constant(f.last(), f.last(), last)
	n.constant(f.least(), f.least(), least)
	n.constant(f.span(), f.span(), span)
	n.constant(0x0008_0004_0002_0001, 0x0080_0040_0020_0010, bitsOf)
	n.zero(zeros)
	n.op("MOVD ZR, R5")
	n.label("next")
	for h := range 4 {
		t := v(24 + h) // x, (x-mu) slope, then lo rounded
		n.load("R1", 16*h, t)
		n.fsub(t, muHi, t)
		n.fsub(t, muLo, t)
		n.fmul(t, slope, t)
		n.fadd(t, beta, y)
		n.fabs(t, t)
		n.fabs(y, e)
		n.fmul(e, cy, e)
		n.op("VFMLA %s, %s, %s", ct.as("D2"), t.as("D2"), e.as("D2"))
		n.fsub(y, e, lo)
		n.fadd(y, e, hi)
		n.decide(lo, hi, e, v(20+h))
		n.store(lo, "R0", 16*h)
	}
	n.gather("S4", [4]v{20, 21, 22, 23})
	n.op("VADDV V20.H8, V20")
	n.op("FMOVS F20, R6")
	n.op("MOVB R6, (R4)")
	n.op("ORR R6, R5")
	n.op("ADD $64, R0")
	n.op("ADD $64, R1")
	n.op("ADD $1, R4")
	n.op("SUBS $8, R2")
	n.op("BNE next")
	n.op("MOVD R5, any+%d(FP)", result)
	n.op("RET")
}

const zeros v = 10

// decide is isa.decide: it rounds lo and hi to the format, ties away from zero,
// and sets same to ones in each lane where they agree on a normal number, or
// were the same before. t is scratch.
func (n *neon) decide(lo, hi, t, same v) {
	n.fcmeq(lo, hi, same) // a NaN differs from itself
	n.op("VADD %s, %s, %s", half.as("D2"), lo.as("D2"), lo.as("D2"))
	n.op("VADD %s, %s, %s", half.as("D2"), hi.as("D2"), hi.as("D2"))
	n.op("VEOR %s, %s, %s", lo.as("B16"), hi.as("B16"), hi.as("B16"))
	n.bic(hi, last, hi)
	n.bic(lo, last, lo)
	n.op("VCMEQ %s, %s, %s", zeros.as("D2"), hi.as("D2"), hi.as("D2"))
	n.fabs(lo, t)
	n.op("VSUB %s, %s, %s", least.as("D2"), t.as("D2"), t.as("D2"))
	n.cmhs(span, t, t)
	n.op("VAND %s, %s, %s", t.as("B16"), hi.as("B16"), hi.as("B16"))
	n.op("VORR %s, %s, %s", hi.as("B16"), same.as("B16"), same.as("B16"))
}
