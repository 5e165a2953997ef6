//go:build unix

package rollout

import (
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
)

// BenchmarkStored tells what an output takes of the processors for each state of 3x128x128
// numbers, from the state to the file of its final name, in the program and in the system:
// conversion, diagnostics, digest, checksums, writing and the audit, for
// files of 2 realizations of 41 states.
func BenchmarkStored(b *testing.B) {
	s := Trajectory{2, 41, []int{3, 128, 128}, nil}
	r := rand.New(rand.NewPCG(1, 2))
	var states [2][2][]float64 // they take turns
	for i := range states {
		for m := range states[i] {
			states[i][m] = make([]float64, s.Len())
			for k := range states[i][m] {
				states[i][m][k] = float64(float32(r.NormFloat64()))
			}
		}
	}
	processors := func() (program, system time.Duration) {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
	}
	c := Config{Timesteps: s.T, Realizations: s.M}
	for _, of := range []struct {
		name   string
		format fp16.Format
		create func(at partialFile, f fp16.Format) (trajectory, error)
	}{
		{"safetensors", fp16.Float32, benchFlat(s, c)},
		{"float16", fp16.Float16, benchFlat(s, c)},
		{"hdf5", fp16.Float32, func(at partialFile, f fp16.Format) (trajectory, error) {
			return createHDF5(at, s, c, f, Huffman, nil, nil)
		}},
		{"features", fp16.Float32, func(at partialFile, f fp16.Format) (trajectory, error) {
			return newMeasured(at, s, c, func(*Measures) error { return nil }, nil)
		}},
	} {
		b.Run(of.name, func(b *testing.B) {
			dir := b.TempDir()
			program, system := processors()
			for b.Loop() {
				o, err := of.create(partialFile{path: filepath.Join(dir, "x.h5")}, of.format)
				if err != nil {
					b.Fatal(err)
				}
				o.sealing(NewDigest(of.format, s.M, s.T, s.State...))
				for t := range s.T {
					x := states[t%2]
					var prev [2][]float64
					if t > 0 {
						prev = states[(t-1)%2]
					}
					o.(pairwise).ahead(t, 0, x, prev)
					for m := range s.M {
						if err := o.State(t, m, x[m], prev[m]); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := o.Finish(); err != nil {
					b.Fatal(err)
				}
				if err := remove(filepath.Join(dir, "x.h5")); err != nil { // of which features alone have none
					b.Fatal(err)
				}
			}
			p, q := processors()
			n := float64(b.N) * float64(s.states())
			b.ReportMetric(1e6*(p-program).Seconds()/n, "µs-program")
			b.ReportMetric(1e6*(q-system).Seconds()/n, "µs-system")
		})
	}
}

func benchFlat(s Trajectory, c Config) func(at partialFile, f fp16.Format) (trajectory, error) {
	return func(at partialFile, f fp16.Format) (trajectory, error) {
		o, err := layOutSafetensors(at, s, c, f, nil)
		if err != nil {
			return nil, err
		}
		return o, o.begin(nil)
	}
}
