package noise

import (
	"fmt"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// given is a source of numbers that cost a copy.
type given []float64

func (g given) Draw(_ Kind, _ float64, _ []int, dst []float64) error {
	copy(dst, g)
	return nil
}

// BenchmarkApply is a block without its draws but for a copy.
func BenchmarkApply(b *testing.B) {
	for _, kind := range []Type{Gaussian, Laplace, Multiplicative, Dropout} {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16, fp16.BFloat16} {
			b.Run(fmt.Sprintf("%v/%v", kind, f), func(b *testing.B) {
				src := tensor.New(f, 1, 4, 128, 128)
				dst := tensor.Like(src)
				d := make(given, len(src.Data))
				if err := counterAt(b, Counter{Seed: 1}, 1, 0, 1).Draw(Normal, 0, []int{1, len(d)}, d); err != nil {
					b.Fatal(err)
				}
				f.RoundSlice(src.Data, d)
				for b.Loop() {
					if err := (&Block{Type: kind, Scale: 0.1}).Apply(dst, src, Time{}, d); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(d)), "ns/number")
			})
		}
	}
}
