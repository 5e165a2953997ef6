package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/tensor"
)

// gridKernel is a kernel that samples images as PyTorch's do, each operation rounded.
type gridKernel struct {
	mode, padding string
	corners       bool
	round         func(v float64) float64 // of all
	position      func(v float64) float64 // of positions
	swapped       bool
}

func (k gridKernel) at(g float64, n int) float64 {
	r := k.position
	span, low := float64(n), -.5
	if k.corners {
		span, low = span-1, 0
	}
	p := r(r(g)+1) * (span / 2)
	if p = r(p); !k.corners {
		p = r(p - .5)
	}
	if k.padding == "reflection" {
		far := math.Abs(r(p - low))
		far -= 2 * span * math.Floor(far/(2*span))
		p = r(min(far, r(2*span-far)) + low)
	}
	if k.padding != "zeros" {
		p = min(max(p, 0), float64(n-1))
	}
	return p
}

// image is what the kernel makes of x [N,C,H,W] at a grid [N,h,w,2].
func (k gridKernel) image(f fp16.Format, x, grid *tensor.Tensor) *tensor.Tensor {
	n, c, height, width := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	h, w := grid.Shape[1], grid.Shape[2]
	y := tensor.New(f, n, c, h, w)
	r := k.round
	for i := range y.Data {
		s, plane, at := i/(c*h*w), i/(h*w), i%(h*w)
		gx, gy := grid.Data[(s*h*w+at)*2], grid.Data[(s*h*w+at)*2+1]
		if k.swapped {
			gx, gy = gy, gx
		}
		px, py := k.at(gx, width), k.at(gy, height)
		pixel := func(row, column float64) float64 {
			if row < 0 || column < 0 || row >= float64(height) || column >= float64(width) {
				return 0
			}
			return x.Data[(plane*height+int(row))*width+int(column)]
		}
		if k.mode == "nearest" {
			y.Data[i] = pixel(math.RoundToEven(py), math.RoundToEven(px))
			continue
		}
		left, top := math.Floor(px), math.Floor(py)
		e, s1 := r(px-left), r(py-top)
		west, north := r(1-e), r(1-s1)
		sum := r(pixel(top, left) * r(west*north))
		sum = r(sum + r(pixel(top, left+1)*r(e*north)))
		sum = r(sum + r(pixel(top+1, left)*r(west*s1)))
		sum = r(sum + r(pixel(top+1, left+1)*r(e*s1)))
		y.Data[i] = f.Round(sum)
	}
	return y
}

func asked(t *testing.T, attributes string, out, x, grid *tensor.Tensor) Question {
	t.Helper()
	g, _, err := Kernel("grid_sampler", []byte(attributes), []string{"input", "grid"})
	if err != nil {
		t.Fatal(err)
	}
	return Question{Graph: g, Inputs: []*tensor.Tensor{x, grid}, Output: out}
}

// TestGridSampler: kernels that compute positions, weights and sums in float32 pass, and of half numbers such as do so
// in their format, as PyTorch's do on a CPU, whose bits these are; others fail, by their names.
func TestGridSampler(t *testing.T) {
	single := fp16.Float32.Round
	for n, f := range []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16} {
		for m, mode := range []string{"bilinear", "nearest"} {
			for p, padding := range paddings {
				for c, corners := range []bool{false, true} {
					if !share.All() && (n+m+p+c)%3 > 0 {
						continue
					}
					r := rand.New(rand.NewPCG(uint64(n), uint64(m*3+p)))
					x, grid := drawn(r, f, 2, 2, 9, 12), tensor.New(f, 2, 14, 17, 2)
					for i := range grid.Data {
						grid.Data[i] = f.Round(2.6*r.Float64() - 1.3)
						if i%34 < 4 { // the middle of two, and the ends
							grid.Data[i] = []float64{0, -1, 1, .5}[r.IntN(4)]
						}
					}
					right := gridKernel{mode, padding, corners, single, single, false}
					kernels := map[string]gridKernel{"": right}
					other := right
					other.round, other.position = f.Round, f.Round
					kernels["right"] = other
					other = right
					other.corners = !corners
					kernels["corners are aligned the other way"] = other
					other = right
					other.padding = paddings[(p+1)%3]
					kernels["the padding is "+other.padding] = other
					other = right
					other.swapped = true
					kernels["the axes of a grid are swapped"] = other
					if f == fp16.Float32 {
						other = right
						other.position = fp16.Float16.Round
						kernels["positions are computed in float16"] = other
					}
					attributes := fmt.Sprintf(`{"mode": %q, "padding_mode": %q, "align_corners": %v}`, mode, padding, corners)
					for name, k := range kernels {
						want, fault := Fail, name
						if name == "" || name == "right" {
							want, fault = Pass, ""
						}
						y := k.image(f, x, grid)
						if want == Fail && slices.Equal(y.Data, right.image(f, x, grid).Data) { // no number is another
							continue
						}
						a, err := Check(asked(t, attributes, y, x, grid))
						named := a.Fault == fault || strings.Contains(a.Fault, " or ") ||
							a.Fault == "" && mode == "nearest" && f != fp16.Float32 // of those at the ends either may be right
						if err != nil || a.Verdict != want || !named {
							t.Errorf("%v %s, %q: %s, fault %q: %s, %v", f, attributes, name, a.Verdict, a.Fault, a.Reason, err)
						}
						if says := fmt.Sprintf("a grid sampler in %v", f); name == "right" && mode == "bilinear" &&
							f.Half() && !strings.Contains(a.Contract.String(), says) {
							t.Errorf("%v %s: contract %q: want %q", f, attributes, a.Contract, says)
						}
					}
				}
			}
		}
	}
}
