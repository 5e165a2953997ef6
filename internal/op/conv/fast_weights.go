package conv

import (
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
)

// fastWeights are a kernel's transformed weights, laid out for kernels of a number of
// outputs.
type fastWeights struct {
	groups int       // of outputs
	size   int       // of one panel
	panels []float32 // U [n*n][groups][blocks*8][Outputs]
	bias   []float32 // [groups][Outputs]
}

func (w *fastWeights) panel(group, p int) []float32 {
	return w.panels[(p*w.groups+group)*w.size:][:w.size]
}

// inSingles returns the transformed weights for kernels of that many outputs, made at
// their first use: each U is G g G^T as transform.weight has it, in float64, rounded to
// float32.
func (k *Kernel) inSingles(f *fastForm, outputs int) *fastWeights {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.singles[outputs]; w != nil {
		return w
	}
	taps, points, blocks := f.form.Taps, f.form.Side*f.form.Side, f.blocks(k.ic)
	w := &fastWeights{groups: (k.oc + outputs - 1) / outputs, size: blocks * block * outputs}
	w.panels, w.bias = asm.Paged[float32](w.groups*points*w.size), make([]float32, w.groups*outputs)
	t, parts := newTransform(f.form), len(f.parts)
	par.For(k.oc, func(o int) {
		w.bias[o] = float32(k.bias[o])
		g := make([]float64, taps*taps)
		for q := range parts * parts {
			rows, cols := f.parts[q/parts], f.parts[q%parts]
			for c := range k.ic {
				clear(g)
				for i := rows.first; i < rows.end; i++ {
					for j := cols.first; j < cols.end; j++ {
						g[(i-rows.at)*taps+j-cols.at] = k.packed[k.at(o, (c*k.kh+i)*k.kw+j)]
					}
				}
				row := q*blocks/(parts*parts)*block + c
				for p := range points {
					u, _ := t.weight(g, p)
					w.panel(o/outputs, p)[row*outputs+o%outputs] = float32(u)
				}
			}
		}
	})
	if k.singles == nil {
		k.singles = map[int]*fastWeights{}
	}
	k.singles[outputs] = w
	return w
}
