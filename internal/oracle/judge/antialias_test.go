package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// wide is a kernel that resizes lines by windows as wide as the numbers that a result stands for, as PyTorch's with
// antialias: for CUDA its weights, their sum and the lines are numbers of the inputs' format.
type wide struct {
	cubic          bool
	weights, lines fp16.Format
	a              float32 // of a cubic
	shift          float32 // 1/2
	narrow         bool    // no antialias
	open           bool    // not divided by the sum
}

func (k wide) kernel(x float32) float32 {
	if x = float32(math.Abs(float64(x))); !k.cubic {
		return max(1-x, 0)
	}
	switch {
	case x < 1:
		return float32(float32((float32((k.a+2)*x)-(k.a+3))*x)*x) + 1
	case x < 2:
		return float32((float32((float32(k.a*x)-5*k.a)*x)+8*k.a)*x) - 4*k.a
	}
	return 0
}

func (k wide) line(x []float32, out int) []float32 {
	y, scale := make([]float32, out), float32(len(x))/float32(out)
	h := max(scale, 1)
	if k.narrow {
		h = 1
	}
	reach := h
	if k.cubic {
		reach = 2 * h
	}
	round := func(v float32) float32 { return float32(k.weights.Round(float64(v))) }
	for i := range y {
		at := float32(scale * (float32(i) + k.shift))
		first, last := max(int(at-reach+.5), 0), min(int(at+reach+.5), len(x))
		var sum float32
		weight := func(j int) float32 { return k.kernel((float32(j) - at + .5) / h) }
		for j := first; j < last; j++ {
			sum += weight(j)
		}
		if k.open || sum == 0 {
			sum = 1
		}
		for j := first; j < last; j++ {
			y[i] += float32(round(round(weight(j))/round(sum)) * x[j])
		}
	}
	return y
}

// image resizes the lines of planes [n,h,w] and then their columns.
func (k wide) image(x *tensor.Tensor, f fp16.Format, h, w int) *tensor.Tensor {
	n, from, width := x.Shape[0]*x.Shape[1], x.Shape[2], x.Shape[3]
	out := tensor.New(f, x.Shape[0], x.Shape[1], h, w)
	for p := range n {
		columns := make([][]float32, w)
		for r := range from {
			line := make([]float32, width)
			for c := range line {
				line[c] = float32(x.Data[(p*from+r)*width+c])
			}
			for c, v := range k.line(line, w) {
				columns[c] = append(columns[c], float32(k.lines.Round(float64(v))))
			}
		}
		for c, column := range columns {
			for r, v := range k.line(column, h) {
				out.Data[(p*h+r)*w+c] = f.Round(float64(v))
			}
		}
	}
	return out
}

// TestAntialias: resizes to fewer numbers by wide windows pass whose weights and lines are float32 numbers, or, for
// half inputs, of their format, and others that are nearly the same fail.
func TestAntialias(t *testing.T) {
	right, wrong := 0, 0
	seed := uint64(0)
	for i, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
		for k, size := range [][4]int{{37, 29, 23, 11}, {18, 25, 9, 28}, {9, 30, 9, 17}} {
			for _, cubic := range []bool{false, true} {
				seed++
				if way := map[bool]int{cubic: 1}[true]; !share.All() && (i+k+way)%3 > 0 { // in another format
					continue
				}
				x := drawn(rand.New(rand.NewPCG(seed, 7)), f, 1, 1, size[0], size[1])
				plain := wide{cubic: cubic, weights: fp16.Float32, lines: fp16.Float32, a: -.5, shift: .5}
				kernels := map[string]wide{"right": plain}
				change := func(name string, by func(k *wide)) {
					k := plain
					by(&k)
					kernels[name] = k
				}
				change("half a pixel off", func(k *wide) { k.shift = 0 })
				change("no antialias", func(k *wide) { k.narrow = true })
				change("weights of another sum", func(k *wide) { k.open = true })
				if cubic {
					change("coefficient -3/4", func(k *wide) { k.a = -.75 })
				}
				if f.Half() {
					change("right, weights and lines rounded", func(k *wide) { k.weights, k.lines = f, f })
					change("right, weights rounded", func(k *wide) { k.weights = f })
				} else {
					change("weights in bfloat16", func(k *wide) { k.weights = fp16.BFloat16 })
				}
				mode := map[bool]string{false: "bilinear", true: "bicubic"}[cubic]
				attributes := fmt.Sprintf(`{"mode": %q, "size": [%d, %d], "antialias": true}`, mode, size[2], size[3])
				for name, k := range kernels {
					want := Fail
					if name[:5] == "right" {
						want = Pass
						right++
					} else {
						wrong++
					}
					a, err := Check(question(t, "interpolate", attributes, k.image(x, f, size[2], size[3]), x))
					if err != nil || a.Verdict != want {
						t.Errorf("%v %s %v, %s: %+v, %v", f, attributes, size, name, a, err)
					}
				}
			}
		}
	}
	t.Logf("%d right, %d wrong", right, wrong)
}
