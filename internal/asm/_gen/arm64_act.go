package main

// The registers of the activation kernels: of the function, of the guard, and of
// constants. Coefficients of the exponential stay in 16 to 23.
const (
	actX, actY, actK, actR, actQ, actT v = 0, 1, 2, 3, 4, 5
	actF, actZ, actS                   v = 6, 7, 8

	actOpen, actBits v = 9, 10

	actPair                   v = 14 // 1/ln 2 and ln 2, or what stands for them
	actOne, actRound, actSign v = 15, 30, 31
	actFirst, actSecond       v = 29, 13 // constants of one function
	actThird                  v = 12

	gridExponent, gridShift, gridLeast, gridLimit, gridEnds v = 24, 25, 26, 27, 28
)

func (n *neon) fdiv(l, r, d v)  { n.three(0x6e60fc00, "fdiv", l, r, d) }
func (n *neon) fmin(l, r, d v)  { n.three(0x4ee0f400, "fmin", l, r, d) } // NaN if one is
func (n *neon) fmax(l, r, d v)  { n.three(0x4e60f400, "fmax", l, r, d) }
func (n *neon) fcmgt(l, r, d v) { n.three(0x6ee0e400, "fcmgt", l, r, d) }

// neonFunction is an activation function: setup loads its constants, eval takes
// actX and leaves actY.
type neonFunction struct {
	name        string
	setup, eval func(n *neon)
	exact       bool
}

var neonFunctions = []neonFunction{
	{"Identity", func(*neon) {}, func(n *neon) { n.move(actX, actY) }, true},
	{"ReLU", func(*neon) {}, func(n *neon) { n.positive(actY) }, true},
	{"GELU", func(n *neon) {
		n.exponential(cHalfPerLn2, cGauss)
		n.table(cFar, actFirst)
		n.table(cCenter, actSecond)
	}, (*neon).gelu, false},
	{"GELUTanh", func(n *neon) {
		n.exponential(cPerLn2, cExp)
		n.table(cSteep, actFirst)
		n.table(cShallow, actSecond)
		n.table(cAlpha, actThird)
		n.table(cBeta, 11)
	}, (*neon).geluTanh, false},
	{"SiLU", func(n *neon) {
		n.exponential(cPerLn2, cExp)
		n.table(cSteep, actFirst)
		n.table(cShallow, actSecond)
	}, (*neon).silu, false},
	{"Sigmoid", func(n *neon) {
		n.exponential(cPerLn2, cExp)
		n.table(cSteep, actFirst)
		n.table(cShallow, actSecond)
	}, (*neon).sigmoid, false},
	{"Erf", func(n *neon) {
		n.table(cOne, actOne)
		n.table(cErfFar, actFirst)
		n.table(cErfScale, actSecond)
		n.table(cHuge, actThird)
		n.table(cNear, 11)
	}, (*neon).erf, false},
	{"Tanh", func(n *neon) {
		n.exponential(cPerLn2, cExp)
		n.table(cShallow, actSecond)
		n.table(cTwo, actThird)
	}, (*neon).tanh, false},
}

// broadcast sets both lanes of d to a number of memory.
func (n *neon) broadcast(base string, at int, d v) {
	n.op("ADD $%d, %s, R7", at, base)
	n.op("VLD1R (R7), [%s]", d.as("D2"))
}

// table is broadcast from asm.actTable.
func (n *neon) table(at int, d v) { n.broadcast("R4", at, d) }

// act writes a kernel: eight numbers at a time, and a bit for each that stays
// open. See act.go, whose operations these are.
func (n *neon) act(f neonFunction) {
	result := n.function("act"+f.name+"NEON", "dst, src *float64, n int, grid *float64", " (open uint64)",
		"is an ActKernel: see asm/act.go.")
	n.op("MOVD $·actTable(SB), R4")
	f.setup(n)
	n.table(cSign, actSign)
	n.table(cExponent, gridExponent)
	n.broadcast("R3", gShift, gridShift)
	n.broadcast("R3", gLeast, gridLeast)
	n.broadcast("R3", gLimit, gridLimit)
	n.op("ADD $%d, R3, R7", gLow) // and gHigh
	n.load("R7", 0, gridEnds)
	n.constant(1, 2, actBits)
	n.op("MOVD ZR, R5")
	n.op("MOVD ZR, R6")
	n.label("eight")
	n.zero(actOpen)
	for h := range 4 {
		n.load("R1", 16*h, actX)
		f.eval(n)
		n.guard(f.exact, h)
		n.store(actX, "R0", 16*h)
	}
	n.op("VADDP %s, %s, %s", actOpen.as("D2"), actOpen.as("D2"), actOpen.as("D2"))
	n.op("FMOVD %s, R7", actOpen.f())
	n.op("LSL R6, R7")
	n.op("ORR R7, R5")
	n.op("ADD $8, R6")
	n.op("ADD $64, R0")
	n.op("ADD $64, R1")
	n.op("SUBS $8, R2")
	n.op("BNE eight")
	n.op("MOVD R5, open+%d(FP)", result)
	n.op("RET")
}

// guard rounds the ends of y's interval, sets x to the rounded number but where
// that is open, and adds the bits of those lanes of pair h to actOpen.
func (n *neon) guard(exact bool, h int) {
	const m, c, lo, hi v = 2, 3, 4, 5
	n.fabs(actY, m)
	n.fmax(m, gridLeast, m)
	n.op("VAND %s, %s, %s", gridExponent.as("B16"), m.as("B16"), c.as("B16"))
	n.op("VADD %s, %s, %s", gridShift.as("D2"), c.as("D2"), c.as("D2"))
	if exact {
		n.fadd(actY, c, lo)
		n.fcmeq(actY, actY, hi)
	} else {
		n.move(c, lo)
		n.move(c, hi)
		n.fmlaBy(actY, lane{gridEnds, 0}, lo)
		n.fmlaBy(actY, lane{gridEnds, 1}, hi)
		n.fcmeq(lo, hi, hi)
	}
	n.fcmgt(gridLimit, m, m)
	n.op("VAND %s, %s, %s", m.as("B16"), hi.as("B16"), hi.as("B16")) // decided
	n.fsub(lo, c, lo)
	n.insert(actSign, actY, lo)
	n.insert(hi, lo, actX)
	n.op("VSHL $%d, %s, %s", 2*h, actBits.as("D2"), lo.as("D2"))
	n.bic(lo, hi, lo)
	n.op("VORR %s, %s, %s", lo.as("B16"), actOpen.as("B16"), actOpen.as("B16"))
}

// insert takes the bits of d from s where mask is set.
func (n *neon) insert(mask, s, d v) {
	n.op("VBIT %s, %s, %s", mask.as("B16"), s.as("B16"), d.as("B16"))
}

// positive sets d to x, or to 0 for x < 0; -0 and NaN stay.
func (n *neon) positive(d v) {
	n.word(0x4ee0e800|uint32(actX)<<5|uint32(d), "fcmlt v"+d.String()[1:]+".2d, v0.2d, #0")
	n.bic(actX, d, d)
}

// exponential loads the constants of reduce and exp: two that follow each other,
// and the polynomial.
func (n *neon) exponential(pair, terms int) {
	n.op("ADD $%d, R4, R7", pair)
	n.load("R7", 0, actPair)
	for i := range expTerms {
		n.table(terms+8*i, v(16+i))
	}
	n.table(cOne, actOne)
	n.table(cRound, actRound)
}

// reduce sets k = v times the first of the pair, rounded, r = v - k times the
// second, in place of v, and q to the last coefficient.
func (n *neon) reduce() {
	n.move(actRound, actK)
	n.fmlaBy(actR, lane{actPair, 0}, actK)
	n.fsub(actK, actRound, actQ)
	n.fmlsBy(actQ, lane{actPair, 1}, actR)
}

// polynomial sets q to the exponential's.
func (n *neon) polynomial() {
	q, t := actQ, actT
	n.move(16+expTerms-1, q)
	for i := expTerms - 2; i >= 0; i-- {
		n.move(v(16+i), t)
		n.op("VFMLA %s, %s, %s", actR.as("D2"), q.as("D2"), t.as("D2"))
		q, t = t, q
	}
	if q != actQ {
		n.move(q, actQ)
	}
}

// exp sets q to 2^k (1 + r q).
func (n *neon) exp() {
	n.move(actOne, actT)
	n.op("VFMLA %s, %s, %s", actR.as("D2"), actQ.as("D2"), actT.as("D2"))
	n.op("VSHL $52, %s, %s", actK.as("D2"), actK.as("D2"))
	n.op("VADD %s, %s, %s", actK.as("D2"), actT.as("D2"), actQ.as("D2"))
}

// gelu is asm.ActGELU.
func (n *neon) gelu() {
	n.fabs(actX, actR)
	n.fmin(actR, actFirst, actR)
	n.fadd(actR, actSecond, actZ)
	n.fdiv(actR, actZ, actZ)
	n.fmul(actR, actR, actR)
	n.reduce()
	n.polynomial()
	n.exp()
	f := n.horner(cMills, millsTerms)
	n.fmul(f, actZ, f)
	n.fmul(f, actQ, f)
	n.positive(actY)
	n.fsub(actY, f, actY)
}

// horner evaluates a polynomial of z with coefficients of the table, and returns where it is.
func (n *neon) horner(first, terms int) v {
	f, t := actF, actS
	n.op("ADD $%d, R4, R7", first+8*(terms-1))
	n.op("MOVD $-8, R8")
	n.op("VLD1R.P (R7)(R8), [%s]", f.as("D2"))
	for range terms - 1 {
		n.op("VLD1R.P (R7)(R8), [%s]", t.as("D2"))
		n.op("VFMLA %s, %s, %s", actZ.as("D2"), f.as("D2"), t.as("D2"))
		f, t = t, f
	}
	return f
}

// erf is asm.ActErf.
func (n *neon) erf() {
	n.fadd(actX, actX, actR)
	n.move(11, actZ)
	n.op("VFMLA %s, %s, %s", actX.as("D2"), actR.as("D2"), actZ.as("D2"))
	n.fmul(n.horner(cPhi, phiTerms), actX, actY)
	n.fmul(actY, actSecond, actY)
	n.fabs(actX, actR)
	n.fmax(actR, actFirst, actR)
	n.fsub(actR, actFirst, actR)
	n.fmul(actR, actThird, actR)
	n.fadd(actR, actOne, actR)
	n.fmul(actY, actR, actY)
}

// geluTanh is asm.ActGELUTanh.
func (n *neon) geluTanh() {
	n.fmul(actX, actX, actF)
	n.move(actThird, actR)
	n.op("VFMLA %s, %s, %s", v(11).as("D2"), actF.as("D2"), actR.as("D2"))
	n.fmul(actR, actX, actR)
	n.cut(actR)
	n.quotient()
}

// silu is asm.ActSiLU.
func (n *neon) silu() {
	n.cut(actX)
	n.word(0x6ee0f800|uint32(actR)<<5|uint32(actR), "fneg v3.2d, v3.2d")
	n.quotient()
}

// sigmoid is asm.ActSigmoid.
func (n *neon) sigmoid() {
	n.cut(actX)
	n.word(0x6ee0f800|uint32(actR)<<5|uint32(actR), "fneg v3.2d, v3.2d")
	n.reduce()
	n.polynomial()
	n.exp()
	n.fadd(actQ, actOne, actQ)
	n.zero(actF)
	n.move(actOne, actY)
	n.op("VFMLA %s, %s, %s", actF.as("D2"), actR.as("D2"), actY.as("D2")) // 1 + 0 r
	n.fdiv(actY, actQ, actY)
}

// cut sets r to v within the arguments of the exponential.
func (n *neon) cut(v v) {
	n.fmin(v, actFirst, actR)
	n.fmax(actR, actSecond, actR)
}

// quotient sets y to x/(1 + e^r).
func (n *neon) quotient() {
	n.reduce()
	n.polynomial()
	n.exp()
	n.fadd(actQ, actOne, actQ)
	n.fdiv(actX, actQ, actY)
}

// tanh is asm.ActTanh.
func (n *neon) tanh() {
	n.fabs(actX, actR)
	n.fmul(actR, actThird, actR)
	n.fmax(actR, actSecond, actR)
	n.reduce()
	n.polynomial()
	n.fmul(actR, actQ, actQ)
	n.op("VSHL $52, %s, %s", actK.as("D2"), actK.as("D2"))
	n.op("VADD %s, %s, %s", actOne.as("D2"), actK.as("D2"), actK.as("D2"))
	n.fsub(actK, actOne, actT)
	n.op("VFMLA %s, %s, %s", actQ.as("D2"), actK.as("D2"), actT.as("D2"))
	n.fsub(actT, actThird, actF)
	n.fdiv(actT, actF, actY)
	n.insert(actSign, actX, actY)
}

// expBelow is Act.ExpBelow: eight numbers at a time.
func (n *neon) expBelow() {
	n.function("expBelowNEON", "dst *float64, src *float64, n int, top float64", "", "is Act.ExpBelow: see asm/act.go.")
	n.op("MOVD $·actTable(SB), R4")
	n.op("VDUP V12.D[0], V12.D2")
	n.exponential(cPerLn2, cExp)
	n.table(cShallow, actSecond)
	n.label("eight")
	for h := range 4 {
		n.load("R1", 16*h, actX)
		n.fsub(actX, 12, actR)
		n.fmax(actR, actSecond, actR)
		n.reduce()
		n.polynomial()
		n.exp()
		n.store(actQ, "R0", 16*h)
	}
	n.op("ADD $64, R0")
	n.op("ADD $64, R1")
	n.op("SUBS $8, R2")
	n.op("BNE eight")
	n.op("RET")
}
