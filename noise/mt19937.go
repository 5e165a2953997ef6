package noise

import "github.com/refrun/refrun/internal/asm"

// mt19937 is the Mersenne Twister of 32 bits (M. Matsumoto, T. Nishimura,
// "Mersenne Twister", ACM TOMACS 8, 1998) as PyTorch's CPU generator holds it.
type mt19937 struct {
	state [mtLen]uint32
	next  int // index of the next word to hand out; mtLen asks for a twist
}

const (
	mtLen   = 624
	mtShift = 397
)

// seed starts the sequence of a seed.
func (g *mt19937) seed(s uint32) {
	g.state[0] = s
	for j := 1; j < mtLen; j++ {
		s = 1812433253*(s^s>>30) + uint32(j)
		g.state[j] = s
	}
	g.next = mtLen
}

// mtTwist joins the top bit of u and the rest of v, times the matrix.
func mtTwist(u, v uint32) uint32 {
	return (u&0x80000000|v&0x7fffffff)>>1 ^ -(v&1)&0x9908b0df
}

// twist replaces the state by the next 624 words of the recurrence
// x[k+624] = x[k+397] ^ twist(x[k], x[k+1]).
func (g *mt19937) twist() {
	s := &g.state
	k := 0
	if kernels := asm.NoiseKernels(); kernels != nil {
		const first, second = (mtLen - mtShift) / 8, (mtShift - 1) / 8
		kernels.Twist(&s[0], &s[mtShift], first)
		for k = 8 * first; k < mtLen-mtShift; k++ {
			s[k] = s[k+mtShift] ^ mtTwist(s[k], s[k+1])
		}
		kernels.Twist(&s[k], &s[0], second)
		k += 8 * second
	}
	for ; k < mtLen-mtShift; k++ {
		s[k] = s[k+mtShift] ^ mtTwist(s[k], s[k+1])
	}
	for ; k < mtLen-1; k++ {
		s[k] = s[k+mtShift-mtLen] ^ mtTwist(s[k], s[k+1])
	}
	s[mtLen-1] = s[mtShift-1] ^ mtTwist(s[mtLen-1], s[0])
	g.next = 0
}

// some returns the next words, as many as are there, up to n; they are still to be
// tempered.
func (g *mt19937) some(n int) []uint32 {
	if g.next >= mtLen {
		g.twist()
	}
	w := g.state[g.next:min(mtLen, g.next+n)]
	g.next += len(w)
	return w
}

// temper finishes a word.
func temper(y uint32) uint32 {
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// random returns the next word of 32 bits.
func (g *mt19937) random() uint32 {
	if g.next >= mtLen {
		g.twist()
	}
	y := g.state[g.next]
	g.next++
	return temper(y)
}

// random64 returns the next two words, the first of them on top.
func (g *mt19937) random64() uint64 {
	hi := g.random()
	return uint64(hi)<<32 | uint64(g.random())
}

// uniforms fills dst with multiples of 2^-24 in [0,1), of one word each.
func (g *mt19937) uniforms(dst []float64) {
	kernels := asm.NoiseKernels()
	for len(dst) > 0 {
		w, k := g.some(len(dst)), 0
		if kernels != nil && len(w) >= 8 {
			k = len(w) &^ 7
			kernels.Temper(&dst[0], &w[0], k/8)
		}
		for ; k < len(w); k++ {
			dst[k] = float64(temper(w[k])&(1<<24-1)) * 0x1p-24
		}
		dst = dst[len(w):]
	}
}

// u24 returns a multiple of 2^-24 in [0,1), from one word.
func (g *mt19937) u24() float32 { return float32(float32(g.random()&(1<<24-1)) * 0x1p-24) }

// u53 returns a multiple of 2^-53 in [0,1), from two words.
func (g *mt19937) u53() float64 { return float64(float64(g.random64()&(1<<53-1)) * 0x1p-53) }
