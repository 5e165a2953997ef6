package noise

import (
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// The correctly rounded functions stand for a C library's, whose results may be
// the neighbouring float32 numbers: for the arguments that occur, those round to
// the same half number, but for the cosines of two float16 angles. There the
// rounding of glibc's cosf, which is within 0.57 ulp, is that of the exact cosine.
func TestTorchHalfFunctions(t *testing.T) {
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		n := map[fp16.Format]int{fp16.BFloat16: 1 << 8, fp16.Float16: 1 << 11}[f]
		var sensitive [3]int
		for k := range n {
			u := float64(k) / float64(n)
			theta := f.Round(float64(float32(2 * math.Pi * u)))
			for i, exact := range [3]float64{math.Log(1 - u), math.Sin(theta), math.Cos(theta)} {
				v := float32(exact)
				lo, hi := math.Nextafter32(v, -10), math.Nextafter32(v, 10)
				if f.Round(float64(lo)) == f.Round(float64(hi)) || v == 0 {
					continue
				}
				sensitive[i]++
				// The exact value decides with 0.57 ulp to spare.
				ulp := float64(hi-lo) / 2
				if f.Round(exact-0.57*ulp) != f.Round(exact+0.57*ulp) {
					t.Errorf("%v: function %d of argument %d/%d is undecided", f, i, k, n)
				}
			}
		}
		if want := map[fp16.Format][3]int{fp16.BFloat16: {}, fp16.Float16: {0, 0, 2}}[f]; sensitive != want {
			t.Errorf("%v: %d logarithms, sines, cosines depend on the last bit, want %d", f, sensitive, want)
		}
	}
}

// Lengths, tails, short fills and the words they take, against Normal's.
func TestTorchHalfLengths(t *testing.T) {
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		for n := range 50 {
			s, x := torchStream(t, "2.x", uint64(n)), torchStream(t, "2.x", uint64(n))
			got := torchFill(t, n, func(d []float64) {
				if err := s.NormalHalf(d, f); err != nil {
					t.Fatal(err)
				}
			})
			full := torchFill(t, n, x.Normal)
			for i, v := range got {
				if v != f.Round(v) || math.IsNaN(v) {
					t.Fatalf("%v: %v is not a number of the type", f, v)
				}
				// The words of a short fill are those of Normal, and so are the
				// numbers but for their rounding.
				if n < 16 && v != f.Round(full[i]) {
					t.Fatalf("%v: element %d of %d is %v, want %v", f, i, n, v, f.Round(full[i]))
				}
			}
			if a, b := s.mt.random(), x.mt.random(); a != b {
				t.Fatalf("%v: after %d numbers the next word is %#x, want %#x", f, n, a, b)
			}
			if n >= 16 && n%16 != 0 {
				// All but the tail is as if the fill had ended there.
				x.Seed(uint64(n))
				whole := torchFill(t, n/16*16, func(d []float64) { _ = x.NormalHalf(d, f) })
				torchDiff(t, "head", got[:n-16], whole[:n-16])
			}
		}
	}
}

// A block with its uniforms formed from the words, every operation in float32
// and rounded to the type.
func TestTorchHalfBlock(t *testing.T) {
	for _, f := range []fp16.Format{fp16.BFloat16, fp16.Float16} {
		mask, scale := uint32(1<<8-1), float32(0x1p-8)
		if f == fp16.Float16 {
			mask, scale = 1<<11-1, 0x1p-11
		}
		rn := func(v float32) float32 { return float32(f.Round(float64(v))) }
		s, x := torchStream(t, "2.x", 77), torchStream(t, "2.x", 77)
		got := torchFill(t, 160_000, func(d []float64) {
			if err := s.NormalHalf(d, f); err != nil {
				t.Fatal(err)
			}
		})
		zeros := 0
		for ; len(got) > 0; got = got[16:] {
			var d [16]float32
			for i := range d {
				d[i] = float32(x.mt.random()&mask) * scale
			}
			for j := range 8 {
				log := rn(float32(math.Log(float64(rn(1 - d[j])))))
				r := rn(float32(math.Sqrt(float64(rn(-2 * log)))))
				theta := float64(rn(float32(2 * math.Pi * float64(d[j+8]))))
				cos, sin := rn(float32(math.Cos(theta))), rn(float32(math.Sin(theta)))
				want := []float64{float64(rn(rn(r*cos) + 0)), float64(rn(rn(r*sin) + 0))}
				torchDiff(t, f.String(), []float64{got[j], got[j+8]}, want)
				if r == 0 {
					zeros++
				}
			}
		}
		if zeros == 0 {
			t.Errorf("%v: no radius of zero was met", f)
		}
	}
}

func TestTorchHalfErrors(t *testing.T) {
	for _, c := range []struct {
		version string
		format  fp16.Format
		want    string
	}{
		{"1.13", fp16.Float16, "noise: torch-cpu:1.13: normal draws of type float16 are not supported before 2.x"},
		{"2.x", fp16.Float32, "noise: torch-cpu:2.x: normal draws of type float32: want float16 or bfloat16"},
		{"2.x", fp16.TF32, "noise: torch-cpu:2.x: normal draws of type tf32: want float16 or bfloat16"},
	} {
		s := torchStream(t, c.version, 0)
		if err := s.NormalHalf(make([]float64, 20), c.format); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if a := s.mt.random(); a != torchStream(t, c.version, 0).mt.random() {
			t.Errorf("a refused fill took words")
		}
	}
}
