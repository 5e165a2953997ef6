package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// resizer is a kernel that resizes lines in float32, as PyTorch's do.
type resizer struct {
	mode    string
	corners bool
	scale   float32 // 0: of the sizes
	shift   float32 // 1/2
	a       float32 // of a cubic
	weights func(v float32) float32
	beyond  bool // goes on beyond the border
}

// position is where number i stands.
func (k resizer) position(i, in, out int) float32 {
	if k.corners {
		return float32(float32(in-1)/float32(out-1)) * float32(i)
	}
	s := float32(in) / float32(out)
	if k.scale != 0 {
		s = 1 / k.scale
	}
	return float32(s*(float32(i)+k.shift)) - k.shift
}

func (k resizer) line(x []float32, out int) []float32 {
	y, n := make([]float32, out), len(x)
	at := func(i int) float32 { return x[min(max(i, 0), n-1)] }
	for i := range y {
		p := k.position(i, n, out)
		low := int(math.Floor(float64(p)))
		if k.mode == "nearest" {
			y[i] = at(low)
			continue
		}
		if k.mode == "cubic" {
			t, a := p-float32(low), k.a
			near := func(x float32) float32 { return float32(float32((float32((a+2)*x)-(a+3))*x)*x) + 1 }
			far := func(x float32) float32 { return float32((float32((float32(a*x)-5*a)*x)+8*a)*x) - 4*a }
			for j, w := range []float32{far(t + 1), near(t), near(1 - t), far(2 - t)} {
				y[i] += float32(k.weights(w) * at(low-1+j))
			}
			continue
		}
		if !k.beyond {
			p = max(p, 0)
		}
		low = min(max(int(p), 0), n-1)
		t := k.weights(p - float32(low))
		y[i] = float32(k.weights(1-t)*at(low)) + float32(t*at(low+1))
	}
	return y
}

// image resizes both axes of planes [n,h,w], columns first.
func (k resizer) image(x *tensor.Tensor, f fp16.Format, h, w int) *tensor.Tensor {
	n, from, width := x.Shape[0]*x.Shape[1], x.Shape[2], x.Shape[3]
	out := tensor.New(f, x.Shape[0], x.Shape[1], h, w)
	for p := range n {
		rows := make([][]float32, from)
		for r := range rows {
			line := make([]float32, width)
			for c := range line {
				line[c] = float32(x.Data[(p*from+r)*width+c])
			}
			rows[r] = k.line(line, w)
		}
		for c := range w {
			column := make([]float32, from)
			for r := range column {
				column[r] = rows[r][c]
			}
			for r, v := range k.line(column, h) {
				out.Data[(p*h+r)*w+c] = f.Round(float64(v))
			}
		}
	}
	return out
}

// TestResize: resizes whose positions and weights are float32 numbers pass, by factors that are no power of 2, and
// others that are nearly the same fail.
func TestResize(t *testing.T) {
	plain := func(v float32) float32 { return v }
	seed := uint64(0)
	for _, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
		for k, size := range [][4]int{{37, 29, 53, 50}, {20, 45, 47, 31}} {
			for _, mode := range []string{"linear", "cubic"} {
				for _, corners := range []bool{false, true} {
					seed++
					// each mode of the one size, aligned or not, and of the other otherwise
					if corners == ((mode == "cubic") == (k == 0)) {
						continue
					}
					x := drawn(rand.New(rand.NewPCG(seed, 1)), f, 1, 1, size[0], size[1])
					right := resizer{mode, corners, 0, .5, -.75, plain, false}
					kernels := map[string]resizer{"right": right}
					other := right
					other.corners = !corners
					kernels["other corners"] = other
					other = right
					if other.shift = 0; !corners {
						kernels["half a pixel off"] = other
					}
					other = right
					if other.a = -.5; mode == "cubic" {
						kernels["coefficient -1/2"] = other
					}
					other = right
					if other.weights = func(v float32) float32 { return float32(f.Round(float64(v))) }; f != fp16.Float32 {
						kernels["right, weights rounded"] = other
					}
					other = right
					if other.weights = func(v float32) float32 {
						return float32(fp16.BFloat16.Round(float64(v)))
					}; f != fp16.BFloat16 {
						kernels["weights in bfloat16"] = other
					}
					other = right
					if other.beyond = true; mode == "linear" && !corners && size[0] < size[2] {
						kernels["on beyond the border"] = other
					}
					attributes := fmt.Sprintf(`{"mode": "bi%s", "size": [%d, %d], "align_corners": %v}`,
						mode, size[2], size[3], corners)
					for name, k := range kernels {
						want := map[bool]string{true: Pass, false: Fail}[name[:5] == "right"]
						a, err := Check(question(t, "interpolate", attributes, k.image(x, f, size[2], size[3]), x))
						if err != nil || a.Verdict != want {
							t.Errorf("%v %s %v, %s: %+v, %v", f, attributes, size, name, a, err)
						}
					}
				}
			}
		}
	}
}

// TestResizeByScale: a given scale is that of positions, but of an axis that keeps its size, which PyTorch copies, or
// has twice as many numbers, each of which PyTorch's nearest takes twice; and the nearest number is that of a position
// in float32.
func TestResizeByScale(t *testing.T) {
	plain := func(v float32) float32 { return v }
	for _, mode := range []string{"bilinear", "nearest"} {
		for _, f := range []fp16.Format{fp16.Float32, fp16.BFloat16} {
			x := drawn(rand.New(rand.NewPCG(5, 1)), f, 2, 2, 30, 30)
			k := resizer{map[string]string{"bilinear": "linear"}[mode], false, 1.3, .5, 0, plain, false}
			if mode == "nearest" {
				k.mode, k.shift = mode, 0
			}
			sizes := k
			sizes.scale = 0
			kept := k
			kept.scale = 1.01
			twice := k
			twice.scale = 2.02
			copied := tensor.New(f, x.Shape...)
			copy(copied.Data, x.Data)
			off := x.Data[17]
			moved := tensor.New(f, x.Shape...)
			copy(moved.Data, x.Data)
			moved.Data[17] = f.Round(off * 1.03)
			for _, c := range []struct {
				scale string
				out   *tensor.Tensor
				want  string
			}{
				{"1.3", k.image(x, f, 39, 39), Pass},
				{"1.303", sizes.image(x, f, 39, 39), Fail},
				{"1.01", copied, Pass},
				{"1.01", kept.image(x, f, 30, 30), Pass},
				{"1.01", moved, Fail},
				{"2.02", twice.image(x, f, 60, 60), Pass},
				{"2.02", sizes.image(x, f, 60, 60), map[string]string{"bilinear": Fail, "nearest": Pass}[mode]},
			} {
				a, err := Check(question(t, "interpolate",
					fmt.Sprintf(`{"mode": %q, "scale_factor": %s}`, mode, c.scale), c.out, x))
				if err != nil || a.Verdict != c.want {
					t.Errorf("%s of %v by %s: %+v, %v: want %s", mode, f, c.scale, a, err, c.want)
				}
			}
		}
	}
}

// TestCornersOfSizes: 17 numbers by a scale of 1.7 are 28. ONNX Runtime aligns the corners of these, and ONNX those
// of 28.9.
func TestCornersOfSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 6))
	x := drawn(r, fp16.Float32, 1, 2, 17)
	for _, mode := range []string{"linear", "cubic"} {
		for _, corners := range []bool{true, false} {
			k := resizer{mode: mode, corners: corners, shift: .5, a: -.75, weights: func(v float32) float32 { return v }}
			y := tensor.New(fp16.Float32, 1, 2, 28)
			for c := range 2 {
				line := make([]float32, 17)
				for i := range line {
					line[i] = float32(x.Data[c*17+i])
				}
				for i, v := range k.line(line, 28) {
					y.Data[c*28+i] = float64(v)
				}
			}
			a, err := Check(question(t, "interpolate",
				`{"scale_factor":[1.7],"mode":"`+mode+`","coordinate_transformation_mode":"align_corners"}`, y, x))
			if err != nil || (a.Verdict == Pass) != corners || a.Contract.Sized != corners && corners {
				t.Errorf("%s, corners of sizes %v: %+v, %v", mode, corners, a, err)
			}
		}
	}
}
