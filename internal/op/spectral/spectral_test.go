package spectral

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/hashed"
	"github.com/refrun/refrun/tensor"
)

var elements = flag.Int("spectral.elements", 8000, "parts of numbers that are held to the judge")

var formats = []fp16.Format{fp16.Float32, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16}

// makers make number i of n, hard in one way or another.
var makers = []struct {
	name string
	make func(r *rand.Rand, i, n int) float64
}{
	{"normal", func(r *rand.Rand, i, n int) float64 { return r.NormFloat64() }},
	{"integers", func(r *rand.Rand, i, n int) float64 { return float64(r.IntN(9) - 4) }},
	{"large integers", func(r *rand.Rand, i, n int) float64 { return float64(r.IntN(1<<24) - 1<<23) }},
	{"constant", func(r *rand.Rand, i, n int) float64 { return 1.25 }},
	{"alternating", func(r *rand.Rand, i, n int) float64 { return 0.75 - float64(i%2)*1.5 }},
	{"impulse", func(r *rand.Rand, i, n int) float64 { return float64((n - 1 - i) / max(n-1, 1) * 3) }},
	{"sparse", func(r *rand.Rand, i, n int) float64 { return float64(r.IntN(8)/7) * r.NormFloat64() }},
	{"smooth", func(r *rand.Rand, i, n int) float64 { return 1 / (2 + math.Cos(2*math.Pi*float64(i)/float64(n))) }},
	{"cancelling", func(r *rand.Rand, i, n int) float64 {
		return (float64(r.IntN(2))*2 - 1) * (1 + float64(r.IntN(8))*0x1p-23)
	}},
	{"wide", func(r *rand.Rand, i, n int) float64 { return math.Ldexp(r.Float64()-0.5, r.IntN(240)-120) }},
	{"tiny", func(r *rand.Rand, i, n int) float64 { return math.Ldexp(float64(r.IntN(65)-32), -149) }},
	{"halves", func(r *rand.Rand, i, n int) float64 { return float64(r.IntN(4097)-2048) / 2048 }},
	{"period", func(r *rand.Rand, i, n int) float64 { return float64(i % 4) }},
	{"zeros", func(r *rand.Rand, i, n int) float64 { return math.Copysign(0, float64(r.IntN(2))-0.5) }},
}

// lengths of lines: all to 64, and some beyond.
func length(r *rand.Rand, most int) int {
	if most > 64 && r.IntN(8) == 0 {
		return []int{65, 81, 97, 100, 101, 125, 128, 256}[r.IntN(8)]
	}
	return 1 + r.IntN(min(most, 64))
}

func equal(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// trial is one transform with its judge.
type trial struct {
	kind     string
	norm     Norm
	src, dst *tensor.Tensor
	axes     []int
	judges   []*judged // of each set
	places   [][]int   // of the numbers of each set in dst
	what     string
}

var transforms = []string{"fft", "ifft", "rfft", "irfft"}

// newTrial makes a transform of random shape and axes.
func newTrial(r *rand.Rand, kind string, i int) *trial {
	m := makers[i%len(makers)]
	t := &trial{kind: kind, norm: Norm(r.IntN(3))}
	// The logical shape: of the longer side of a half spectrum.
	var shape []int
	switch r.IntN(3) {
	case 0:
		shape = []int{length(r, 256)}
	case 1:
		shape = []int{length(r, 12), length(r, 12)}
	default:
		shape = []int{length(r, 4), length(r, 6), length(r, 5)}
	}
	t.axes = r.Perm(len(shape))[:1+r.IntN(len(shape))]
	last := t.axes[len(t.axes)-1]
	half := append([]int(nil), shape...)
	half[last] = shape[last]/2 + 1
	pair := func(s []int) []int { return append(append([]int(nil), s...), 2) }
	from, in, out := formats[r.IntN(len(formats))], shape, shape
	to := formats[r.IntN(len(formats))]
	switch t.kind {
	case "rfft":
		out = half
		t.src, t.dst = tensor.New(from, in...), tensor.New(to, pair(out)...)
	case "irfft":
		in = half
		t.src, t.dst = tensor.New(from, pair(in)...), tensor.New(to, out...)
	default:
		t.src, t.dst = tensor.New(from, pair(in)...), tensor.New(to, pair(out)...)
		if r.IntN(4) == 0 {
			t.src = tensor.New(from, append(append([]int(nil), in...), 1)...)
		}
	}
	for i := range t.src.Data {
		t.src.Data[i] = from.Round(m.make(r, i, len(t.src.Data)))
		if v := t.src.Data[i]; v-v != 0 {
			t.src.Data[i] = 1 // beyond a narrow format
		}
	}
	parts := len(t.src.Data) / tensor.Size(in)
	for _, places := range sets(in, t.axes) {
		j := &judged{kind: t.kind, norm: t.norm, n: shape[last]}
		for _, a := range t.axes {
			j.shape = append(j.shape, in[a])
		}
		for _, at := range places {
			v := complex(t.src.Data[parts*at], 0)
			if parts == 2 {
				v = complex(t.src.Data[2*at], t.src.Data[2*at+1])
			}
			j.x = append(j.x, v)
		}
		t.judges = append(t.judges, j)
	}
	t.places = sets(out, t.axes)
	for k, a := range t.axes {
		if r.IntN(3) == 0 {
			t.axes[k] = a - len(shape)
		}
	}
	t.what = fmt.Sprintf("trial %d: %s %s of %v %v along %v of %v in %v",
		i, t.kind, t.norm, m.name, from, t.axes, shape, to)
	return t
}

// sets returns the places of the numbers that are transformed together, by counting
// through all indices: the last of the axes runs fastest.
func sets(shape, axes []int) [][]int {
	count := 1
	for a, d := range shape {
		if !contains(axes, a) {
			count *= d
		}
	}
	out := make([][]int, count)
	size := tensor.Size(shape) / count
	for i := range out {
		out[i] = make([]int, size)
	}
	index := make([]int, len(shape))
	for at := range tensor.Size(shape) {
		rest := at
		for a := len(index) - 1; a >= 0; a-- {
			index[a] = rest % shape[a]
			rest /= shape[a]
		}
		set, in := 0, 0
		for a, k := range index {
			if !contains(axes, a) {
				set = set*shape[a] + k
			}
		}
		for _, a := range axes {
			in = in*shape[a] + index[a]
		}
		out[set][in] = at
	}
	return out
}

func contains(axes []int, a int) bool {
	for _, b := range axes {
		if b == a {
			return true
		}
	}
	return false
}

func (t *trial) run() {
	map[string]func(dst, src *tensor.Tensor, axes []int, norm Norm){
		"fft": FFT, "ifft": IFFT, "rfft": RFFT, "irfft": IRFFT,
	}[t.kind](t.dst, t.src, t.axes, t.norm)
}

// TestAgainstJudge: every part of every number is the judge's.
func TestAgainstJudge(t *testing.T) {
	r, o := rand.New(rand.NewPCG(1, 2)), hashed.New(t, *elements)
	for i := 0; ; i++ {
		kind, done := o.Least(transforms...)
		if done >= *elements/4 {
			break
		}
		c := newTrial(r, transforms[kind], i)
		c.run()
		if o.Add(c.kind, c.dst.Data...); !o.Judge {
			continue
		}
		parts := 2
		if c.kind == "irfft" {
			parts = 1
		}
		for set, places := range c.places {
			for k, at := range places {
				for p := range parts {
					got, want := c.dst.Data[parts*at+p], c.judges[set].round(k, p, c.dst.Format)
					if !equal(got, want) {
						t.Fatalf("%s: part %d of number %d of set %d is %v, want %v", c.what, p, k, set, got, want)
					}
				}
			}
		}
	}
}

// TestPlanes: so is every number of larger planes.
func TestPlanes(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, m := range makers {
		if m.name != "normal" && m.name != "smooth" && m.name != "sparse" {
			continue // the judge takes its time for zeros
		}
		const h, w = 24, 64
		x, y := tensor.New(fp16.Float32, h, w), tensor.New(fp16.Float32, h, w/2+1, 2)
		j := &judged{kind: "rfft", norm: Ortho, shape: []int{h, w}}
		for i := range x.Data {
			x.Data[i] = fp16.Float32.Round(m.make(r, i, 2*w))
			j.x = append(j.x, complex(x.Data[i], 0))
		}
		RFFT(y, x, []int{0, 1}, Ortho)
		for i, v := range y.Data {
			if want := j.round(i/2, i%2, fp16.Float32); !equal(v, want) {
				t.Fatalf("%s: part %d of number %d is %v, want %v", m.name, i%2, i/2, v, want)
			}
		}
	}
}

// TestThreads: the bits are the same for every number of threads, and in place.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		runtime.GOMAXPROCS(1)
		c := newTrial(r, transforms[r.IntN(4)], i)
		c.run()
		want := c.dst.Clone()
		for _, threads := range []int{2, 3, 5} {
			runtime.GOMAXPROCS(threads)
			if clear(c.dst.Data); c.src.SameShape(c.dst) && c.src.Format == c.dst.Format {
				c.dst = c.src.Clone()
				src := c.src
				c.src = c.dst
				c.run()
				c.src = src
			} else {
				c.run()
			}
			for k := range want.Data {
				if !equal(c.dst.Data[k], want.Data[k]) {
					t.Fatalf("%s: %d threads: number %d is %v, want %v", c.what, threads, k, c.dst.Data[k], want.Data[k])
				}
			}
		}
	}
}
