package exhaust

import (
	"flag"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/dd"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

var (
	exhaustive = flag.Bool("exhaustive", false,
		"TestFull: all 2^32 float32 inputs and a million random points of each function")
	only = flag.String("func", "", "TestFull: one function instead of all")
)

var evaluated = []act.Func{act.GELU, act.GELUTanh, act.SiLU, act.Tanh}

// report fails the test unless r is OK and has n inputs.
func report(t *testing.T, r Report, err error, n uint64) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	for _, m := range r.First {
		t.Error(m)
	}
	if !r.OK() || r.Inputs != n {
		t.Errorf("want %d inputs and no mistake", n)
	}
	if r.Special+r.Simple+r.Double+r.Fixed != n {
		t.Errorf("the counts do not add up to %d", n)
	}
}

// Random points, every one decided by fixed-point arithmetic, and the same ones
// for the same seed only.
func TestRandom(t *testing.T) {
	for _, f := range evaluated {
		for _, format := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
			r, err := Random(f, format, 200, 1, nil)
			report(t, r, err, 200)
			if r.Fixed != 200 {
				t.Errorf("%v in %v: only %d decided by fixed-point arithmetic", f, format, r.Fixed)
			}
		}
	}
}

// TestFull is the run over everything, with -exhaustive:
//
//	go test ./internal/judges/exhaust -run Full -exhaustive -v -timeout 0
//
// Without that flag it takes a slice, every 2^21st number or so.
func TestFull(t *testing.T) {
	for f := act.Identity; int(f) < len(judges); f++ {
		if *only != "" && f.String() != *only {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			job, random := All(f, fp16.Float32), uint64(1_000_000)
			if !*exhaustive {
				job.Step, random = 1<<21-1, 20
			}
			start, last := time.Now(), time.Now()
			r, err := Run(job, func(done, total uint64) {
				if time.Since(last) > time.Minute {
					last = time.Now()
					t.Logf("%v: %.1f %% after %v", f, 100*float64(done)/float64(total), time.Since(start).Round(time.Second))
				}
			})
			report(t, r, err, uint64(math.MaxUint32)/uint64(max(job.Step, 1))+1)
			t.Logf("%v took %v", f, time.Since(start).Round(time.Millisecond))
			if judges[f].eval == nil {
				return
			}
			r, err = Random(f, fp16.Float32, random, 2, nil)
			report(t, r, err, random)
			if !*exhaustive {
				return
			}
			for _, format := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
				job := All(f, format)
				job.Exactly = true
				r, err := Run(job, nil)
				report(t, r, err, 1<<16)
			}
		})
	}
}

// Wrong results are found, each of them and nothing else: a neighbour, the other
// zero, another NaN, a number off the grid, an infinity.
func TestMistakes(t *testing.T) {
	neighbour := func(y float64) float64 { return float64(math.Float32frombits(math.Float32bits(float32(y)) ^ 1)) }
	for name, spoil := range map[string]struct {
		at    func(x float64) bool
		to    func(y float64) float64
		count uint64
	}{
		"neighbour":        {func(x float64) bool { return x == -1.5 }, neighbour, 1},
		"neighbour, tiny":  {func(x float64) bool { return math.Abs(x) == 0x1p-60 }, neighbour, 2},
		"neighbour, least": {func(x float64) bool { return x == 0x1p-149 }, neighbour, 1},
		"neighbour, large": {func(x float64) bool { return x == 0x1p120 }, neighbour, 1},
		"sign": {
			func(x float64) bool { return x == 0x1p-149 || x == -0x1p-147 }, func(y float64) float64 { return -y }, 2,
		},
		"zero": {
			func(x float64) bool { return x == 0 && !math.Signbit(x) }, func(y float64) float64 { return -y }, 1,
		},
		"off the grid": {
			func(x float64) bool { return x == 0.5 }, func(y float64) float64 { return y * (1 + 0x1p-30) }, 1,
		},
		"infinity": {func(x float64) bool { return x == 3 }, func(float64) float64 { return inf }, 1},
		"NaN":      {func(x float64) bool { return x == 3 }, func(float64) float64 { return fp16.NaN }, 1},
		"NaN payload": {func(x float64) bool { return math.IsInf(x, 1) },
			func(float64) float64 { return math.Float64frombits(0x7ff8000000000001) }, 1},
	} {
		for _, f := range evaluated {
			for _, exactly := range []bool{false, true} {
				// Every power of two of either sign, the least number, one of 1.5 and 3.
				var bits []uint32
				for _, s := range []uint32{0, 1 << 31} {
					for e := range uint32(256) {
						bits = append(bits, s|e<<23)
					}
					bits = append(bits, s|1, s|4, s|math.Float32bits(1.5), s|math.Float32bits(3))
				}
				r := runner{job: Job{Func: f, Format: fp16.Float32, Exactly: exactly}, n: uint64(len(bits)),
					input: func(i uint64) uint32 { return bits[i] },
					forward: func(dst, src *tensor.Tensor, f act.Func) {
						act.Forward(dst, src, f)
						for i, x := range src.Data {
							if spoil.at(x) {
								dst.Data[i] = spoil.to(dst.Data[i])
							}
						}
					}}
				got := r.run()
				if got.Wrong != spoil.count || got.Undecided != 0 || len(got.First) != int(spoil.count) || got.OK() {
					t.Errorf("%v, %s, exactly %v: %v, want %d wrong; %v", f, name, exactly, got, spoil.count, got.First)
				}
			}
		}
	}
}

// A function that is wrong by a relative 2^-24 somewhere is found wherever that
// shows, and ten mistakes are kept of however many.
func TestManyMistakes(t *testing.T) {
	var calls atomic.Int64
	r := runner{job: All(act.SiLU, fp16.BFloat16), n: 1 << 16, input: func(i uint64) uint32 { return uint32(i) },
		progress: func(done, total uint64) {
			if calls.Add(1); done > total || total != 1<<16 {
				t.Errorf("progress(%d, %d)", done, total)
			}
		},
		forward: func(dst, src *tensor.Tensor, f act.Func) { act.Forward(dst, src, act.GELU) }}
	got := r.run()
	if got.Wrong < 2000 || len(got.First) != 10 || got.OK() || calls.Load() != 1<<16/piece {
		t.Errorf("gelu as silu: %v, %d kept, progress called %d times", got, len(got.First), calls.Load())
	}
	if s := got.First[0].String(); !strings.HasPrefix(s, "silu(0x") || !strings.Contains(s, "bfloat16") {
		t.Errorf("mistake %q", s)
	}
}

// What is not written is found, though the buffer held the right result before,
// and of many pieces with few mistakes ten are kept.
func TestNotWritten(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one buffer
	const x, pieces, want = -0.25, 8, 7 * 4
	calls := 0
	r := runner{job: All(act.Tanh, fp16.Float32), n: pieces * piece,
		input: func(uint64) uint32 { return math.Float32bits(x) },
		forward: func(dst, src *tensor.Tensor, f act.Func) {
			all := tensor.Like(src)
			act.Forward(all, src, f)
			for i, y := range all.Data {
				if calls == 0 || i%1024 != 0 {
					dst.Data[i] = y
				}
			}
			calls++
		}}
	if got := r.run(); got.Wrong != want || len(got.First) != mistakes {
		t.Errorf("%v, want %d wrong; %d kept", got, want, len(got.First))
	}
}

// Cells are what rounds to a number: their ends are the middles, where another
// judge's rounding changes.
func TestCells(t *testing.T) {
	for format, g := range grids {
		count, step := uint32(1<<13), uint32(4)
		if format == fp16.Float32 {
			count, step = 1<<11, 1<<20
		}
		for i := range 2 * count {
			a := g.decode(i/2*step + i%2) // every power of two is among them
			lo, hi, ok := g.cell(a)
			if finite := a-a == 0; ok != finite {
				t.Fatalf("%v: cell(%x) is %v", format, a, ok)
			} else if !finite {
				continue
			}
			for _, c := range []struct {
				x      float64
				inside bool
			}{
				{math.Nextafter(lo, inf), true}, {math.Nextafter(hi, 0), true},
				{math.Nextafter(lo, -inf), false}, {math.Nextafter(hi, inf), false},
			} {
				y := bigref.Round(bigref.Rat(c.x), format)
				if (math.Float64bits(y) == math.Float64bits(a)) != c.inside {
					t.Fatalf("%v: %x rounds to %x; the cell of %x is %x to %x", format, c.x, y, a, lo, hi)
				}
			}
		}
		for _, a := range []float64{inf, math.NaN(), 1 + 0x1p-40, 0x1p-160, power(g.emax + 1), 0x1p200} {
			if _, _, ok := g.cell(a); ok {
				t.Errorf("%v: %x has a cell", format, a)
			}
		}
	}
}

// The simple inequalities hold, beside their thresholds and beyond, against
// math/big.
func TestSimple(t *testing.T) {
	var xs []float64
	for _, v := range []float64{0x1p-149, 0x1p-126, 0x1p-60, 0x1p-30, 0x1p-15, 8, -dd.GELUTanhEnd, -dd.GELUEnd, 16, 32,
		-dd.SiLUEnd, 1e6, math.MaxFloat32} {
		for d := range uint32(3) {
			x := float64(math.Float32frombits(math.Float32bits(float32(v)) + d - 1))
			xs = append(xs, x, -x)
		}
	}
	for b := uint32(0); b < math.MaxUint32-1<<23; b += 1<<23 - 1 {
		xs = append(xs, float64(math.Float32frombits(b)))
	}
	for f, round := range map[act.Func]func(float64, fp16.Format) float64{
		act.GELU: bigref.GELU, act.GELUTanh: bigref.GELUTanh, act.SiLU: bigref.SiLU, act.Tanh: bigref.RoundTanh,
	} {
		n := 0
		for _, x := range xs {
			lo, hi, ok := judges[f].simple(x)
			if !ok || x == 0 || x-x != 0 {
				continue
			}
			n++
			y := math.Abs(round(x, fp16.Float64)) // rounded: the ends are possible
			if !(lo <= y && y <= hi) {
				t.Fatalf("%v(%x) is %x, not between %x and %x", f, x, y, lo, hi)
			}
		}
		if n < 400 {
			t.Errorf("%v: only %d numbers", f, n)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		job  Job
		want string
	}{
		{Job{Func: act.GELU, Format: fp16.Float64, Last: 9}, "format float64: want float32"},
		{Job{Func: act.GELU, Format: fp16.TF32, Last: 9}, "format tf32: want float32"},
		{Job{Func: 99, Format: fp16.Float32, Last: 9}, "Func(99)"},
		{Job{Func: act.GELU, Format: fp16.Float32, First: 10, Last: 9}, "0xa to 0x9"},
		{Job{Func: act.GELU, Format: fp16.Float16, Last: 1 << 16}, "0x10000"},
	} {
		if _, err := Run(c.job, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.job, err, c.want)
		}
	}
	if _, err := Random(act.ReLU, fp16.Float32, 1, 1, nil); err == nil || !strings.Contains(err.Error(), "relu") {
		t.Errorf("random points of relu: %v", err)
	}
	if (Report{}).OK() {
		t.Error("nothing done is OK")
	}
}

// Steps reach both ends and count as they should.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		job  Job
		want uint64
	}{
		{Job{First: 5, Last: 5}, 1},
		{Job{First: 5, Last: 5 + 3*piece}, 3*piece + 1},
		{Job{First: math.MaxUint32 - 10, Last: math.MaxUint32, Step: 5}, 3},
		{Job{First: 0, Last: math.MaxUint32, Step: 1 << 31}, 2},
	} {
		c.job.Func, c.job.Format = act.Tanh, fp16.Float32
		r, err := Run(c.job, nil)
		report(t, r, err, c.want)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, f := range evaluated {
		b.Run(f.String(), func(b *testing.B) {
			job := Job{Func: f, Format: fp16.Float32, First: 0xbf000000, Last: 0xbf000000 + 1<<18 - 1}
			for b.Loop() {
				if r, err := Run(job, nil); err != nil || !r.OK() {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1<<18), "ns/input")
		})
	}
}
