//go:build unix

package dataset

import (
	"context"
	"math"
	"path/filepath"
	"slices"
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
// alone on the same rollouts, by turns: bare, whole, whole, bare. More is the share that units
// take beyond the engine, by the clock and in processors' time: the median of all rounds, each
// a round's own two against its own two, so that a machine whose speed drifts does not tell.
// Off is how far half of the rounds are from it at most. space is twelve operators of Spinlock's
// space at base 16, of 2 to 5 layers; the others are three operators each.
func BenchmarkOverhead(b *testing.B) {
	const one = `{"operator.num_layers":{"choice":[LAYERS]}}`
	const space = `{"operator.num_layers":{"integer":[2,5]},"operator.kernel_size":{"choice":[3,5,7]},` +
		`"operator.dropout_rate":{"real":[0,0.3]},"rollout.policy_type":{"choice":["residual","convex"],` +
		`"weights":[0.75,0.25]}}`
	for _, c := range []struct{ name, store, operators, steps, space string }{
		{"space/safetensors", `{}`, "12", "6", space}, {"space/hdf5", `{"file":".h5"}`, "12", "6", space},
		{"layers2/safetensors", `{}`, "3", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers2/float16", `{"format":"float16"}`, "3", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers2/hdf5", `{"file":".h5"}`, "3", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers2/features", `{"states":false}`, "3", "41", strings.Replace(one, "LAYERS", "2", 1)},
		{"layers4/safetensors", `{}`, "3", "41", strings.Replace(one, "LAYERS", "4", 1)},
		{"layers4/hdf5", `{"file":".h5"}`, "3", "41", strings.Replace(one, "LAYERS", "4", 1)},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Parse("f", []byte(strings.NewReplacer("STORE", c.store, "OPERATORS", c.operators, "STEPS",
				c.steps, "SPACE", c.space).Replace(overhead)))
			if err != nil {
				b.Fatal(err)
			}
			var more, moreCPU, bare []float64
			timed := func(f func() error) (clock, used float64) {
				began, was := time.Now(), processors(b)
				if err := f(); err != nil {
					b.Fatal(err)
				}
				return time.Since(began).Seconds(), (processors(b) - was).Seconds()
			}
			for b.Loop() {
				var clock, used [2]float64 // bare and whole
				for _, k := range [4]int{0, 1, 1, 0} {
					p, err := New(s, "f", filepath.Join(b.TempDir(), "set"), 1, 10, "test")
					if err == nil {
						err = p.Write()
					}
					if err != nil {
						b.Fatal(err)
					}
					t, u := timed([]func() error{func() error { return bareUnits(p) }, func() error { return makeUnits(p) }}[k])
					clock[k], used[k] = clock[k]+t, used[k]+u
				}
				more, moreCPU = append(more, 100*(clock[1]/clock[0]-1)), append(moreCPU, 100*(used[1]/used[0]-1))
				bare = append(bare, 1e3*clock[0]/2)
			}
			for _, of := range []struct {
				name string
				x    []float64
			}{{"%-more", more}, {"%-more-CPU", moreCPU}} {
				m := median(of.x)
				for i, v := range of.x {
					of.x[i] = math.Abs(v - m)
				}
				b.ReportMetric(m, of.name)
				b.ReportMetric(median(of.x), strings.Replace(of.name, "more", "off", 1))
			}
			b.ReportMetric(median(bare), "ms-bare")
		})
	}
}

// bareUnits runs the rollouts of all units and keeps nothing.
func bareUnits(p *Dataset) error {
	for i := range p.Lines {
		u, err := p.Unit(i)
		if err != nil {
			return err
		}
		e, err := u.engine()
		if err != nil {
			return err
		}
		if err := e.Run(context.Background(), nil); err != nil {
			return err
		}
	}
	return nil
}

func makeUnits(p *Dataset) error {
	all := make([]int, len(p.Lines))
	for i := range all {
		all[i] = i
	}
	_, err := p.Make(context.Background(), Run{Units: all, Workers: 1, Checkpoint: 5 * time.Second, Version: "test"})
	return err
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// processors is the time that the process has used them.
func processors(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
