package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bytesKernels writes the kernels of Bytes, for AVX2 and F16C, and used with AVX-512 too.
func bytesKernels() {
	nan := spread("bytesNaN", 8, 0x7fc00000)
	one, almost := spread("bytesOne", 8, 1), spread("bytesAlmost", 8, 0x7fff)
	bytesFloat32(nan)
	bytesHalf("Float16", func(x, t reg.VecPhysical, to Mem) {
		VCVTPS2PH(Imm(0), x, to)
	})
	bytesHalf("BFloat16", func(x, t reg.VecPhysical, to Mem) {
		VPSRLD(Imm(16), x, t) // to nearest even by a carry; no NaN is here
		VPAND(one, t, t)
		VPADDD(almost, t, t)
		VPADDD(t, x, x)
		VPSRLD(Imm(16), x, x)
		VPACKUSDW(x, x, x)
		VPERMQ(Imm(0x08), x, x)
		VMOVDQU(x.AsX(), to)
	})
	bytesSort()
	bytesAdler()
}

// spread places n words of 32 bits that are all one in memory.
func spread(name string, n int, w uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range n {
		DATA(4*i, U32(w))
	}
	return m
}

func bytesFloat32(nan Mem) {
	TEXT("bytesFloat32AVX2", NOSPLIT, "func(to *byte, x *float64, n int)")
	Pragma("noescape")
	Doc("bytesFloat32AVX2 is Bytes.Float32: see asm/bytes.go.")
	to := Load(Param("to"), GP64()).(reg.GPVirtual)
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	y := ymm()
	VMOVUPS(nan, y[3])
	Label("float32")
	VCVTPD2PSY(Mem{Base: x}, reg.X0)
	VCVTPD2PSY(Mem{Base: x, Disp: 32}, reg.X1)
	VINSERTF128(Imm(1), reg.X1, y[0], y[0])
	VCMPPS(Imm(3), y[0], y[0], y[2]) // NaN
	VBLENDVPS(y[2], y[3], y[0], y[0])
	VMOVUPS(y[0], Mem{Base: to})
	ADDQ(Imm(64), x)
	ADDQ(Imm(32), to)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("float32"))
	VZEROUPPER()
	RET()
}

// bytesHalf writes a kernel to a format of 16 bits; store rounds 8 float32 numbers.
func bytesHalf(format string, store func(x, t reg.VecPhysical, to Mem)) {
	name := "bytes" + format + "AVX2"
	TEXT(name, NOSPLIT, "func(to *byte, x *float64, n int) (done int)")
	Pragma("noescape")
	Doc(name + " is Bytes." + format + ": see asm/bytes.go.")
	to := Load(Param("to"), GP64()).(reg.GPVirtual)
	x := Load(Param("x"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	same, done := GP32(), GP64()
	y := ymm()
	XORQ(done, done)
	Label("half")
	for k := range 2 {
		VMOVUPD(Mem{Base: x, Disp: 32 * k}, y[4+k])
		VCVTPD2PSY(y[4+k], y[k].(reg.Vec).AsX())
		VCVTPS2PD(y[k].(reg.Vec).AsX(), y[6+k])
		VCMPPD(Imm(0), y[4+k], y[6+k], y[6+k])
	}
	VANDPD(y[6], y[7], y[6])
	VMOVMSKPD(y[6], same)
	CMPL(same, Imm(15))
	JNE(LabelRef("end"))
	VINSERTF128(Imm(1), reg.X1, y[0], y[0])
	store(y[0], y[2], Mem{Base: to})
	ADDQ(Imm(64), x)
	ADDQ(Imm(16), to)
	ADDQ(Imm(8), done)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("half"))
	Label("end")
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}

func bytesSort() {
	gather := GLOBL("bytesGather", RODATA|NOPTR) // of four words the first bytes, and so on
	for i := range 8 {
		w := uint32(i % 4)
		DATA(4*i, U32(w|(w+4)<<8|(w+8)<<16|(w+12)<<24))
	}
	turn := GLOBL("bytesTurn", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(i/2+i%2*4))
	}
	TEXT("bytesSortAVX2", NOSPLIT, "func(to *byte, apart int, from *byte, n int)")
	Pragma("noescape")
	Doc("bytesSortAVX2 is Bytes.Sort: see asm/bytes.go.")
	planes := [4]reg.GPVirtual{Load(Param("to"), GP64()).(reg.GPVirtual), GP64(), GP64(), GP64()}
	apart := Load(Param("apart"), GP64()).(reg.GPVirtual)
	from := Load(Param("from"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	for k := 1; k < 4; k++ {
		MOVQ(planes[k-1], planes[k])
		ADDQ(apart, planes[k])
	}
	y := ymm()
	VMOVDQU(gather, y[8])
	VMOVDQU(turn, y[9])
	Label("sort")
	for k := range 4 {
		VMOVDQU(Mem{Base: from, Disp: 32 * k}, y[k])
		VPSHUFB(y[8], y[k], y[k])
	}
	// Words of each half: plane 0 to 3 of a register. Planes 0 and 1 of two registers, then
	// one plane of all four; in the end the halves take turns.
	VPUNPCKLDQ(y[1], y[0], y[4])
	VPUNPCKLDQ(y[3], y[2], y[5])
	VPUNPCKHDQ(y[1], y[0], y[6])
	VPUNPCKHDQ(y[3], y[2], y[7])
	VPUNPCKLQDQ(y[5], y[4], y[0])
	VPUNPCKHQDQ(y[5], y[4], y[1])
	VPUNPCKLQDQ(y[7], y[6], y[2])
	VPUNPCKHQDQ(y[7], y[6], y[3])
	for k, p := range planes {
		VPERMD(y[k], y[9], y[k])
		VMOVDQU(y[k], Mem{Base: p})
		ADDQ(Imm(32), p)
	}
	ADDQ(Imm(128), from)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("sort"))
	VZEROUPPER()
	RET()
}

// bytesAdler: of 32 bytes b[0] to b[31] the first sum grows by all of them, and the second one by
// 32 times the first sum before and 32 b[0] + 31 b[1] + ... + b[31].
func bytesAdler() {
	weights := GLOBL("bytesWeights", RODATA|NOPTR)
	for i := range 32 {
		DATA(i, U8(32-i))
	}
	ones := GLOBL("bytesOnes", RODATA|NOPTR)
	for i := range 16 {
		DATA(2*i, U16(1))
	}
	TEXT("bytesAdlerAVX2", NOSPLIT, "func(sums *[2]uint64, p *byte, n int)")
	Pragma("noescape")
	Doc("bytesAdlerAVX2 is Bytes.Adler: see asm/bytes.go.")
	sums := Load(Param("sums"), GP64()).(reg.GPVirtual)
	p := Load(Param("p"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	y := ymm()
	first, before, second, zero := y[0], y[1], y[2], y[3]
	VMOVQ(Mem{Base: sums}, reg.X0) // in the first of four lanes of 64 bits
	VPXOR(before, before, before)
	VPXOR(second, second, second)
	VPXOR(zero, zero, zero)
	VMOVDQU(weights, y[6])
	VMOVDQU(ones, y[7])
	Label("adler")
	VPADDQ(first, before, before)
	VMOVDQU(Mem{Base: p}, y[4])
	VPSADBW(zero, y[4], y[5])
	VPADDQ(y[5], first, first)
	VPMADDUBSW(y[6], y[4], y[4])
	VPMADDWD(y[7], y[4], y[4])
	VPADDD(y[4], second, second)
	ADDQ(Imm(32), p)
	SUBQ(Imm(32), n)
	JNZ(LabelRef("adler"))
	VPSLLQ(Imm(5), before, before)
	VPUNPCKLDQ(zero, second, y[4])
	VPUNPCKHDQ(zero, second, y[5])
	VPADDQ(y[4], before, before)
	VPADDQ(y[5], before, before)
	a := GP64()
	for k, r := range []reg.VecPhysical{first, before} {
		VEXTRACTI128(Imm(1), r, reg.X4)
		VPADDQ(reg.X4, r.AsX(), reg.X4)
		VPSHUFD(Imm(0x4e), reg.X4, reg.X5)
		VPADDQ(reg.X5, reg.X4, reg.X4)
		VMOVQ(reg.X4, a)
		if k == 0 {
			MOVQ(a, Mem{Base: sums})
		} else {
			ADDQ(a, Mem{Base: sums, Disp: 8})
		}
	}
	VZEROUPPER()
	RET()
}
