package rollout

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkHashing measures what hashing costs beside the steps of an operator of 16 base
// channels, 3 layers, 64x64, 5 realizations, in the same process and by turns: of each
// state when it is written, and reading all again at the end. Its figures are medians, in
// percent of the steps' time; a state is 49 kB.
func BenchmarkHashing(b *testing.B) {
	for _, ext := range []string{".safetensors", ".npy", ".npz", ".h5"} {
		b.Run(ext[1:], func(b *testing.B) {
			c, err := ParseCase("op.json", []byte(`{"operator":{"num_layers":3,"base_channels":16,"grid_size":64,
			"noise_type":"gaussian","noise_scale":0.1},
				"rollout":{"num_timesteps":31,"num_realizations":5},"weights_seed":1}`))
			if err != nil {
				b.Fatal(err)
			}
			j := jobOf(b, c, Shape{3, 64, 64}, filepath.Join(b.TempDir(), "x"+ext))
			j.Every, j.Force = time.Hour, true
			if _, err := j.Run(context.Background()); err != nil {
				b.Fatal(err)
			}
			scratch, err := os.Create(filepath.Join(b.TempDir(), "table"))
			if err != nil {
				b.Fatal(err)
			}
			defer scratch.Close()
			n := 5 * 31
			state := make([]byte, j.Shape.Len()*4+40)
			var writing, reading []float64
			for b.Loop() {
				alone := *j
				alone.Path = ""
				began := time.Now()
				if _, err := alone.Run(context.Background()); err != nil {
					b.Fatal(err)
				}
				steps := time.Since(began).Seconds()
				began = time.Now()
				var l ledger
				for i := range n {
					state[i]++
					s := sum(sha256.Sum256(state))
					l.add(s)
					if _, err := scratch.WriteAt(s[:], 32*int64(i)); err != nil {
						b.Fatal(err)
					}
				}
				writing = append(writing, time.Since(began).Seconds()/steps)
				began = time.Now()
				s, close, err := openSealed(j.Path)
				if err != nil {
					b.Fatal(err)
				}
				if d, err := s.check(nil); err != nil || len(s.differences(d)) > 0 {
					b.Fatal(err)
				}
				if ext == ".npz" { // the partial file, and then the archive
					s.check(nil)
				}
				close()
				reading = append(reading, time.Since(began).Seconds()/steps)
			}
			median := func(x []float64) float64 { slices.Sort(x); return 100 * x[len(x)/2] }
			b.ReportMetric(median(writing), "%writing")
			b.ReportMetric(median(reading), "%reading")
		})
	}
}
