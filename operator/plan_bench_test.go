package operator

import (
	"fmt"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkPlan is one application of a whole operator by a plan.
func BenchmarkPlan(b *testing.B) {
	for _, s := range []struct{ base, side, n int }{{16, 64, 1}, {64, 64, 1}, {64, 128, 1}} {
		op := planCase{4, s.base, 3, 3, 3, "gelu", "instance", "gaussian", s.n, s.side, s.side}.operator(b)
		for _, name := range append([][2]string{{"float32:fast", ""}}, planModes[:6]...) {
			m, err := graph.ParseMode(name[0], name[1])
			if err != nil {
				b.Fatal(err)
			}
			for stream, draws := range streams(b, s.n) {
				b.Run(fmt.Sprintf("%v/base%d/%dx%dx%d/%s", m, s.base, s.n, s.side, s.side, stream), func(b *testing.B) {
					p, x, y := op.Compile(m, s.n, s.side, s.side), input(s.n, 3, s.side, s.side),
						tensor.New(m.Output(), s.n, 3, s.side, s.side)
					step := func() {
						if err := p.Forward(y, x, draws(), noise.Time{}); err != nil {
							b.Fatal(err)
						}
					}
					step()
					step()
					b.ReportAllocs()
					for b.Loop() {
						step()
					}
					b.ReportMetric(float64(p.Arena())/1e6, "MB-arena")
					b.ReportMetric(float64(p.Build().Microseconds())/1e3, "ms-build")
				})
			}
		}
	}
}
