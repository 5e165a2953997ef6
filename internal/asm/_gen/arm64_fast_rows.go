package main

// fastRow is fastRow of fast_rows.go, two registers, a pixel, at a time. The coefficients
// of GELU stay in registers 16 to 30.
func (n *neon) fastRow(line, gelu bool) {
	name, arguments := "rowFast", "dst, src *float32, pixels int"
	if line {
		name += "Line"
		arguments += ", lines *[3][8]float32"
	}
	if gelu {
		name += "GELU"
	}
	n.function(name+"NEON", arguments, "", "applies operations in fast arithmetic: see asm/fast_rows.go.")
	const lines, low, high, zero, one, middle, half, phi v = 4, 10, 11, 12, 13, 14, 15, 16
	if gelu {
		n.op("MOVD $·fastGELUVectors(SB), R5")
		for k := range v(6 + fastPhiTerms) {
			n.load("R5", 64*int(k), low+k)
		}
	}
	n.label("next")
	n.load2("R1", 0, 0, 1)
	if line {
		for k := range 3 {
			n.load2("R3", 32*k, 4+v(2*k), 5+v(2*k))
		}
		for h := range v(2) {
			n.fsub(h, lines+h, h)
			n.fmla(h, lines+2+h, lines+4+h)
			n.move(lines+4+h, h)
		}
	}
	if gelu {
		for h := range v(2) {
			x, u, p, t := h, 2+h, 4+h, 6+h
			n.fmax(x, low, x)
			n.fmin(x, high, t)
			n.move(middle, u)
			n.fmla(t, t, u)
			n.move(phi+fastPhiTerms-1, p)
			for term := v(fastPhiTerms - 2); term >= 0; term-- {
				n.move(phi+term, t)
				n.fmla(p, u, t)
				p, t = t, p
			}
			n.move(half, t)
			n.fmla(x, p, t)
			n.fmin(t, one, t)
			n.fmax(t, zero, t)
			n.fmul(t, x, x)
		}
	}
	n.store2(0, 1, "R0", 0)
	n.op("ADD $32, R0")
	n.op("ADD $32, R1")
	n.op("SUBS $1, R2")
	n.op("BNE next")
	n.op("RET")
}
