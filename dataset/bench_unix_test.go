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

// overhead is a specification of operators of base 16 on 128x128, as Spinlock's space has
// them, but for their number, what is stored, and what varies.
const overhead = `{"seed":1,"operator":{"base_channels":16,"grid_size":128,"noise_type":"gaussian","noise_scale":0.05},
"rollout":{"num_timesteps":STEPS,"num_realizations":2},"operators":OPERATORS,"store":STORE,"space":SPACE}`

// BenchmarkOverhead makes units, their files, hashes and records included, and times the engine
// alone on the same rollouts, one after the other: more is the share that units take
// beyond the engine, of the least time of each, and of the processors' time. space is twelve
// operators of Spinlock's space at base 16, of 2 to 5 layers; the others are one operator each.
func BenchmarkOverhead(b *testing.B) {
	const one = `{"operator.num_layers":{"choice":[LAYERS]}}`
	const space = `{"operator.num_layers":{"integer":[2,5]},"operator.kernel_size":{"choice":[3,5,7]},"operator.dropout_rate":{"real":[0,0.3]},"rollout.policy_type":{"choice":["residual","convex"],"weights":[0.75,0.25]}}`
	for _, c := range []struct{ name, store, operators, steps, space string }{
		{"space/safetensors", `{}`, "12", "6", space}, {"space/hdf5", `{"file":".h5"}`, "12", "6", space},
		{"layers2/safetensors", `{}`, "1", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers2/float16", `{"format":"float16"}`, "1", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers2/hdf5", `{"file":".h5"}`, "1", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers2/features", `{"states":false}`, "1", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers4/safetensors", `{}`, "1", "41", strings.Replace(one, "LAYERS", "4", 1)},
		{"layers4/hdf5", `{"file":".h5"}`, "1", "41", strings.Replace(one, "LAYERS", "4", 1)},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Parse("f", []byte(strings.NewReplacer("STORE", c.store, "OPERATORS", c.operators, "STEPS", c.steps, "SPACE", c.space).Replace(overhead)))
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
				all := make([]int, len(p.Lines))
				timed(0, func() error {
					for i := range all {
						all[i] = i
						u, err := p.Unit(i)
						if err != nil {
							return err
						}
						e, err := u.engine()
						if err == nil {
							err = e.Run(context.Background(), nil)
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
				timed(1, func() error {
					_, err := p.Make(context.Background(), Run{Units: all, Workers: 1, Checkpoint: 5 * time.Second, Version: "test"})
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
