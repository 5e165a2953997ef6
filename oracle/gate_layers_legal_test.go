package oracle

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/conv"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// TestLegalSumsOfChannels: a channel whose sums are large on their way has larger
// deviations than the others, which keep theirs.
func TestLegalSumsOfChannels(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	const in, side = 64, 8
	x, w := tensor.New(fp16.Float64, 2, in, side, side), tensor.New(fp16.Float64, 3, in, 1, 1)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(1 + r.Float64())
	}
	for c := range in {
		w.Data[c] = float64(1 - 2*(c%2))        // +-+-: sums stay small
		w.Data[in+c] = float64(1 - 2*(c/32))    // half of them +, then -: up to 48
		w.Data[2*in+c] = float64(1 - 2*(c/2%2)) // ++--
	}
	s := &sums{y: emulate.Conv(x, conv.NewKernel(w, nil), conv.Params{})}
	s.sd = make([]float64, len(s.y.Data))
	for i := range s.sd {
		s.sd[i] = 0x1p-22
	}
	slack := (&layerGate{u: 0x1p-24}).legalSums(x, w, conv.Params{}, s)
	for i, sd := range s.sd {
		o := i / (side * side) % 3
		if grown := sd / 0x1p-22; o == 1 && !(grown > 1.2) || o != 1 && grown != 1 {
			t.Fatalf("channel %d: deviations are %v times what they were (slack %v)", o, grown, slack)
		}
	}
}
