package operator

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkUAFNO applies U-AFNOs to three images: one as small as those of the tests, and
// one of 16 base channels.
func BenchmarkUAFNO(b *testing.B) {
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"base=6/32x32", Config{
			BaseChannels: 6, GridSize: 32, UAFNO: &UAFNO{EncoderLevels: 2, Modes: 5, AFNOBlocks: 2, BlocksPerLevel: 1},
		}},
		{"base=16/64x64", Config{
			BaseChannels: 16, GridSize: 64, UAFNO: &UAFNO{EncoderLevels: 3, Modes: 8, AFNOBlocks: 2, BlocksPerLevel: 1},
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			op, err := Init(c.config, 1)
			if err != nil {
				b.Fatal(err)
			}
			side := c.config.GridSize
			p := op.Compile(graph.Mode{Precision: fp16.Float32}, 3, side, side)
			x := tensor.New(fp16.Float32, 3, 3, side, side)
			for i := range x.Data {
				x.Data[i] = float64(i%17)/8 - 1
			}
			for b.Loop() {
				if err := p.Forward(p.Result(), x, nil, noise.Time{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(p.FLOPs())*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
