package main

import (
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The interpolation points of F(4x4,3x3) beside 0 and infinity: +-a and +-b.
const (
	a = 5.0 / 8
	b = 13.0 / 8
)

// form is one of the minimal convolutions F(MxM,KxK) of asm.Form.
type form struct {
	name   string    // in the names of its kernels
	taps   int       // K
	tile   int       // M
	points []float64 // p_1 ... p_k: the points are +-p_1 ... +-p_k and infinity, and 0 if there are 2k+2
}

var forms = []form{
	{"", 3, 4, []float64{a, b}},
	{"5x5", 5, 4, []float64{1.0 / 2, 1, 2}},
	{"7x7", 7, 4, []float64{3.0 / 8, 3.0 / 4, 5.0 / 4, 3}},
}

// side is that of a window, and the number of points.
func (f form) side() int { return f.taps + f.tile - 1 }

// first is the index of the first pair of points: 1 after 0.
func (f form) first() int { return 1 - f.side()%2 }

// others returns the coefficients of the product of x - q^2 over the q = p_l
// with l not skip, from that of 1 upwards.
func (f form) others(skip int) []float64 {
	c := []float64{1}
	for l, q := range f.points {
		if l == skip {
			continue
		}
		c = append(c, 0)
		for j := len(c) - 1; j >= 0; j-- {
			c[j] *= -q * q
			if j > 0 {
				c[j] += c[j-1]
			}
		}
	}
	return c
}

// constants are all numbers that the transforms multiply by.
func (f form) constants(t *table) {
	for l, p := range f.points {
		t.floats(p, p*p, p*p*p)
		for _, c := range append(f.others(-1), f.others(l)...) {
			t.floats(math.Abs(c))
		}
	}
}

// inputConstants are those of inputLine.
func (f form) inputConstants() (all []float64) {
	list := append([]float64{}, f.points...)
	for l := -1; l < len(f.points); l++ {
		list = append(list, f.others(l)...)
	}
	for _, c := range list {
		if c = math.Abs(c); c != 1 {
			all = append(all, c)
		}
	}
	return all
}

// outputConstants are those of outputLine.
func (f form) outputConstants() (all []float64) {
	for _, p := range f.points {
		all = append(all, p, p*p, p*p*p)
	}
	return all
}

// winograd writes all kernels of asm.Winograd.
func winograd() {
	for _, i := range []isa{avx512, avx2} {
		t := newTable(i, "winograd"+i.name+"Constants")
		for _, f := range forms {
			f.constants(t)
		}
		t.roundings()
		multiply(i, i.tiles)
		if i.tiles > fewTiles {
			multiply(i, fewTiles)
		}
		weigh(i)
		taps(i)
		inWords(i)
		exactPixels(i)
		pixelNorms(i)
		widen(i)
		for _, f := range []format{float32Out, float16Out, bfloat16Out} {
			pixelOutput(i, f)
		}
		for _, f := range forms {
			input(i, f, false)
			inputRow(i, f)
			if f.taps == 3 {
				input(i, f, true)
				wideOutput(i, f)
			}
			outputRow(i, f)
			for _, format := range []format{float32Out, float16Out, bfloat16Out} {
				output(i, f, format)
				outputColumns(i, f, format)
			}
			dot(i, f)
		}
	}
	packLine()
	unpackLine()
}

// rows are pointers to every third of some lines at equal distance.
type rows struct {
	base []reg.GPVirtual
	step reg.GPVirtual
}

func newRows(n int, base, step reg.GPVirtual) rows {
	r := rows{[]reg.GPVirtual{base}, step}
	for i := 3; i < n; i += 3 {
		next := GP64()
		LEAQ(Mem{Base: step, Index: step, Scale: 2}, next)
		ADDQ(r.base[len(r.base)-1], next)
		r.base = append(r.base, next)
	}
	return r
}

// at returns the address of line i displaced by disp.
func (r rows) at(i, disp int) Mem {
	m := Mem{Base: r.base[i/3], Disp: disp}
	if i%3 > 0 {
		m.Index, m.Scale = r.step, uint8(i%3)
	}
	return m
}

// input is the input transform of one tile, B^T d B for 8 channels at a time,
// with n the form's side:
//
//	src     first pixel of the nxn window of channel block 0, float32, 8 channels a pixel
//	line    bytes from a line of pixels to the next
//	image   bytes from a channel block to the next
//	dst     the tile's place in [n*n][blocks][tiles][8]
//	point   bytes from a point to the next
//	blocks  channel blocks, 1 or more
//	scratch n*n vectors
//
// The points of a block are far apart, where no processor foresees that they will be
// written: each is asked for when the block before it is.
//
// The wide one reads float64 numbers.
func input(i isa, f form, wide bool) {
	name, number, size := "winograd"+f.name+"Input"+i.name, "float32", 4
	if wide {
		name, number, size = "winograd"+f.name+"WideInput"+i.name, "float64", 8
	}
	TEXT(name, NOSPLIT, "func(src *"+number+", line, image int, dst *float64, point, blocks int, scratch *float64)")
	Pragma("noescape")
	Doc(name + " transforms the window of one tile: see asm/winograd.go.")
	src := Load(Param("src"), GP64()).(reg.GPVirtual)
	line := Load(Param("line"), GP64()).(reg.GPVirtual)
	image := Load(Param("image"), GP64()).(reg.GPVirtual)
	dst := Load(Param("dst"), GP64()).(reg.GPVirtual)
	point := Load(Param("point"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	scratch := Load(Param("scratch"), GP64()).(reg.GPVirtual)
	v, n := i.vector(), f.side()
	from, to, left := GP64(), GP64(), GP64()
	i.hold(16, len(i.wide), f.inputConstants()...)
	defer release()
	Label(name)
	for h := range i.halves() {
		loop := fmt.Sprint(name, h)
		// Columns, to scratch.
		MOVQ(src, from)
		MOVQ(scratch, to)
		in := newRows(n, from, line)
		MOVQ(U32(uint32(n)), left)
		Label(loop + "columns")
		for y := range n {
			if wide {
				VMOVUPD(in.at(y, h*v), i.wide[y])
			} else {
				VCVTPS2PD(in.at(y, h*v/2), i.wide[y])
			}
		}
		i.inputLine(f, i.wide[n:16], func(y int, r reg.VecPhysical) { VMOVUPD(r, Mem{Base: to, Disp: n * y * v}) })
		for _, p := range in.base {
			ADDQ(Imm(uint64(8*size)), p)
		}
		ADDQ(Imm(uint64(v)), to)
		DECQ(left)
		JNZ(LabelRef(loop + "columns"))
		// Rows, from scratch.
		MOVQ(scratch, from)
		MOVQ(dst, to)
		MOVQ(U32(uint32(n)), left)
		Label(loop + "rows")
		for x := range n {
			VMOVUPD(Mem{Base: from, Disp: x * v}, i.wide[x])
		}
		i.inputLine(f, i.wide[n:16], func(_ int, r reg.VecPhysical) { // one after another
			VMOVUPD(r, Mem{Base: to, Disp: h * v})
			if h == 0 {
				PREFETCHT0(Mem{Base: to, Disp: i.plane()}) // the next block's
			}
			ADDQ(point, to)
		})
		ADDQ(U32(uint32(n*v)), from)
		DECQ(left)
		JNZ(LabelRef(loop + "rows"))
	}
	ADDQ(image, src)
	ADDQ(U32(uint32(i.plane())), dst)
	DECQ(blocks)
	JNZ(LabelRef(name))
	VZEROUPPER()
	RET()
}

// plane is the bytes of one point of a block of channels and a group of tiles.
func (i isa) plane() int { return 8 * i.size() * i.tiles }

// product is the bytes of one point of a group of tiles and of outputs.
func (i isa) product() int { return i.tiles * 2 * i.vector() }

// inputLine stores B^T of d, the first registers, number by number: the values
// of the polynomial's cofactors at 0, p_1, -p_1, ... and infinity. With e and
// f_l the coefficients of the products of x - p^2 over all p and all but p_l,
//
//	r_0 = sum of e_j d_2j        r_infinity = sum of e_j d_(2j+1)
//	r_+-l = sum of f_lj d_(2j+2) +- p_l sum of f_lj d_(2j+1),
//
// from the leading coefficient, 1, downwards: k roundings deep each. Without the point 0
// there is no r_0, and the others begin one number before.
func (i isa) inputLine(f form, free []reg.VecPhysical, store func(r int, v reg.VecPhysical)) {
	n := f.side()
	d, next := i.wide[:n], 0
	sum := func(c []float64, from int) reg.VecPhysical {
		v := free[next%len(free)]
		next++
		j := len(c) - 1
		i.copy(d[from+2*j], v)
		for j--; j >= 0; j-- {
			if c[j] < 0 {
				i.fnma(i.float(-c[j]), d[from+2*j], v)
			} else {
				i.fma(i.float(c[j]), d[from+2*j], v)
			}
		}
		return v
	}
	all, first := f.others(-1), f.first()
	if first == 1 {
		store(0, sum(all, 0))
	}
	for l, p := range f.points {
		c := f.others(l)
		low, plus := sum(c, first), sum(c, first+1)
		minus := free[next%len(free)]
		next++
		i.copy(plus, minus)
		i.fma(i.float(p), low, plus)
		i.fnma(i.float(p), low, minus)
		store(first+2*l, plus)
		store(first+2*l+1, minus)
	}
	store(n-1, sum(all, first))
}

func mustParam(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// fewTiles are the rows of a second block of registers, for images that would leave most
// rows of the first one empty.
const fewTiles = 8

// multiply is the multiplication of one point: m = v u, the channels added in
// order by fused multiply-adds from zero, in sums of chain blocks that are added in
// order.
//
//	v       [groups][blocks][tiles][8], the transformed windows
//	u       [blocks*8][2*lanes], the transformed weights of 2*lanes outputs
//	m       [groups][tiles][2*lanes]
//	next    the weights of the call after it
//	later   memory to be used after it
//
// Weights that are in no near cache are read once and then used by all groups. To ask
// for them when they are needed stalls the first group, and a program has them
// pass through the caches faster than memory can give them; so the next ones are
// asked for evenly through the work on these, and two lines of later a block.
func multiply(i isa, tiles int) {
	kernel := either(i, "winogradMultiply", "fastMultiply")
	name := kernel + i.name
	if tiles < i.tiles {
		name = fmt.Sprint(kernel, tiles, i.name)
		i.tiles = tiles
	}
	TEXT(name, NOSPLIT, strings.ReplaceAll("func(v, u, m *float64, blocks, chain, groups int, next *float64, "+
		"later *float32)", "float64", i.number()))
	Pragma("noescape")
	Doc(name + " multiplies at one point: see asm/" + either(i, "winograd.go.", "fast.go."))
	v := Load(Param("v"), GP64()).(reg.GPVirtual)
	m := Load(Param("m"), GP64()).(reg.GPVirtual)
	groups := Load(Param("groups"), GP64()).(reg.GPVirtual)
	next := Load(Param("next"), GP64()).(reg.GPVirtual)
	later := Load(Param("later"), GP64()).(reg.GPVirtual)
	u, left, steps, sums := GP64(), GP64(), GP64(), GP64()
	sum := i.wide[:2*i.tiles]
	w := i.wide[2*i.tiles : 2*i.tiles+2]
	x := i.wide[2*i.tiles+2:]
	n := i.vector()

	Label("group" + name)
	MOVQ(mustParam("u"), u)
	MOVQ(mustParam("blocks"), left)
	XORQ(sums, sums)
	Label("sum" + name)
	MOVQ(mustParam("chain"), steps)
	CMPQ(left, steps)
	CMOVQLT(left, steps)
	SUBQ(steps, left)
	for _, s := range sum {
		i.clear(s)
	}
	// One loop for each number of lines of next in a block.
	least := 4
	for lines := 16 * n / 64; lines >= least; lines /= 2 {
		block, rest := fmt.Sprint("block", name, lines), fmt.Sprint("rest", name, lines)
		if lines > least {
			CMPQ(mustParam("groups"), Imm(uint64(16*n/64/lines)))
			JG(LabelRef(rest))
		}
		Label(block)
		for c := range 8 {
			i.load(Mem{Base: u, Disp: 2 * c * n}, w[0])
			i.load(Mem{Base: u, Disp: (2*c + 1) * n}, w[1])
			for line := (lines*c + 7) / 8; line < (lines*(c+1)+7)/8; line++ {
				PREFETCHT1(Mem{Base: next, Disp: 64 * line})
			}
			for t := range i.tiles {
				xt := x[t%len(x)]
				i.spread(Mem{Base: v, Disp: i.size() * (8*t + c)}, xt)
				i.fma(xt, w[0], sum[2*t])
				i.fma(xt, w[1], sum[2*t+1])
			}
		}
		ADDQ(U32(uint32(i.plane())), v)
		ADDQ(U32(uint32(16*n)), u)
		PREFETCHT1(Mem{Base: later})
		PREFETCHT1(Mem{Base: later, Disp: 64})
		ADDQ(U32(128), later)
		ADDQ(U32(uint32(64*lines)), next)
		DECQ(steps)
		JNZ(LabelRef(block))
		if lines > least {
			JMP(LabelRef("sums" + name))
			Label(rest)
		}
	}
	Label("sums" + name)
	TESTQ(sums, sums)
	JZ(LabelRef("store" + name))
	for s, r := range sum {
		i.add(Mem{Base: m, Disp: s * n}, r, r)
	}
	Label("store" + name)
	for s, r := range sum {
		i.load(r, Mem{Base: m, Disp: s * n})
	}
	INCQ(sums)
	TESTQ(left, left)
	JNZ(LabelRef("sum" + name))
	ADDQ(U32(uint32(i.product())), m)
	DECQ(groups)
	JNZ(LabelRef("group" + name))
	VZEROUPPER()
	RET()
}

// weigh is the sum of the weighted squares of a transformed window, channel by
// channel of a block:
//
//	v       the tile's place in [points][blocks][tiles][8]
//	point   bytes from a point to the next
//	points  an even number
//	weights [points]
//	scale   [blocks][8]
//	out     8 sums
func weigh(i isa) {
	name := "winogradWeigh" + i.name
	TEXT(name, NOSPLIT, "func(v *float64, point, points int, weights, scale *float64, blocks int, out *[8]float64)")
	Pragma("noescape")
	Doc(name + " sums the squares of a transformed window: see asm/winograd.go.")
	v := Load(Param("v"), GP64()).(reg.GPVirtual)
	point := Load(Param("point"), GP64()).(reg.GPVirtual)
	weights, at, left := GP64(), GP64(), GP64()
	scale := Load(Param("scale"), GP64()).(reg.GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	halves, n := i.halves(), i.vector()
	sum := func(q, h int) reg.VecPhysical { return i.wide[q*halves+h] } // q is p mod 2
	total := i.wide[2*halves : 3*halves]
	w, z := i.wide[3*halves:3*halves+2], i.wide[3*halves+2:16]
	for _, r := range total {
		VXORPD(r, r, r)
	}
	Label(name)
	MOVQ(v, at)
	MOVQ(mustParam("weights"), weights)
	MOVQ(mustParam("points"), left)
	for _, r := range i.wide[:2*halves] {
		VXORPD(r, r, r)
	}
	Label(name + "points")
	for q := range 2 {
		VBROADCASTSD(Mem{Base: weights, Disp: 8 * q}, w[q])
		for h := range halves {
			x := z[q*halves+h]
			VMOVUPD(Mem{Base: at, Disp: h * n}, x)
			VMULPD(x, x, x)
			VFMADD231PD(w[q], x, sum(q, h))
		}
		ADDQ(point, at)
	}
	ADDQ(Imm(16), weights)
	SUBQ(Imm(2), left)
	JNZ(LabelRef(name + "points"))
	for h := range halves {
		VADDPD(sum(1, h), sum(0, h), sum(0, h))
		VMOVUPD(Mem{Base: scale, Disp: h * n}, w[0])
		VMULPD(w[0], w[0], w[0])
		VFMADD231PD(w[0], sum(0, h), total[h])
	}
	ADDQ(U32(uint32(i.plane())), v)
	ADDQ(Imm(64), scale)
	DECQ(blocks)
	JNZ(LabelRef(name))
	for h, r := range total {
		VMOVUPD(r, Mem{Base: out, Disp: h * n})
	}
	VZEROUPPER()
	RET()
}
