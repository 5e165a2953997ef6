package main

// packLine lays 8 lines out as pixels, 8 at a time: see packLine of layout.go.
func (n *neon) packLine() {
	n.function("packLineNEON", "in *[8]*float64, scale *[8]float64, out *float32, sums *float64, pixels int", "",
		"lays 8 lines out as pixels: see asm/winograd.go.")
	sum := func(i int) v { return v(16 + i) }
	for i := range 2 {
		n.load2("R1", 32*i, v(28+2*i), v(29+2*i))
	}
	n.op("MOVD ZR, R5") // bytes of a line done
	n.label("pixels")
	for i := 0; i < 4; i += 2 {
		n.load2("R3", 16*i, sum(i), sum(i+1))
	}
	for c := range 8 {
		n.op("MOVD %d(R0), R6", 8*c)
		n.op("ADD R5, R6")
		n.load2("R6", 0, 20, 21)
		n.load2("R6", 32, 22, 23)
		n.narrow(20, v(c))
		n.narrowUpper(21, v(c))
		n.narrow(22, v(8+c))
		n.narrowUpper(23, v(8+c))
		for i := range 4 {
			p := v(24 + i)
			n.fmulBy(v(20+i), lane{v(28 + c/2), c % 2}, p)
			n.op("VFMLA %s, %s, %s", p.as("D2"), p.as("D2"), sum(i).as("D2"))
		}
	}
	for i := 0; i < 4; i += 2 {
		n.store2(sum(i), sum(i+1), "R3", 16*i)
	}
	for i := 0; i < 16; i += 4 {
		r := v(i)
		n.transpose([4]v{r, r + 1, r + 2, r + 3}, [4]v{20, 21, 22, 23})
	}
	for p := range 8 {
		r := v(p/4*8 + p%4)
		n.store2(r, r+4, "R2", 32*p)
	}
	n.op("ADD $256, R2")
	n.op("ADD $64, R3")
	n.op("ADD $64, R5")
	n.op("SUBS $8, R4")
	n.op("BNE pixels")
	n.op("RET")
}

// unpackLine makes lines of 8 channels of pixels, 4 at a time.
func (n *neon) unpackLine() {
	n.function("unpackLineNEON", "src *float32, dst *float64, plane, pixels int", "",
		"makes 8 lines of pixels: see asm/pixels.go.")
	plane := [8]string{"R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11"}
	n.op("MOVD R1, R4")
	for c := 1; c < 8; c++ {
		n.op("ADD R2, %s, %s", plane[c-1], plane[c])
	}
	n.label("unpack")
	for j := range 4 {
		n.load2("R0", 32*j, v(j), v(4+j))
	}
	n.transpose([4]v{0, 1, 2, 3}, [4]v{16, 17, 18, 19})
	n.transpose([4]v{4, 5, 6, 7}, [4]v{20, 21, 22, 23})
	for c := range 8 {
		lo, hi := v(16+2*(c%4)), v(17+2*(c%4))
		n.widen(v(c), lo)
		n.widenUpper(v(c), hi)
		n.store2(lo, hi, plane[c], 0)
		n.op("ADD $32, %s", plane[c])
	}
	n.op("ADD $128, R0")
	n.op("SUBS $4, R3")
	n.op("BNE unpack")
	n.op("RET")
}

// sumSquares adds the squares of n numbers to 24 sums, in 12 registers.
func (n *neon) sumSquares() {
	n.function("sumSquaresNEON", "x *float64, n int, sums *float64", "", "adds squares: see asm/direct.go.")
	const registers = 12
	for r := 0; r < registers; r += 2 {
		n.load2("R2", 16*r, v(r), v(r+1))
	}
	n.label("squares")
	for r := 0; r < registers; r += 2 {
		n.load2("R0", 16*r, v(registers+r), v(registers+r+1))
		for i := r; i < r+2; i++ {
			x := v(registers + i).as("D2")
			n.op("VFMLA %s, %s, %s", x, x, v(i).as("D2"))
		}
	}
	n.op("ADD $%d, R0", 16*registers)
	n.op("SUBS $%d, R1", 2*registers)
	n.op("BNE squares")
	for r := 0; r < registers; r += 2 {
		n.store2(v(r), v(r+1), "R2", 16*r)
	}
	n.op("RET")
}

// addSquares adds the squares of n scaled numbers, a multiple of 8, to sums.
func (n *neon) addSquares() {
	n.function("addSquaresNEON", "x *float64, scale float64, sums *float64, n int", "", "adds squares: see asm/direct.go.")
	n.label("squares")
	for h := range 2 {
		x, s := v(4*h), v(4*h+2)
		n.load2("R0", 32*h, x, x+1)
		n.load2("R2", 32*h, s, s+1)
		for i := range v(2) {
			n.fmulBy(x+i, lane{12, 0}, x+i)
			n.op("VFMLA %s, %s, %s", (x + i).as("D2"), (x + i).as("D2"), (s + i).as("D2"))
		}
		n.store2(s, s+1, "R2", 32*h)
	}
	n.op("ADD $64, R0")
	n.op("ADD $64, R2")
	n.op("SUBS $8, R3")
	n.op("BNE squares")
	n.op("RET")
}
