//go:build unix

package dataset

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// overhead is a specification of one operator of base 16 on 128x128, of which the number of
// layers varies.
const overhead = `{"operators":1,"seed":1,"store":STORE,
"operator":{"num_layers":LAYERS,"base_channels":16,"grid_size":128,"noise_type":"gaussian","noise_scale":0.05},
"rollout":{"num_timesteps":41,"num_realizations":2},"space":{"rollout.alpha":{"real":[0.4,0.6]}}}`

// BenchmarkOverhead makes a unit, its file, hashes and record included, and times the engine
// alone on the same rollout, one after the other: more is the share that the unit takes
// beyond the engine, of the least time of each, and of the processors' time.
func BenchmarkOverhead(b *testing.B) {
	for _, c := range []struct{ name, layers, store string }{
		{"layers2/safetensors", "2", `{}`}, {"layers2/float16", "2", `{"format":"float16"}`}, {"layers2/hdf5", "2", `{"file":".h5"}`},
		{"layers2/features", "2", `{"states":false}`}, {"layers4/safetensors", "4", `{}`}, {"layers4/hdf5", "4", `{"file":".h5"}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Parse("f", []byte(strings.NewReplacer("LAYERS", c.layers, "STORE", c.store).Replace(overhead)))
			if err != nil {
				b.Fatal(err)
			}
			least := [2][2]time.Duration{{time.Hour, time.Hour}, {time.Hour, time.Hour}} // bare and whole, by clock and processors
			timed := func(k int, f func() error) {
				began, used := time.Now(), processors(b)
				if err := f(); err != nil {
					b.Fatal(err)
				}
				least[k][0], least[k][1] = min(least[k][0], time.Since(began)), min(least[k][1], processors(b)-used)
			}
			for b.Loop() {
				p, err := NewPlan(s, "f", filepath.Join(b.TempDir(), "set"), 1, 10, "test")
				if err == nil {
					err = p.Write()
				}
				if err != nil {
					b.Fatal(err)
				}
				u, err := p.Unit(0)
				if err != nil {
					b.Fatal(err)
				}
				timed(0, func() error {
					e, err := u.engine()
					if err != nil {
						return err
					}
					return e.Run(context.Background(), nil)
				})
				timed(1, func() error {
					_, err := p.Make(context.Background(), Run{Units: []int{0}, Workers: 1, Checkpoint: 5 * time.Second, Version: "test"})
					return err
				})
			}
			for k, name := range []string{"%-more", "%-more-CPU"} {
				b.ReportMetric(100*(least[1][k].Seconds()/least[0][k].Seconds()-1), name)
			}
			b.ReportMetric(least[0][0].Seconds()*1e3, "ms-bare")
		})
	}
}

// processors is the time that the process has used them.
func processors(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
