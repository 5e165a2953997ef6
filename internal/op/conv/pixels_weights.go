package conv

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
)

// pixelWeights are weights in the order of the kernels, and what they make the
// guard's bound of.
type pixelWeights struct {
	panels []float64 // [outputs/Outputs][terms][Outputs]
	terms  int       // taps, or where they are gathered those of whole blocks of channels
	tables []float64 // of each 8 outputs: slope [8], bias [8], e [8]
	direct []float32 // the weights as they are, [oc][blocks][K*K][8]
}

// gathered reports whether what a pixel reads is gathered.
func (k *Kernel) gathered() bool { return k.kh <= 3 && k.ic >= block || k.kh == 1 || k.kh != k.kw }

// term returns the channel and the place in the window of a term: they follow each other in
// the window, channel by channel, and where they are gathered in the channels, tap by tap.
func (k *Kernel) term(t int) (c, i int) {
	if k.gathered() {
		c := (k.ic + block - 1) / block * block
		return t % c, t / c
	}
	return t / (k.kh * k.kw), t % (k.kh * k.kw)
}

// gatherChain is how many blocks of 8 terms that are gathered are added one after another;
// such sums are added in order.
const gatherChain = 32

// roundings returns in how many roundings of the sum a term takes part at most: in those of
// its chain, of which the first addition, to 0, is exact, and in one for each chain.
func (k *Kernel) roundings(terms int) int {
	const chain = gatherChain * block
	if !k.gathered() || terms <= chain {
		return terms
	}
	return chain + (terms+chain-1)/chain
}

// pixel returns the weights for kernels of that many outputs, made at their first
// use.
//
// The guard's bound is that of bound.go for n taps and the bias, with roundings in the place
// of n, and 2u more of |y|, which is at most ||w/t|| ||t x|| + |b|, for its own arithmetic.
func (k *Kernel) pixel(outputs int) *pixelWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.byPixel[outputs]; w != nil {
		return w
	}
	hw, blocks := k.kh*k.kw, (k.ic+block-1)/block
	w := &pixelWeights{terms: k.taps(), direct: make([]float32, k.oc*blocks*hw*block)}
	if k.gathered() {
		w.terms = hw * blocks * block
	}
	w.panels = asm.Aligned[float64]((k.oc + outputs - 1) / outputs * w.terms * outputs)
	w.tables = asm.Aligned[float64]((k.oc + block - 1) / block * 3 * block)
	for o := range k.oc {
		for t := range w.terms {
			c, i := k.term(t)
			if c >= k.ic {
				continue
			}
			v := k.packed[k.at(o, c*hw+i)]
			w.panels[(o/outputs*w.terms+t)*outputs+o%outputs] = v
			w.direct[((o*blocks+c/block)*hw+i)*block+c%block] = float32(v)
		}
		table := w.tables[o/block*3*block+o%block:]
		table[0] = 1.0002 * 0x1p-53 * float64(float64(k.roundings(w.terms)+2)*k.norm[o])
		table[block] = k.bias[o]
		table[2*block] = 3.001 * 0x1p-53 * math.Abs(k.bias[o])
	}
	if k.byPixel == nil {
		k.byPixel = map[int]*pixelWeights{}
	}
	k.byPixel[outputs] = w
	return w
}
