//go:build unix

package operator

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkPlanCPU is the processor time of a step of the operators of interop/bench, which
// other work on the machine disturbs less than the time that passes. With -cpu 1: a second
// thread waits by spinning.
func BenchmarkPlanCPU(b *testing.B) {
	for _, s := range []struct{ base, kernel, side, n int }{
		{64, 3, 128, 1}, {32, 3, 64, 5}, {16, 3, 64, 5}, {32, 5, 64, 5}, {32, 7, 64, 5},
	} {
		op := planCase{4, s.base, 3, 3, s.kernel, "gelu", "instance", "", s.n, s.side, s.side}.operator(b)
		for _, name := range []string{"float32", "float32:fast"} {
			m, err := graph.ParseMode(name, "")
			if err != nil {
				b.Fatal(err)
			}
			p := op.Compile(m, s.n, s.side, s.side)
			x, y := input(s.n, 3, s.side, s.side), tensor.New(m.Output(), s.n, 3, s.side, s.side)
			b.Run(fmt.Sprintf("%s/base%d/%dx%d/%dx%dx%d", name, s.base, s.kernel, s.kernel, s.n, s.side, s.side),
				func(b *testing.B) {
					step := func() {
						if err := p.Forward(y, x, nil, noise.Time{}); err != nil {
							b.Fatal(err)
						}
					}
					step()
					b.ResetTimer()
					began := cpuTime(b)
					for range b.N {
						step()
					}
					b.ReportMetric((cpuTime(b)-began)/float64(b.N), "cpu-ms/op")
				})
		}
	}
}

// cpuTime returns the milliseconds that processors have worked for this process.
func cpuTime(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e6
}
