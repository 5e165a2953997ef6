// Package exhaust runs the activation functions of package act over whole sets
// of inputs, such as all float32 numbers, and proves each result right or wrong.
//
// A result is right if the exact value lies in its cell, the real numbers that
// round to it, and if it has the value's sign. That takes no rounding of the
// judge's own. Three judges are asked in turn: a simple inequality where the
// function is close to x, x/2, 1 or 0; the double-double evaluation of
// internal/exact/dd with its bound; and its fixed-point evaluation. No exact value is
// the end of a cell (docs/NUMERICS.md, section 3), so only a bug could leave a
// result undecided; it is counted, and the report is not OK.
package exhaust

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/tensor"
)

// Job is a set of inputs: the numbers of Format whose bit patterns are First,
// First + Step, ..., up to Last. Format is Float32, Float16 or BFloat16, for
// source and destination; Step 0 means 1. Exactly asks the fixed-point judge
// wherever no simple inequality decides, which takes some 50 to 200 microseconds
// a number.
type Job struct {
	Func        act.Func
	Format      fp16.Format
	First, Last uint32
	Step        uint32
	Exactly     bool
}

// All returns the job of every bit pattern of a format.
func All(f act.Func, format fp16.Format) Job {
	job := Job{Func: f, Format: format, Last: math.MaxUint32}
	if format != fp16.Float32 {
		job.Last = math.MaxUint16
	}
	return job
}

// Report counts what became of the inputs: Special ones (NaN, infinities and
// zeros, and all of relu and none) have a written rule; the others were decided
// by a Simple inequality, by Double-double arithmetic or by Fixed-point
// arithmetic. Wrong ones are among these. First holds up to ten of the wrong.
type Report struct {
	Inputs, Special, Simple, Double, Fixed uint64
	Undecided, Wrong                       uint64
	First                                  []Mistake
}

// Mistake is a wrong or undecided result: bits of the input and of the float64
// that act.Forward gave, and the value it should have rounded.
type Mistake struct {
	Func      act.Func
	Format    fp16.Format
	In        uint32
	Got, Want float64
}

// String is one line with all there is to know.
func (m Mistake) String() string {
	return fmt.Sprintf("%v(%#0*x) in %v is %x, want %.17x rounded",
		m.Func, 2+digits(m.Format), m.In, m.Format, m.Got, m.Want)
}

// digits returns the number of hexadecimal digits of the format's bit patterns.
func digits(f fp16.Format) int {
	if f == fp16.Float32 {
		return 8
	}
	return 4
}

// OK reports whether there were inputs and every result was proven right.
func (r Report) OK() bool { return r.Inputs > 0 && r.Wrong == 0 && r.Undecided == 0 }

// String is the report in one line, without the mistakes.
func (r Report) String() string {
	return fmt.Sprintf("%d inputs: %d special, decided by inequality %d, double-double %d, fixed point %d; undecided "+
		"%d, wrong %d", r.Inputs, r.Special, r.Simple, r.Double, r.Fixed, r.Undecided, r.Wrong)
}

// merge adds s to r.
func (r *Report) merge(s *Report) {
	r.Inputs += s.Inputs
	r.Special += s.Special
	r.Simple += s.Simple
	r.Double += s.Double
	r.Fixed += s.Fixed
	r.Undecided += s.Undecided
	r.Wrong += s.Wrong
	if room := mistakes - len(r.First); room > 0 {
		r.First = append(r.First, s.First[:min(room, len(s.First))]...)
	}
}

// mistakes is the number of mistakes a report keeps.
const mistakes = 10

// Run runs a job on all processors. progress, if not nil, is called now and
// then, from one goroutine at a time, with the number of inputs done and their
// total. The error names what the job asks for and cannot be.
func Run(job Job, progress func(done, total uint64)) (Report, error) {
	if job.Step == 0 {
		job.Step = 1
	}
	if err := job.check(); err != nil {
		return Report{}, err
	}
	n := uint64(job.Last-job.First)/uint64(job.Step) + 1
	r := runner{job: job, n: n, forward: act.Forward, progress: progress,
		input: func(i uint64) uint32 { return job.First + uint32(i)*job.Step }}
	return r.run(), nil
}

// Random runs n inputs that seed picks among those that no rule and no simple
// inequality decides, and judges every one with fixed-point arithmetic.
func Random(f act.Func, format fp16.Format, n, seed uint64, progress func(done, total uint64)) (Report, error) {
	job := All(f, format)
	job.Exactly = true
	if err := job.check(); err != nil {
		return Report{}, err
	}
	j := judges[f]
	if j.eval == nil {
		return Report{}, fmt.Errorf("exhaust: activation %v: want one that is evaluated, gelu, gelu_tanh, silu or tanh", f)
	}
	grid := grids[format]
	input := func(i uint64) uint32 {
		for k := uint64(0); ; k++ {
			b := uint32(mix(mix(seed+i)+k)) & job.Last
			if x := grid.decode(b); x != 0 && x-x == 0 {
				if _, _, ok := j.simple(x); !ok {
					return b
				}
			}
		}
	}
	r := runner{job: job, n: n, forward: act.Forward, progress: progress, input: input}
	return r.run(), nil
}

// mix is the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (job Job) check() error {
	_, known := grids[job.Format]
	switch {
	case !known:
		return fmt.Errorf("exhaust: format %v: want float32, float16 or bfloat16", job.Format)
	case int(job.Func) >= len(judges):
		return fmt.Errorf("exhaust: activation %v: want one of package act", job.Func)
	case job.First > job.Last || job.Last > All(job.Func, job.Format).Last:
		return fmt.Errorf("exhaust: bit patterns %#x to %#x: want a range within %v", job.First, job.Last, job.Format)
	}
	return nil
}

// piece is the number of inputs one call of forward takes.
const piece = 4096

// runner is one run: n inputs and the operation they are put through.
type runner struct {
	job      Job
	n        uint64
	input    func(i uint64) uint32
	forward  func(dst, src *tensor.Tensor, f act.Func)
	progress func(done, total uint64)
}

// run spreads the pieces over the processors.
func (r *runner) run() Report {
	var (
		total Report
		next  uint64
		mu    sync.Mutex
		wg    sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			src, dst := tensor.New(r.job.Format, 1, 1, 1, piece), tensor.New(r.job.Format, 1, 1, 1, piece)
			bits := make([]uint32, piece)
			var part Report
			for {
				mu.Lock()
				total.merge(&part)
				if part.Inputs > 0 && r.progress != nil {
					r.progress(total.Inputs, r.n)
				}
				first := next
				next += min(piece, r.n-next)
				last := next
				mu.Unlock()
				if part = (Report{}); first == last {
					return
				}
				r.piece(&part, first, bits[:last-first], src, dst)
			}
		})
	}
	wg.Wait()
	return total
}

// piece runs the inputs from number first on, as many as bits holds.
func (r *runner) piece(part *Report, first uint64, bits []uint32, src, dst *tensor.Tensor) {
	n, g, j := len(bits), grids[r.job.Format], &judges[r.job.Func]
	in := tensor.Of(r.job.Format, src.Data[:n], 1, 1, 1, n)
	out := tensor.Of(r.job.Format, dst.Data[:n], 1, 1, 1, n)
	for i := range bits {
		bits[i] = r.input(first + uint64(i))
		in.Data[i] = g.decode(bits[i])
		out.Data[i] = 77 // not the result of anything
	}
	r.forward(out, in, r.job.Func)
	part.Inputs = uint64(n)
	for i, y := range out.Data {
		verdict, want := j.judge(g, in.Data[i], y, r.job.Exactly, part)
		if verdict == right {
			continue
		}
		if verdict == wrong {
			part.Wrong++
		} else {
			part.Undecided++
		}
		if len(part.First) < mistakes {
			part.First = append(part.First, Mistake{r.job.Func, r.job.Format, bits[i], y, want})
		}
	}
}
