package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Places in asm.actConstants, in bytes.
const (
	cPerLn2 = 8 * iota
	cLn2
	cHalfPerLn2
	cTwoLn2
	cRound
	cOne
	cTwo
	cSteep
	cShallow
	cFar
	cCenter
	cAlpha
	cBeta
	cExponent
	cAbs
	cSign
	cExp
	cMills = cExp + 8*expTerms
	cGauss = cMills + 8*millsTerms
	cErr   = cGauss + 8*expTerms
	cHalf  = cErr + 8
	cNear  = cHalf + 8
	cLimit = cNear + 8
	cPhi   = cLimit + 8

	cErfFar   = cPhi + 8*phiTerms
	cErfScale = cErfFar + 8
	cHuge     = cErfScale + 8

	expTerms   = 8
	millsTerms = 14
	phiTerms   = 18
)

// Places in asm.ActGrid.
const (
	gLeast = 8 * iota
	gLimit
	gLow
	gHigh
	gShift
)

// act writes all kernels of asm.Act.
func act() {
	for _, i := range []isa{avx512, avx2} {
		for _, f := range actFunctions {
			i.act("act"+f.name+i.name, f.eval, f.exact)
		}
		i.act("actErf"+i.name, erf, false)
		i.expBelow()
	}
}

// actFunctions are the functions; the first two are exact.
var actFunctions = []struct {
	name  string
	eval  func(all ...*actKernel)
	exact bool
}{
	{"Identity", each((*actKernel).identity), true},
	{"ReLU", each((*actKernel).relu), true},
	{"GELU", gelu, false},
	{"GELUTanh", geluTanh, false},
	{"SiLU", silu, false},
	{"Tanh", tanh, false},
	{"Sigmoid", sigmoid, false},
}

// each evaluates a function for one register after the other.
func each(eval func(*actKernel)) func(...*actKernel) {
	return func(all ...*actKernel) {
		for _, k := range all {
			eval(k)
		}
	}
}

// actKernel is one function in one instruction set. The functions take x and
// leave y; other registers are theirs.
type actKernel struct {
	isa
	table, grid reg.Register
	x, y        reg.VecPhysical
	read        func(to reg.VecPhysical) // x
	free        []reg.VecPhysical
}

// actTable returns the register of the constants.
func (i isa) actTable() reg.Register {
	name := "·actTable"
	if i.lanes < 8 {
		name = "·actVectors"
	}
	LEAQ(NewDataAddr(Symbol{Name: name}, 0), reg.R9)
	return reg.R9
}

// sideBySide returns kernels, which share the registers, with x in its own.
func (i isa) sideBySide(n int, grid, table reg.Register, read func(j int, to reg.VecPhysical)) (all []*actKernel) {
	each := len(i.wide) / n
	for j := range n {
		k := &actKernel{isa: i, table: table, grid: grid, free: i.wide[j*each:][:each]}
		k.read = func(to reg.VecPhysical) { read(j, to) }
		k.x, k.y = k.register(), k.register()
		k.read(k.x)
		all = append(all, k)
	}
	return all
}

// results begins the guards: each may take its own registers but x and y, and then
// those of others. AVX2 needs the last one for constants.
func results(all []*actKernel) {
	taken := map[reg.VecPhysical]bool{}
	for _, k := range all {
		taken[k.x], taken[k.y] = true, true
		taken[k.wide[15]] = taken[k.wide[15]] || k.lanes < 8
	}
	for j, k := range all {
		own := j * len(k.wide) / len(all)
		k.free = nil
		for _, r := range append(slices.Clone(k.wide[own:]), k.wide[:own]...) {
			if !taken[r] {
				k.free = append(k.free, r)
			}
		}
	}
}

// act writes the loop: n numbers, eight at a time, and a bit for each that stays
// open.
func (i isa) act(name string, eval func(...*actKernel), exact bool) {
	TEXT(name, NOSPLIT, "func(dst, src *float64, n int, grid *float64) (open uint64)")
	Doc(name + " is an ActKernel: see asm/act.go.")
	dst := Load(Param("dst"), reg.RDI).(reg.GPPhysical)
	src := Load(Param("src"), reg.RSI).(reg.GPPhysical)
	n := Load(Param("n"), reg.RDX).(reg.GPPhysical)
	grid, table := Load(Param("grid"), reg.R8), i.actTable()
	open, bits := reg.RAX, reg.RBX
	MOVQ(n, reg.RCX)
	XORQ(open, open)
	Label("eight" + name)
	all := i.sideBySide(i.halves(), grid, table,
		func(h int, to reg.VecPhysical) { VMOVUPD(Mem{Base: src, Disp: h * i.vector()}, to) })
	eval(all...)
	results(all)
	for h, k := range all {
		k.guard(exact, reg.EBX)
		VMOVUPD(k.x, Mem{Base: dst, Disp: h * i.vector()})
		SHRQ(Imm(uint64(i.lanes)), open)
		SHLQ(Imm(uint64(64-i.lanes)), bits)
		ORQ(bits, open)
	}
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight" + name))
	NEGQ(reg.RCX) // from the top to the bottom: 64-n bits
	SHRQ(reg.CL, open)
	VZEROUPPER()
	Store(open, ReturnIndex(0))
	RET()
}

// expBelow writes e^(x-top) of n numbers, eight at a time: no guard.
func (i isa) expBelow() {
	name := "expBelow" + i.name
	TEXT(name, NOSPLIT, "func(dst, src *float64, n int, top float64)")
	Doc(name + " is Act.ExpBelow: see asm/act.go.")
	dst := Load(Param("dst"), reg.RDI).(reg.GPPhysical)
	src := Load(Param("src"), reg.RSI).(reg.GPPhysical)
	n := Load(Param("n"), reg.RDX).(reg.GPPhysical)
	top, table := i.wide[15], i.actTable()
	VBROADCASTSD(mustParam("top"), top)
	Label("eight" + name)
	all := i.sideBySide(i.halves(), nil, table,
		func(h int, to reg.VecPhysical) { VMOVUPD(Mem{Base: src, Disp: h * i.vector()}, to) })
	e := make([]*actExp, len(all))
	for h, k := range all {
		VSUBPD(top, k.x, k.x)
		k.load(cShallow, k.y)
		VMAXPD(k.y, k.x, k.x)
		e[h] = k.reduceTo(k.y, k.register(), k.x, cPerLn2, cLn2, cExp, nil)
	}
	steps(all, e)
	for h, k := range all {
		k.exp(e[h])
		VMOVUPD(e[h].q, Mem{Base: dst, Disp: h * i.vector()})
	}
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), dst)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("eight" + name))
	VZEROUPPER()
	RET()
}

func (k *actKernel) register() reg.VecPhysical {
	r := k.free[0]
	k.free = k.free[1:]
	return r
}

// Constants of the functions and of the format. AVX2, which cannot broadcast
// operands, has the former as vectors.
func (k *actKernel) c(at int) Mem {
	if k.lanes == 8 {
		return Mem{Base: k.table, Disp: at}
	}
	return Mem{Base: k.table, Disp: at * k.lanes}
}
func (k *actKernel) g(at int) Mem { return Mem{Base: k.grid, Disp: at} }

// with writes an operation on a number in memory, the same for all lanes.
func (k *actKernel) with(plain, broadcast func(...Op), m Mem, rest ...Op) {
	if k.lanes == 8 {
		broadcast(append([]Op{m}, rest...)...)
		return
	}
	if m.Base != k.table {
		VBROADCASTSD(m, k.wide[15])
		plain(append([]Op{k.wide[15]}, rest...)...)
		return
	}
	plain(append([]Op{m}, rest...)...)
}

// guard rounds the ends of y's interval, sets x to the rounded number but where
// that is open, and bits to those lanes.
func (k *actKernel) guard(exact bool, bits reg.Register) {
	m, c, lo, hi := k.register(), k.register(), k.register(), k.register()
	k.size(VMAXPD, greater, k.g(gLeast), k.y, m)
	k.with(VANDPD, VANDPD_BCST, k.c(cExponent), m, c)
	k.with(VPADDQ, VPADDQ_BCST, k.g(gShift), c, c)
	if exact {
		VADDPD(k.y, c, lo)
	} else {
		VMOVAPD(c, lo)
		VMOVAPD(c, hi)
		k.with(VFMADD231PD, VFMADD231PD_BCST, k.g(gLow), k.y, lo)
		k.with(VFMADD231PD, VFMADD231PD_BCST, k.g(gHigh), k.y, hi)
	}
	const equal, less = 0, 17 // ordered, quiet
	if k.lanes == 8 {
		VCMPPD_BCST(Imm(less), k.g(gLimit), m, reg.K1)
		if exact { // y = y, unless it is NaN
			VCMPPD(Imm(equal), k.y, k.y, reg.K1, reg.K1)
		} else {
			VCMPPD(Imm(equal), hi, lo, reg.K1, reg.K1)
		}
		VSUBPD(c, lo, reg.K1, k.x)
		VPTERNLOGQ_BCST(Imm(0xf8), k.c(cSign), k.y, reg.K1, k.x) // x | y & sign
		KMOVB(reg.K1, bits)
		XORL(Imm(255), bits)
		return
	}
	if exact {
		VCMPPD(Imm(equal), k.y, k.y, hi)
	} else {
		VCMPPD(Imm(equal), hi, lo, hi)
	}
	VBROADCASTSD(k.g(gLimit), k.wide[15])
	VCMPPD(Imm(less), k.wide[15], m, m)
	VANDPD(m, hi, hi)
	VSUBPD(c, lo, lo)
	VANDPD(k.c(cSign), k.y, k.y)
	VORPD(k.y, lo, lo)
	VBLENDVPD(hi, lo, k.x, k.x)
	VMOVMSKPD(hi, bits)
	XORL(Imm(15), bits)
}

// Selections of VRANGEPD, of absolute values.
const (
	lesser  = 2 | 2<<2 // the lesser of the two
	greater = 3 | 2<<2 // the greater
	within  = 2        // the lesser, with the sign of the first
)

// size sets to to the lesser or greater of |from| and a positive number in
// memory; a NaN is lost.
func (k *actKernel) size(which func(...Op), selection uint64, m Mem, from, to reg.VecPhysical) {
	if k.lanes == 8 {
		VRANGEPD_BCST(Imm(selection), m, from, to)
		return
	}
	VANDPD(k.c(cAbs), from, to)
	k.with(which, nil, m, to, to)
}

// cut brings v within the arguments of the exponential; a NaN is lost.
func (k *actKernel) cut(v, to reg.VecPhysical) {
	if k.lanes == 8 {
		VRANGEPD_BCST(Imm(within), k.c(cSteep), v, to)
		return
	}
	k.with(VMINPD, VMINPD_BCST, k.c(cSteep), v, to)
	k.with(VMAXPD, VMAXPD_BCST, k.c(cShallow), to, to)
}

func (k *actKernel) identity() { VMOVAPD(k.x, k.y) }

// relu is max(0, x), which is x for equal operands and for a NaN.
func (k *actKernel) relu() {
	VXORPD(k.y, k.y, k.y)
	VMAXPD(k.x, k.y, k.y)
}

// gelu is asm.ActGELU. The polynomials, two for each register, are written side by
// side, to keep chains of operations going.
func gelu(all ...*actKernel) {
	if len(all)*7 > len(all[0].wide) {
		geluInFour(all...)
		return
	}
	z, f, e := make([]reg.VecPhysical, len(all)), make([]reg.VecPhysical, len(all)), make([]*actExp, len(all))
	for i, k := range all {
		a := k.register()
		z[i], f[i] = k.register(), k.register()
		k.size(VMINPD, lesser, k.c(cFar), k.x, a)
		k.with(VADDPD, VADDPD_BCST, k.c(cCenter), a, z[i])
		VDIVPD(z[i], a, z[i])
		VMULPD(a, a, a)
		e[i] = k.reduce(a, cHalfPerLn2, cTwoLn2, cGauss)
		k.load(cMills+8*(millsTerms-1), f[i])
	}
	for term := millsTerms - 2; term >= 0; term-- {
		for i, k := range all {
			k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cMills+8*term), z[i], f[i])
			e[i].step(k)
		}
	}
	for i, k := range all {
		k.exp(e[i])
		VMULPD(z[i], f[i], f[i])
		VMULPD(e[i].q, f[i], f[i])
		VXORPD(k.y, k.y, k.y)
		VMAXPD(k.x, k.y, k.y)
		VSUBPD(f[i], k.y, k.y)
	}
}

// geluInFour is gelu in four registers each: k waits on the stack while the
// polynomials are evaluated, and x is read again.
func geluInFour(all ...*actKernel) {
	stack, f, e := AllocLocal(len(all)*all[0].vector()), make([]reg.VecPhysical, len(all)), make([]*actExp, len(all))
	wait := func(i int) Mem { return stack.Offset(i * all[0].vector()) }
	for i, k := range all {
		a, z := k.x, k.y
		f[i] = k.register()
		k.size(VMINPD, lesser, k.c(cFar), a, a)
		k.with(VADDPD, VADDPD_BCST, k.c(cCenter), a, z)
		VDIVPD(z, a, z)
		VMULPD(a, a, a)
		q := k.register()
		e[i] = k.reduceTo(q, q, a, cHalfPerLn2, cTwoLn2, cGauss, func() { VMOVUPD(q, wait(i)) })
		k.load(cMills+8*(millsTerms-1), f[i])
	}
	for term := millsTerms - 2; term >= 0; term-- {
		for i, k := range all {
			k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cMills+8*term), k.y, f[i])
			e[i].step(k)
		}
	}
	for i, k := range all {
		e[i].k = e[i].r // which is not needed after
		k.exp(e[i], func() { VMOVUPD(wait(i), e[i].k) })
		VMULPD(k.y, f[i], f[i])
		VMULPD(e[i].q, f[i], f[i])
		k.read(k.x)
		VXORPD(k.y, k.y, k.y)
		VMAXPD(k.x, k.y, k.y)
		VSUBPD(f[i], k.y, k.y)
	}
}

// geluNear is asm.ActGELUNear.
func geluNear(all ...*actKernel) {
	w := make([]reg.VecPhysical, len(all))
	for i, k := range all {
		w[i] = k.register()
		k.load(cNear, w[i])
		VFMADD231PD(k.x, k.x, w[i])
		k.load(cPhi+8*(phiTerms-1), k.y)
	}
	for term := phiTerms - 2; term >= 0; term-- {
		for i, k := range all {
			k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cPhi+8*term), w[i], k.y)
		}
	}
	for _, k := range all {
		k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cHalf), k.x, k.y)
		VMULPD(k.x, k.y, k.y)
	}
}

// erf is asm.ActErf. There is no kernel for rows, whose guard for float32 numbers knows no limit.
func erf(all ...*actKernel) {
	w := make([]reg.VecPhysical, len(all))
	for i, k := range all {
		w[i] = k.register()
		VADDPD(k.x, k.x, w[i])
		k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cNear), k.x, w[i])
		k.load(cPhi+8*(phiTerms-1), k.y)
	}
	for term := phiTerms - 2; term >= 0; term-- {
		for i, k := range all {
			k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cPhi+8*term), w[i], k.y)
		}
	}
	for i, k := range all {
		VMULPD(k.x, k.y, k.y)
		k.with(VMULPD, VMULPD_BCST, k.c(cErfScale), k.y, k.y)
		k.size(VMAXPD, greater, k.c(cErfFar), k.x, w[i])
		k.with(VSUBPD, VSUBPD_BCST, k.c(cErfFar), w[i], w[i])
		k.with(VMULPD, VMULPD_BCST, k.c(cHuge), w[i], w[i])
		k.with(VADDPD, VADDPD_BCST, k.c(cOne), w[i], w[i])
		VMULPD(w[i], k.y, k.y)
	}
}

// geluTanh is asm.ActGELUTanh.
func geluTanh(all ...*actKernel) {
	e := make([]*actExp, len(all))
	for i, k := range all {
		s, v := k.register(), k.register()
		VMULPD(k.x, k.x, s)
		k.load(cAlpha, v)
		k.with(VFMADD231PD, VFMADD231PD_BCST, k.c(cBeta), s, v)
		VMULPD(k.x, v, v)
		k.cut(v, v)
		e[i] = k.reduce(v, cPerLn2, cLn2, cExp)
	}
	quotient(all, e)
}

// silu is asm.ActSiLU.
func silu(all ...*actKernel) {
	e := make([]*actExp, len(all))
	for i, k := range all {
		v := k.register()
		k.cut(k.x, v)
		e[i] = k.reduce(v, -1, cLn2, cExp)
	}
	quotient(all, e)
}

// sigmoid is asm.ActSigmoid. A NaN stays one: of two operands of which one is NaN the greater and the lesser are the
// second.
func sigmoid(all ...*actKernel) {
	e := make([]*actExp, len(all))
	for i, k := range all {
		v := k.register()
		k.load(cSteep, k.y)
		VMINPD(k.x, k.y, v)
		k.load(cShallow, k.y)
		VMAXPD(v, k.y, v)
		e[i] = k.reduce(v, -1, cLn2, cExp)
	}
	steps(all, e)
	for i, k := range all {
		k.exp(e[i])
		k.with(VADDPD, VADDPD_BCST, k.c(cOne), e[i].q, e[i].q)
		VXORPD(k.y, k.y, k.y)
		k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cOne), e[i].r, k.y) // 0 r + 1
		VDIVPD(e[i].q, k.y, k.y)
	}
}

// quotient sets y to x/(1 + e).
func quotient(all []*actKernel, e []*actExp) {
	steps(all, e)
	for i, k := range all {
		k.exp(e[i])
		k.with(VADDPD, VADDPD_BCST, k.c(cOne), e[i].q, e[i].q)
		VDIVPD(e[i].q, k.x, k.y)
	}
}

// steps adds all terms to the polynomials, side by side.
func steps(all []*actKernel, e []*actExp) {
	for e[0].term >= 0 {
		for i, k := range all {
			e[i].step(k)
		}
	}
}

// tanh is asm.ActTanh. A NaN stays one: of two operands of which one is NaN the
// maximum is the second.
func tanh(all ...*actKernel) {
	t, e := make([]reg.VecPhysical, len(all)), make([]*actExp, len(all))
	for i, k := range all {
		v := k.register()
		t[i] = k.register()
		k.with(VANDPD, VANDPD_BCST, k.c(cAbs), k.x, v)
		k.with(VMULPD, VMULPD_BCST, k.c(cTwo), v, v)
		k.load(cShallow, t[i])
		VMAXPD(v, t[i], v)
		e[i] = k.reduce(v, cPerLn2, cLn2, cExp)
	}
	steps(all, e)
	for i, k := range all {
		k.tanhOf(e[i], t[i])
	}
}

// tanhOf finishes tanh.
func (k *actKernel) tanhOf(e *actExp, t reg.VecPhysical) {
	v := e.r
	VMULPD(e.r, e.q, e.q)
	VPSLLQ(Imm(52), e.k, e.k)
	k.with(VPADDQ, VPADDQ_BCST, k.c(cOne), e.k, e.k)
	k.with(VSUBPD, VSUBPD_BCST, k.c(cOne), e.k, t)
	VFMADD231PD(e.k, e.q, t)
	k.with(VSUBPD, VSUBPD_BCST, k.c(cTwo), t, v)
	VDIVPD(v, t, t)
	// The size of t, the sign of x.
	if k.lanes == 8 {
		VMOVAPD(t, k.y)
		VPTERNLOGQ_BCST(Imm(0xd8), k.c(cSign), k.x, k.y)
		return
	}
	k.with(VANDPD, VANDPD_BCST, k.c(cAbs), t, t)
	k.with(VANDPD, VANDPD_BCST, k.c(cSign), k.x, k.y)
	VORPD(t, k.y, k.y)
}

func (k *actKernel) load(at int, to reg.VecPhysical) {
	if k.lanes == 8 {
		VBROADCASTSD(k.c(at), to)
		return
	}
	VMOVUPD(k.c(at), to)
}

// actExp is an exponential in the making: k in the low bits of its register, r,
// and the polynomial q, whose constant is at terms, down to a term.
type actExp struct {
	k, r, q reg.VecPhysical
	terms   int
	term    int
}

// reduce sets k = v times a constant, rounded, and r = v - k times another one;
// r takes v's place. Without the first constant it is that for -v, r too.
func (k *actKernel) reduce(v reg.VecPhysical, perStep, step, terms int) *actExp {
	return k.reduceTo(k.register(), k.register(), v, perStep, step, terms, nil)
}

// reduceTo is reduce with the registers of k and q. If those are one, save puts k
// away.
func (k *actKernel) reduceTo(to, q, v reg.VecPhysical, perStep, step, terms int, save func()) *actExp {
	e := &actExp{k: to, r: v, q: q, terms: terms, term: expTerms - 2}
	k.load(cRound, e.k)
	if perStep >= 0 {
		k.with(VFMADD231PD, VFMADD231PD_BCST, k.c(perStep), v, e.k)
	} else {
		k.with(VFNMADD231PD, VFNMADD231PD_BCST, k.c(cPerLn2), v, e.k)
	}
	if save != nil {
		save()
	}
	k.with(VSUBPD, VSUBPD_BCST, k.c(cRound), e.k, e.q)
	if perStep >= 0 {
		k.with(VFNMADD231PD, VFNMADD231PD_BCST, k.c(step), e.q, v)
	} else {
		k.with(VFNMSUB231PD, VFNMSUB231PD_BCST, k.c(step), e.q, v)
	}
	k.load(terms+8*(expTerms-1), e.q)
	return e
}

// step adds a term to q, unless all are there.
func (e *actExp) step(k *actKernel) {
	if e.term >= 0 {
		k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(e.terms+8*e.term), e.r, e.q)
		e.term--
	}
}

// exp finishes: q becomes 2^k (1 + r q). Others bring k back between the two.
func (k *actKernel) exp(e *actExp, others ...func()) {
	k.with(VFMADD213PD, VFMADD213PD_BCST, k.c(cOne), e.r, e.q)
	for _, bring := range others {
		bring()
	}
	VPSLLQ(Imm(52), e.k, e.k)
	VPADDQ(e.k, e.q, e.q)
}
