package main

// The registers of constants for the roundings.
const (
	half, last, least, span, bitsOf v = 16, 17, 18, 19, 11
)

// roundings loads the constants of roundPair.
func (n *neon) roundings(f format) {
	if f.p < 24 {
		n.constant(f.half(), f.half(), half)
		n.constant(f.last(), f.last(), last)
		n.constant(f.least(), f.least(), least)
		n.constant(f.span(), f.span(), span)
	}
}

// roundPair rounds lo and hi to the format and sets same to ones in each lane
// where they agree in all bits, so that an interval around zero is open. For
// Float32 it leaves two float32 numbers in lo, and two narrow masks in same; for
// the half types float64 numbers in lo. t is scratch.
//
// The half types round the bits of the float64, as on amd64: to nearest even by
// a carry. Zero, subnormal and overflowing results are left open.
func (n *neon) roundPair(f format, lo, hi, t, same v) {
	if f.name == "Float32" {
		n.narrow(lo, lo)
		n.narrow(hi, hi)
		n.op("VCMEQ %s, %s, %s", hi.as("S4"), lo.as("S4"), same.as("S4"))
		return
	}
	for _, x := range []v{lo, hi} {
		n.op("VSHL $%d, %s, %s", 63-f.drop(), x.as("D2"), t.as("D2"))
		n.op("VADD %s, %s, %s", half.as("D2"), x.as("D2"), x.as("D2"))
		n.op("VUSRA $63, %s, %s", t.as("D2"), x.as("D2"))
		n.bic(x, last, x)
	}
	n.op("VCMEQ %s, %s, %s", hi.as("D2"), lo.as("D2"), same.as("D2"))
	n.fabs(lo, t)
	n.op("VSUB %s, %s, %s", least.as("D2"), t.as("D2"), t.as("D2"))
	n.cmhs(span, t, t)
	n.op("VAND %s, %s, %s", t.as("B16"), same.as("B16"), same.as("B16"))
}

// open turns four masks of two lanes, which say what is not open, into four
// bytes of flags at the bottom of the first: bitsOf holds the bits of the two
// lanes, as 16-bit numbers.
func (n *neon) open(f format, m [4]v) {
	as := "S4"
	if f.name == "Float32" {
		as = "D2" // the masks are narrow
	}
	n.gather(as, m)
	n.op("VADDP %s, %s, %s", m[0].as("H8"), m[0].as("H8"), m[0].as("H8"))
	n.op("VUZP1 %s, %s, %s", m[0].as("B16"), m[0].as("B16"), m[0].as("B16"))
}

// gather packs four masks of two lanes each into the 16-bit numbers of the first,
// and leaves there those of bitsOf where the masks are not set. as is the first
// step: D2 if the masks have 32 bits a lane, S4 if they have 64.
func (n *neon) gather(as string, m [4]v) {
	pack := func(as string, lo, hi, d v) { n.op("VUZP1 %s, %s, %s", hi.as(as), lo.as(as), d.as(as)) }
	pack(as, m[0], m[1], m[0])
	pack(as, m[2], m[3], m[2])
	pack("H8", m[0], m[2], m[0])
	n.bic(bitsOf, m[0], m[0])
}

// laneBits are the bits of lanes 2h and 2h+1 as 16-bit numbers, four times.
func laneBits(h int) uint64 { return 0x0002_0001_0002_0001 << (2 * h) }
