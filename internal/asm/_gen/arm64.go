package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
)

// arm64 writes the NEON kernels, as text: avo knows amd64 only. They do the
// operations of the amd64 kernels in the same order, on two lanes.
func arm64() {
	n := &neon{constants: "winogradNEONConstants"}
	n.input()
	n.multiply()
	for _, f := range []format{float32Out, float16Out, bfloat16Out} {
		n.output(f)
	}
	n.dot()
	n.packLine()
	n.unpackLine()
	n.write("../winograd_arm64")

	n = &neon{constants: "directNEONConstants"}
	for _, f := range []format{float32Out, float16Out, bfloat16Out, float64Out} {
		n.direct(f)
	}
	n.add()
	n.directWiden()
	for _, f := range []format{float32Out, float16Out, bfloat16Out} {
		n.directRound(f)
	}
	n.addSquares()
	n.sumSquares()
	n.write("../direct_arm64")

	n = &neon{constants: "actNEONConstants"}
	for _, f := range neonFunctions {
		n.act(f)
	}
	n.expBelow()
	n.write("../act_arm64")

	n = &neon{constants: "fastNEONConstants", single: true}
	for _, f := range fastForms {
		n.fastInput(f)
		n.fastOutput(f)
	}
	n.fastMultiply()
	n.fastTaps(8)
	n.fastTaps(4)
	n.fastRow(false, true)
	n.fastRow(true, false)
	n.fastRow(true, true)
	n.write("../fast_arm64")

	n = &neon{constants: "singlesNEONConstants"}
	n.singles()
	n.write("../singles_arm64")

	n = &neon{constants: "normNEONConstants"}
	n.top()
	n.sums()
	for _, f := range []format{float32Out, float16Out, bfloat16Out} {
		n.apply(f)
	}
	n.write("../norm_arm64")
}

// v is a vector register: V in Go's vector instructions, F in its loads.
type v int

func (r v) String() string     { return fmt.Sprintf("V%d", int(r)) }
func (r v) f() string          { return fmt.Sprintf("F%d", int(r)) }
func (r v) as(t string) string { return fmt.Sprintf("V%d.%s", int(r), t) }

// neon is a file of kernels under construction. Operands are in the order of
// Go's assembler, the result last.
type neon struct {
	text, stubs strings.Builder
	single      bool        // numbers are float32, four of a register
	constants   string      // their symbol
	pairs       [][2]uint64 // the constants
}

// function begins one, and loads its arguments, 8 bytes each: the first into R0,
// the second into R1, and so on; only a float64 goes into V12 instead. It returns
// where a result would be.
func (n *neon) function(name, arguments, results, doc string) int {
	list := strings.Split(arguments, ", ")
	size := 8 * len(list)
	signature := fmt.Sprintf("func %s(%s)%s", name, arguments, results)
	fmt.Fprintf(&n.stubs, "\n// %s %s\n//\n//go:noescape\n%s\n", name, doc, signature)
	fmt.Fprintf(&n.text, "\n// %s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", signature, name, size+8*min(len(results), 1))
	for i, a := range list {
		a, kind, _ := strings.Cut(a, " ")
		if kind == "float64" {
			n.op("FMOVD %s+%d(FP), F12", a, 8*i)
			continue
		}
		n.op("MOVD %s+%d(FP), R%d", a, 8*i, i)
	}
	return size
}

// op appends a line in the words of Go's assembler.
func (n *neon) op(line string, args ...any) {
	fmt.Fprintf(&n.text, "\t"+line+"\n", args...)
}

func (n *neon) label(name string) { fmt.Fprintf(&n.text, "\n%s:\n", name) }

// word appends an instruction that Go's assembler does not know. What it means
// is said by a decoder, and want is what was meant.
func (n *neon) word(code uint32, want string) {
	if got := decode(code); got != want {
		log.Fatalf("%#08x is %q, want %q", code, got, want)
	}
	n.op("WORD $%#08x // %s", code, want)
}

func decode(code uint32) string {
	i, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, code))
	if err != nil {
		return err.Error()
	}
	return arm64asm.GNUSyntax(i)
}

// three appends an instruction of two vectors, d = op(l, r): its code for float64.
func (n *neon) three(code uint32, name string, l, r, d v) {
	as := "2d"
	if n.single {
		as, code = "4s", code&^(1<<22)
	}
	n.word(code|uint32(r)<<16|uint32(l)<<5|uint32(d), fmt.Sprintf("%s v%d.%s, v%d.%s, v%d.%s", name, d, as, l, as, r, as))
}

func (n *neon) fadd(l, r, d v)  { n.three(0x4e60d400, "fadd", l, r, d) }
func (n *neon) fsub(l, r, d v)  { n.three(0x4ee0d400, "fsub", l, r, d) } // l - r
func (n *neon) fmul(l, r, d v)  { n.three(0x6e60dc00, "fmul", l, r, d) }
func (n *neon) fmla(l, r, d v)  { n.three(0x4e60cc00, "fmla", l, r, d) } // d += l r
func (n *neon) fmls(l, r, d v)  { n.three(0x4ee0cc00, "fmls", l, r, d) } // d -= l r
func (n *neon) fcmeq(l, r, d v) { n.three(0x4e60e400, "fcmeq", l, r, d) }
func (n *neon) cmhs(l, r, d v)  { n.three(0x6ee03c00, "cmhs", l, r, d) } // l >= r, no sign

// bic clears the bits of r in l.
func (n *neon) bic(l, r, d v) {
	n.word(0x4e601c00|uint32(r)<<16|uint32(l)<<5|uint32(d), fmt.Sprintf("bic v%d.16b, v%d.16b, v%d.16b", d, l, r))
}

// lane is one number of a register.
type lane struct {
	v v
	i int
}

// by appends an instruction of a vector and one number: its code for float64.
func (n *neon) by(code uint32, name string, l v, k lane, d v) {
	if n.single {
		n.word(code&^(1<<22)|uint32(k.i>>1)<<11|uint32(k.i&1)<<21|uint32(k.v)<<16|uint32(l)<<5|uint32(d),
			fmt.Sprintf("%s v%d.4s, v%d.4s, v%d.s[%d]", name, d, l, k.v, k.i))
		return
	}
	n.word(code|uint32(k.i)<<11|uint32(k.v)<<16|uint32(l)<<5|uint32(d),
		fmt.Sprintf("%s v%d.2d, v%d.2d, v%d.d[%d]", name, d, l, k.v, k.i))
}

func (n *neon) fmlaBy(l v, k lane, d v) { n.by(0x4fc01000, "fmla", l, k, d) } // d += l k
func (n *neon) fmlsBy(l v, k lane, d v) { n.by(0x4fc05000, "fmls", l, k, d) } // d -= l k
func (n *neon) fmulBy(l v, k lane, d v) { n.by(0x4fc09000, "fmul", l, k, d) }

func (n *neon) fabs(s, d v) {
	n.word(0x4ee0f800|uint32(s)<<5|uint32(d), fmt.Sprintf("fabs v%d.2d, v%d.2d", d, s))
}

// widen makes float64 numbers of the lower float32 numbers, or the upper.
func (n *neon) widen(s, d v) {
	n.word(0x0e617800|uint32(s)<<5|uint32(d), fmt.Sprintf("fcvtl v%d.2d, v%d.2s", d, s))
}

func (n *neon) widenUpper(s, d v) {
	n.word(0x4e617800|uint32(s)<<5|uint32(d), fmt.Sprintf("fcvtl2 v%d.2d, v%d.4s", d, s))
}

// narrow rounds to float32, into the lower half with zeros above; narrowUpper
// into the upper half, and leaves the lower.
func (n *neon) narrow(s, d v) {
	n.word(0x0e616800|uint32(s)<<5|uint32(d), fmt.Sprintf("fcvtn v%d.2s, v%d.2d", d, s))
}

func (n *neon) narrowUpper(s, d v) {
	n.word(0x4e616800|uint32(s)<<5|uint32(d), fmt.Sprintf("fcvtn2 v%d.4s, v%d.2d", d, s))
}

func (n *neon) move(s, d v) { n.op("VMOV %s, %s", s.as("B16"), d.as("B16")) }
func (n *neon) zero(d v)    { n.op("VEOR %s, %s, %s", d.as("B16"), d.as("B16"), d.as("B16")) }

func (n *neon) load(base string, at int, d v)  { n.op("FMOVQ %d(%s), %s", at, base, d.f()) }
func (n *neon) store(s v, base string, at int) { n.op("FMOVQ %s, %d(%s)", s.f(), at, base) }

// two registers at once, at one address.
func (n *neon) load2(base string, at int, d, e v) {
	n.op("FLDPQ %d(%s), (%s, %s)", at, base, d.f(), e.f())
}
func (n *neon) store2(s, t v, base string, at int) {
	n.op("FSTPQ (%s, %s), %d(%s)", s.f(), t.f(), at, base)
}

// constant sets d to two words of memory.
func (n *neon) constant(lo, hi uint64, d v) {
	i := slices.Index(n.pairs, [2]uint64{lo, hi})
	if i < 0 {
		i, n.pairs = len(n.pairs), append(n.pairs, [2]uint64{lo, hi})
	}
	n.op("MOVD $%s<>(SB), R19", n.constants)
	n.load("R19", 16*i, d)
}

func (n *neon) floats(lo, hi float64, d v) {
	n.constant(math.Float64bits(lo), math.Float64bits(hi), d)
}

// transpose exchanges the 4x4 float32 numbers of r, by way of t.
func (n *neon) transpose(r, t [4]v) {
	trn := func(i int, x, y v, as string, d v) { n.op("VTRN%d %s, %s, %s", i, y.as(as), x.as(as), d.as(as)) }
	trn(1, r[0], r[1], "S4", t[0])
	trn(2, r[0], r[1], "S4", t[1])
	trn(1, r[2], r[3], "S4", t[2])
	trn(2, r[2], r[3], "S4", t[3])
	trn(1, t[0], t[2], "D2", r[0])
	trn(1, t[1], t[3], "D2", r[1])
	trn(2, t[0], t[2], "D2", r[2])
	trn(2, t[1], t[3], "D2", r[3])
}

// write writes the kernels and their declarations.
func (n *neon) write(path string) {
	const head = "// Code generated by command: go run . -kernels arm64. DO NOT EDIT.\n\n//go:build !purego\n\n"
	var data strings.Builder
	for i, p := range n.pairs {
		for j, w := range p {
			fmt.Fprintf(&data, "DATA %s<>+%d(SB)/8, $%#016x\n", n.constants, 16*i+8*j, w)
		}
	}
	fmt.Fprintf(&data, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", n.constants, 16*len(n.pairs))
	for name, text := range map[string]string{
		path + ".s":  head + "#include \"textflag.h\"\n\n" + data.String() + n.text.String(),
		path + ".go": head + "package asm\n" + n.stubs.String(),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
