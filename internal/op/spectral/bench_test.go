package spectral

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkPlanes transforms planes of float32 numbers: noise, what ReLU leaves of it, a
// smooth function, one that is even in both directions, and a constant, of whose transforms
// half and all but one of the numbers are exactly 0.
func BenchmarkPlanes(b *testing.B) {
	for _, c := range []struct{ planes, side int }{{64, 64}, {4, 256}} {
		for kind, of := range map[string]func(r *rand.Rand, x, y float64) float64{
			"noise": func(r *rand.Rand, x, y float64) float64 { return r.NormFloat64() },
			"relu":  func(r *rand.Rand, x, y float64) float64 { return max(0, r.NormFloat64()) },
			"smooth": func(r *rand.Rand, x, y float64) float64 {
				return 1 / (1.5 + 0.7*math.Sin(x)*math.Cos(y+x) + 0.3*math.Sin(2*x+1)*math.Cos(3*y+2))
			},
			"even":     func(r *rand.Rand, x, y float64) float64 { return 1 / (1.5 + math.Cos(x)*math.Cos(y)) },
			"constant": func(r *rand.Rand, x, y float64) float64 { return 1.25 },
		} {
			r := rand.New(rand.NewPCG(1, 2))
			n := c.side
			x := tensor.New(fp16.Float32, c.planes, n, n)
			for i := range x.Data {
				x.Data[i] = fp16.Float32.Round(of(r, 2*math.Pi*float64(i%n)/float64(n), 2*math.Pi*float64(i/n%n)/float64(n)))
			}
			for _, f := range []fp16.Format{fp16.Float32, fp16.Float64} {
				y := tensor.New(f, c.planes, n, n/2+1, 2)
				z := tensor.New(f, c.planes, n, n)
				b.Run(fmt.Sprintf("rfft2/%dx%dx%d/%s/%v", c.planes, n, n, kind, f), func(b *testing.B) {
					for b.Loop() {
						RFFT(y, x, []int{1, 2}, Ortho)
					}
					w, open := halfWorker(x.Shape), 0
					for i := range c.planes {
						w.do(y, x, i)
						open += len(w.open)
					}
					b.ReportMetric(100*float64(open)/float64(len(y.Data)), "%open")
				})
				if kind == "noise" {
					b.Run(fmt.Sprintf("irfft2/%dx%dx%d/%s/%v", c.planes, n, n, kind, f), func(b *testing.B) {
						for b.Loop() {
							IRFFT(z, y, []int{1, 2}, Ortho)
						}
					})
				}
			}
		}
	}
}
