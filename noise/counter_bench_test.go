package noise

import "testing"

func BenchmarkCounter(b *testing.B) {
	for _, kind := range []Kind{Normal, Exponential, Bernoulli, ComplexNormal} {
		b.Run(kind.String(), func(b *testing.B) {
			shape, dst := []int{1, 1 << 16}, make([]float64, 1<<17)
			if kind != ComplexNormal {
				dst = dst[:1<<16]
			}
			for i := 0; b.Loop(); i++ {
				d, err := Counter{Seed: 1}.At(i%1000, 0, 1)
				if err != nil {
					b.Fatal(err)
				}
				if err := d.Draw(kind, 0.5, shape, dst); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(dst)), "ns/number")
		})
	}
}
