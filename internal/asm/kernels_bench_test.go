package asm

import (
	"math"
	"testing"
)

// work is a kernel on data in the caches: what it makes per call, in units of its
// own.
type work struct {
	name  string
	units int
	unit  string
	run   func()
}

// works are the kernels of a backend that all architectures have.
func works(k *backend) []work {
	x, y := make([]float64, 2048), make([]float64, 2048)
	for i := range x {
		x[i] = math.Sin(float64(i))
	}
	var all []work
	add := func(name string, units int, unit string, run func()) {
		all = append(all, work{name, units, unit, run})
	}
	formats := [Formats]string{"float32", "float16", "bfloat16"}
	if w := k.winograd; w != nil {
		const blocks, groups = 8, 4
		u, v := make([]float64, blocks*8*w.Outputs), make([]float64, 36*groups*blocks*w.Tiles*8)
		m := make([]float64, 36*groups*w.Tiles*w.Outputs)
		image, scratch, table := make([]float32, blocks*12*36*8), make([]float64, 36*8), make([]float64, 18*8)
		line, flags := make([]float32, 4*128), make([]uint8, 16)
		add("winograd/input", 16*8*blocks, "input", func() {
			w.Input(&image[0], 36*32, 12*36*32, &v[0], groups*blocks*w.Tiles*64, blocks, &scratch[0])
		})
		add("winograd/multiply", groups*w.Tiles*w.Outputs*blocks*8, "multiply-add", func() {
			w.Multiply(&v[0], &u[0], &m[0], blocks, blocks, groups, &u[0], &image[0])
		})
		for f, output := range w.Output {
			add("winograd/output/"+formats[f], 16*8, "output", func() {
				output(&m[0], groups*w.Tiles*w.Outputs*8, 1, &table[0], &line[0], 128, &flags[0], &scratch[0])
			})
		}
		add("winograd/dot", 9*8*blocks, "product", func() {
			var out [8]float64
			w.Dot(&image[0], &image[0], 36*32, 12*36*32, &image[0], blocks, &out)
		})
	}
	if d := k.direct; d != nil {
		const taps = 64
		src, w, at := make([]float64, taps+64), make([]float64, taps*d.Outputs), make([]int, taps)
		table, window, out, flags := make([]float64, 3*d.Outputs), make([]float64, d.Pixels),
			make([]float64, d.Outputs*d.Pixels), make([]uint8, d.Outputs*3)
		for i := range at {
			at[i] = 8 * i
		}
		for f, convolve := range d.Convolve {
			name := "float64"
			if f < Formats {
				name = formats[f]
			}
			add("direct/"+name, taps*d.Outputs*d.Pixels, "multiply-add", func() {
				convolve(&src[0], &at[0], taps, &w[0], &table[0], &window[0], &out[0], &flags[0])
			})
		}
		add("direct/squares", len(x), "number", func() { d.AddSquares(&x[0], 1, &y[0], len(x)) })
		add("direct/sums of squares", len(x)/24*24, "number", func() { d.SumSquares(&x[0], len(x)/24*24, &y[0]) })
	}
	if n := k.norm; n != nil {
		var top [16]uint32
		var acc [6][8]float64
		line, open := [6]float64{0, 0, 1, 0.5, 0x1p-50, 0x1p-52}, make([]uint8, len(x)/8)
		add("norm/top", len(x), "number", func() { n.Top(&x[0], len(x), &top) })
		add("norm/sums", len(x), "number", func() { n.Sums(&x[0], len(x), &acc) })
		for f, apply := range n.Apply {
			add("norm/apply/"+formats[f], len(x), "number", func() { apply(&y[0], &x[0], len(x), &line, &open[0]) })
		}
	}
	if a := k.act; a != nil {
		grid := NewActGrid(0x1p-23, 0x1p-126, math.MaxFloat32)
		for _, f := range []struct {
			name   string
			kernel ActKernel
		}{{"none", a.Identity}, {"relu", a.ReLU}, {"gelu", a.GELU}, {"gelu_tanh", a.GELUTanh}, {"silu", a.SiLU},
			{"sigmoid", a.Sigmoid}, {"tanh", a.Tanh}, {"erf", a.Erf}} {
			add("act/"+f.name, 64, "number", func() { f.kernel.Apply(y[:64], x[:64], grid) })
		}
	}
	return all
}

// BenchmarkWorks times the kernels apart; _gen/count counts their instructions
// with it.
func BenchmarkWorks(b *testing.B) {
	for i := range backends {
		for _, w := range works(&backends[i]) {
			b.Run(backends[i].name+"/"+w.name, func(b *testing.B) {
				for b.Loop() {
					w.run()
				}
				b.ReportMetric(float64(w.units), w.unit+"s/call")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*w.units), "ns/"+w.unit)
			})
		}
	}
}
