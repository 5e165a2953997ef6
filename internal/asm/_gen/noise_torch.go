package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of package noise, torch_normal.go.
var (
	cephesLogP = []float32{7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1}
	cephesCosP = []float32{2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2}
	cephesSinP = []float32{-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1}
	cephesPi4  = []float32{-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8}
)

const (
	cephesLn2Hi    = 0.693359375
	cephesLn2Lo    = -2.12194440e-4
	cephes4Pi      = 1.27323954473516
	cephesRootHalf = 0x3f3504f3
)

// twice is a word of 32 bits in both halves of 64.
func twice(w uint32) uint64 { return uint64(w)<<32 | uint64(w) }

func (t *table) floats32(all ...float32) {
	for _, c := range all {
		t.words(twice(math.Float32bits(c)))
	}
}

func (i isa) float32(c float32) Mem { return i.bits(twice(math.Float32bits(c))) }

func torchConstants(t *table) {
	for _, p := range [][]float32{cephesLogP, cephesCosP, cephesSinP, cephesPi4, {
		cephesLn2Hi, cephesLn2Lo, cephes4Pi, 2 * math.Pi, 1, -0.5, -2, 0,
	}} {
		t.floats32(p...)
	}
	t.words(twice(cephesRootHalf), twice(1), twice(2), twice(1<<32-2), twice(1<<31))
}

// torchNormal makes normals of uniforms, as package noise does in normalBlock,
// eight float32 numbers a register. Where that has fma, this fuses.
//
//	dst     blocks of 16 multiples of 2^-24 in [0,1); the normals take their place
//	blocks  1 or more
//	std     the standard deviation
func torchNormal(i isa) {
	name := "noiseTorchNormal" + i.name
	TEXT(name, NOSPLIT, "func(dst *float64, blocks int, std float32)")
	Pragma("noescape")
	Doc(name + " draws: see asm/noise.go.")
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	y, x := i.wide, i.half
	std, one := y[15], y[14]
	VBROADCASTSS(mustParam("std"), std)
	VMOVUPS(i.float32(1), one)
	horner := func(p []float32, z, v reg.VecPhysical) {
		VMOVUPS(i.float32(p[0]), v)
		for _, c := range p[1:] {
			VFMADD213PS(i.float32(c), z, v)
		}
	}
	Label("loop" + name)
	for k := range 2 {
		VCVTPD2PSY(Mem{Base: dst, Disp: 64 * k}, x[k])
		VCVTPD2PSY(Mem{Base: dst, Disp: 64*k + 32}, x[2])
		VINSERTF128(Imm(1), x[2], y[k], y[k])
	}

	// The logarithm of u, and the radius.
	u, k, e, t, log := y[0], y[2], y[3], y[4], y[5]
	VSUBPS(u, one, u)
	VPSUBD(i.bits(twice(cephesRootHalf)), u, k)
	VPSRAD(Imm(23), k, k)
	VCVTDQ2PS(k, e)
	VPSLLD(Imm(23), k, k)
	VPSUBD(k, u, u)
	VSUBPS(one, u, u) // x
	z := k
	VMULPS(u, u, z)
	VMULPS(i.float32(cephesLn2Lo), e, t)
	horner(cephesLogP, u, log)
	VMULPS(u, log, log)
	VFMADD213PS(t, z, log)
	VFMADD231PS(i.float32(-0.5), z, log)
	VADDPS(u, log, log)
	VFMADD231PS(i.float32(cephesLn2Hi), e, log)
	r := log
	VMULPS(i.float32(-2), log, r)
	VSQRTPS(r, r)

	// Sine and cosine of theta.
	v, j, f := y[1], y[6], y[7]
	VMULPS(i.float32(2*math.Pi), v, v)
	VMULPS(i.float32(cephes4Pi), v, j)
	VCVTTPS2DQ(j, j)
	VPADDD(i.bits(twice(1)), j, j)
	VPAND(i.bits(twice(1<<32-2)), j, j)
	VCVTDQ2PS(j, f)
	for _, c := range cephesPi4 {
		VFMADD231PS(i.float32(c), f, v)
	}
	z, t = y[0], y[2]
	c, s := y[3], y[4]
	VMULPS(v, v, z)
	VMULPS(i.float32(-0.5), z, t)
	horner(cephesCosP, z, c)
	horner(cephesSinP, z, s)
	VMULPS(z, c, c)
	VMULPS(z, s, s)
	VFMADD213PS(t, z, c)
	VFMADD213PS(v, v, s)
	VADDPS(one, c, c)
	swap, sin, cos := y[7], y[8], y[9]
	VPSLLD(Imm(30), j, swap)
	VBLENDVPS(swap, c, s, sin)
	VBLENDVPS(swap, s, c, cos)
	VPSLLD(Imm(29), j, t)
	VPAND(i.bits(twice(1<<31)), t, t)
	VPXOR(t, sin, sin)
	VPSUBD(i.bits(twice(2)), j, j)
	VPSLLD(Imm(29), j, j)
	VPANDN(i.bits(twice(1<<31)), j, j)
	VPXOR(j, cos, cos)

	for k, n := range []int{9, 8} {
		VMULPS(r, y[n], y[n])
		VMULPS(std, y[n], y[n])
		VADDPS(i.float32(0), y[n], y[n]) // makes +0 of -0
		VCVTPS2PD(x[n], y[0])
		VMOVUPD(y[0], Mem{Base: dst, Disp: 64 * k})
		VEXTRACTF128(Imm(1), y[n], x[1])
		VCVTPS2PD(x[1], y[1])
		VMOVUPD(y[1], Mem{Base: dst, Disp: 64*k + 32})
	}
	ADDQ(U32(128), dst)
	DECQ(blocks)
	JNZ(LabelRef("loop" + name))
	VZEROUPPER()
	RET()
}
