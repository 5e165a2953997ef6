package asm

import "testing"

// BenchmarkWinogradKernels times the kernels apart, on data in the caches.
func BenchmarkWinogradKernels(b *testing.B) {
	for _, k := range backends {
		w := k.winograd
		if w == nil {
			continue
		}
		const blocks, groups = 8, 4
		point := groups*blocks*w.Tiles*8 + 8 // an odd number of cache lines
		v := make([]float64, 36*point)
		u := make([]float64, 36*blocks*8*w.Outputs)
		product := groups*w.Tiles*w.Outputs + 8
		m := make([]float64, 36*product)
		image := make([]float32, blocks*12*36*8)
		scratch := make([]float64, 36*8)
		table := make([]float64, 18*8)
		dst := make([]float32, 16*8)
		flags := make([]uint8, 16)
		b.Run(k.name+"/multiply", func(b *testing.B) {
			n := 0
			for b.Loop() {
				p := n % 36
				w.Multiply(&v[p*point], &u[p*blocks*8*w.Outputs], &m[p*product], blocks, blocks, groups,
					&u[(p+1)%36*blocks*8*w.Outputs], &image[0])
				n++
			}
			b.ReportMetric(float64(b.N*2*groups*w.Tiles*w.Outputs*blocks*8)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
		b.Run(k.name+"/input", func(b *testing.B) {
			n := 0
			for b.Loop() {
				t := n % (groups * w.Tiles)
				w.Input(&image[n%30*8], 36*32, 12*36*32, &v[(t/w.Tiles*blocks*w.Tiles+t%w.Tiles)*8], point*8, blocks, &scratch[0])
				n++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks), "ns/block")
		})
		for f, name := range []string{"float32", "float16", "bfloat16"} {
			b.Run(k.name+"/output/"+name, func(b *testing.B) {
				n := 0
				for b.Loop() {
					t := n % (groups * w.Tiles)
					w.Output[f](&m[t*w.Outputs], product*8, 1, &table[0], &dst[0], 128, &flags[0], &scratch[0])
					n++
				}
			})
		}
		b.Run(k.name+"/dot", func(b *testing.B) {
			var out [8]float64
			weights := make([]float32, blocks*9*8)
			for b.Loop() {
				w.Dot(&image[0], &image[0], 36*32, 12*36*32, &weights[0], blocks, &out)
			}
		})
	}
}
