package quantizer

import (
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/op/quantize"
)

// BenchmarkCheck judges right quantizers of 512 x 512 numbers.
func BenchmarkCheck(b *testing.B) {
	for _, c := range []scene{
		{"mxfp8_e4m3", quantize.Options{}, []int{512, 512}, false, false},
		{"nvfp4", quantize.Options{}, []int{512, 512}, true, true},
		{"fp8_e4m3", quantize.Options{Block: "1x128"}, []int{512, 512}, false, false},
	} {
		q := c.question(b, rand.New(rand.NewPCG(1, 1)))
		b.Run(c.format, func(b *testing.B) {
			for b.Loop() {
				if r, err := Check(q); err != nil || r.Verdict != Pass {
					b.Fatal(r, err)
				}
			}
		})
	}
}
