package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

// newTestImage returns an image in memory full of NaNs.
func newTestImage(f fp16.Format, n, c, h, w, frame int) *Image {
	m := NewImage(f, n, c, h, w, frame, aligned(new([]float32), ImageSize(n, c, h, w, frame)))
	for i := range m.data {
		m.data[i] = float32(math.NaN())
	}
	return m
}

// TestImage: what goes in comes out, lanes without a channel are zero, and the
// frame is what the padding says.
func TestImage(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for trial := range 60 {
		n, c, h, w := 1+r.IntN(2), 1+r.IntN(20), 1+r.IntN(9), 1+r.IntN(20)
		x := gauss(r, fp16.Float32, n, c, h, w)
		p := Padding(trial % 4)
		frame := r.IntN(4)
		if p == Circular || p == Reflect {
			frame = min(frame, h-1, w-1)
		}
		m := newTestImage(fp16.BFloat16, n, c, h, w, frame)
		m.From(x)
		m.FillFrame(p)
		at := fmt.Sprintf("trial %d: %s, frame %d, %v", trial, x.Dims(), frame, p)
		rows, cols := squareAxis(h, frame, p), squareAxis(w, frame, p)
		for i := range n * m.Blocks() * block {
			for y := range up4(h) + 2*frame {
				for xx := range up4(w) + 2*frame {
					want := 0.0
					if ch := i % (m.Blocks() * block); ch < c && y < len(rows.at) && xx < len(cols.at) &&
						rows.at[y] >= 0 && cols.at[xx] >= 0 {
						want = x.Plane(i/block/m.Blocks(), ch)[rows.at[y]*w+cols.at[xx]]
					}
					if got := m.data[m.at(i/block/m.Blocks(), i/block%m.Blocks(), y-frame, xx-frame)+i%block]; float64(got) != want {
						t.Fatalf("%s: sample and channel %d, line %d, pixel %d: %v, want %v", at, i, y-frame, xx-frame, got, want)
					}
				}
			}
		}
		y := tensor.Like(x)
		m.To(y)
		sameBits(t, y, x, at)
		if b := m.Blocks() - 1; m.Row(0, b, h-1)[w*block-1] != m.Plane(0, b)[(h-1)*m.Stride()+w*block-1] {
			t.Fatalf("%s: a row is not that of its plane", at)
		}
	}
}

// TestPlan: convolutions of images are the judge's, whatever lies in memory that
// they are not to read, for kernels with and without an engine for images.
func TestPlan(t *testing.T) {
	defer func(far int, large [2]int, panels float64) {
		farU, largeV, farPanels = far, large, panels
	}(farU, largeV, farPanels)
	r := rand.New(rand.NewPCG(33, 34))
	var space Space
	for trial := range 80 {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		padding, stride := Padding(r.IntN(4)), r.IntN(2)
		taps := []int{1, 3, 3, 5, 7, 2}[trial%6]
		if trial%11 == 0 {
			stride = 2
		}
		p := Square(stride, taps/2, padding)
		if trial%13 == 0 {
			p.Dilation = [2]int{1, 2}
		}
		n, ic, oc := 1+r.IntN(2), 1+r.IntN(18), 1+r.IntN(18)
		if taps > 3 {
			ic, oc = 1+ic/3, 1+oc/3
		}
		h, w := taps+r.IntN(6), 2*taps+r.IntN(16)
		if farU, largeV = 3<<19, [2]int{1 << 19, 1 << 19}; trial%2 == 0 { // by rows
			farU, largeV = 0, [2]int{}
		}
		farPanels = float64(trial%3) * 1e6 // transformed weights from afar: none of these, or all
		src, weight := xs.make(r, fp16.Float32, n, ic, h, w), ws.make(r, fp16.Float32, oc, ic, taps, taps)
		var bias []float64
		if r.IntN(2) == 0 {
			bias = ws.make(r, fp16.Float32, 1, 1, 1, oc).Data
		}
		exact := judge(src, weight, bias, judged(p, 1), formats...)
		k := NewKernel(weight, bias)
		for _, f := range formats {
			plan := k.Prepare(f, n, h, w, p)
			x := newTestImage(src.Format, n, ic, h, w, plan.Frame()+r.IntN(2))
			y := newTestImage(f, n, oc, exact.H, exact.W, r.IntN(3))
			x.From(src)
			if plan.Frame() > 0 {
				if taps < 3 || min(h, w) <= x.Frame {
					continue
				}
				x.FillFrame(p.Padding)
			}
			plan.Run(y, x, &space)
			got := tensor.New(f, n, oc, exact.H, exact.W)
			y.To(got)
			sameBits(t, got, exact.Round(f), fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %+v, %v", trial,
				xs.name, ws.name, src.Dims(), weight.Dims(), p, f))
		}
	}
}

// TestAnchored: what anchored sums decide is the judge's, with and without an
// error of the lower word, and they decide most.
func TestAnchored(t *testing.T) {
	kernels := asm.PixelKernels()
	if kernels == nil {
		return // their outputs are settled one by one
	}
	r := rand.New(rand.NewPCG(35, 36))
	settled, open := 0, 0
	for trial := range 4 * len(makers) {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		n, ic, oc, taps := 2, 1+r.IntN(20), 1+r.IntN(20), 1+2*r.IntN(2)
		h, w := 1+r.IntN(6), 1+r.IntN(6)
		src, weight := xs.make(r, fp16.Float32, n, ic, h, w), ws.make(r, fp16.Float32, oc, ic, taps, taps)
		var bias []float64
		if r.IntN(2) == 0 {
			bias = ws.make(r, fp16.Float32, 1, 1, 1, oc).Data
		}
		exact := bigref.Conv2d(src, weight, bias, 1, taps/2, "zeros")
		k := NewKernel(weight, bias)
		x := newTestImage(src.Format, n, ic, h, w, taps/2)
		x.From(src)
		x.FillFrame(Zeros)
		var a anchored
		a.begin(kernels, k, x)
		window := 0.0 // of all of them
		for c := range ic * n {
			for _, v := range src.Plane(c/ic, c%ic) {
				window += v * k.scale[c%ic] * v * k.scale[c%ic]
			}
		}
		for _, f := range formats {
			y, s := newTestImage(f, n, oc, h, w, 0), new(worker)
			for i := range n * h * ((oc + kernels.Outputs - 1) / kernels.Outputs) {
				for at := 0; at < w; at += 4 {
					a.settle(s, y, i/n/h, i%n, i/n%h, at, min(4, w-at), math.Sqrt(window))
				}
			}
			got, want := tensor.New(f, n, oc, h, w), exact.Round(f)
			y.To(got)
			for i := range s.open {
				at := s.place(i)
				k := ((at.n*oc+at.o)*h+at.y)*w + at.x
				got.Data[k] = want.Data[k]
			}
			sameBits(t, got, want, fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %v",
				trial, xs.name, ws.name, src.Dims(), weight.Dims(), f))
			settled += len(got.Data) - len(s.open)
			open += len(s.open)
		}
	}
	t.Logf("%d settled, %d open", settled, open)
	if open*4 > settled {
		t.Errorf("%d of %d left open", open, settled+open)
	}
}

// TestAnchoredLost: a sum next to a tie of float32 of which the lower word loses
// what decides.
func TestAnchoredLost(t *testing.T) {
	kernels := asm.PixelKernels()
	if kernels == nil {
		return // their outputs are settled one by one
	}
	w := tensor.Of(fp16.Float32, []float64{1, 0x1p-24, 0x1p-50, 0x1p-105, -0x1p-50}, 1, 5, 1, 1)
	x := newTestImage(fp16.Float32, 1, 5, 4, 4, 0)
	for y := range 4 {
		for i := range x.Row(0, 0, y) {
			x.Row(0, 0, y)[i] = 1
		}
	}
	var a anchored
	a.begin(kernels, NewKernel(w, nil), x)
	y, s := newTestImage(fp16.Float32, 1, 1, 4, 4, 0), new(worker)
	a.settle(s, y, 0, 0, 0, 0, 4, 2)
	for i := range 4 - len(s.open) {
		if v := y.Row(0, 0, 0)[i*block]; v != 1+0x1p-23 {
			t.Fatalf("pixel %d: %v", i, v)
		}
	}
}

// TestPlanLanes: lanes without a channel stay zero, whatever the source holds, so
// that the next convolution may read them; and no run but the first allocates.
func TestPlanLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	for _, taps := range []int{1, 3, 5} {
		for _, v := range []float64{1, math.NaN(), math.Inf(1)} {
			x := gauss(r, fp16.Float32, 1, 11, 9, 10)
			x.Data[200] = v
			k := NewKernel(gauss(r, fp16.Float32, 19, 11, taps, taps), nil)
			plan := k.Prepare(fp16.BFloat16, 1, 9, 10, Square(1, taps/2, Zeros))
			if plan.none() {
				continue
			}
			src, dst := newTestImage(fp16.Float32, 1, 11, 9, 10, taps/2), newTestImage(fp16.BFloat16, 1, 19, 9, 10, 0)
			src.From(x)
			src.FillFrame(Zeros)
			var space Space
			plan.Run(dst, src, &space)
			for y := range 9 {
				for i, v := range dst.Row(0, 2, y) {
					if i%block >= 3 && v != 0 {
						t.Fatalf("%d taps, line %d, lane %d: %v", taps, y, i, v)
					}
				}
			}
			want := tensor.New(fp16.BFloat16, 1, 19, 9, 10)
			Forward(want, x, k, Square(1, taps/2, Zeros))
			got := tensor.Like(want)
			dst.To(got)
			sameBits(t, got, want, fmt.Sprint(taps, v))
			if plan.wino == nil || asm.PixelKernels() != nil { // plain Go settles with memory of its own
				if n := testing.AllocsPerRun(5, func() { plan.Run(dst, src, &space) }); n > 0 {
					t.Errorf("%s: %v allocations", plan.Name(), n)
				}
			}
		}
	}
}

// TestPlanStrides: convolutions of images with strides, and in groups of whole blocks of
// channels, are the judge's.
func TestPlanStrides(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 40))
	var space Space
	ran := map[string]int{}
	for trial := range 40 {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		taps := []int{1, 3, 3, 5, 7}[trial%5]
		p := Square(1+r.IntN(3), taps/2, Padding(r.IntN(4)))
		n, ic, oc, groups := 1+r.IntN(2), 1+r.IntN(18), 1+r.IntN(18), 1
		if taps > 3 {
			ic, oc = 1+ic/3, 1+oc/3
		}
		if trial%4 == 0 && taps < 5 {
			groups = 2 + r.IntN(2)
			ic, oc = groups*8*(1+r.IntN(2)), groups*8*(1+r.IntN(2))
		}
		h, w := taps+r.IntN(9), taps+r.IntN(25)
		src, weight := xs.make(r, fp16.Float32, n, ic, h, w), ws.make(r, fp16.Float32, oc, ic/groups, taps, taps)
		var bias []float64
		if r.IntN(2) == 0 {
			bias = ws.make(r, fp16.Float32, 1, 1, 1, oc).Data
		}
		exact := judge(src, weight, bias, judged(p, groups), formats...)
		k := NewGroupedKernel(weight, bias, groups)
		for _, f := range formats {
			plan := k.Prepare(f, n, h, w, p)
			ran[plan.Name()]++
			x := newTestImage(src.Format, n, ic, h, w, plan.Frame()+r.IntN(2))
			y := newTestImage(f, n, oc, exact.H, exact.W, r.IntN(3))
			x.From(src)
			if min(h, w) <= x.Frame {
				continue
			}
			if x.Frame > 0 {
				x.FillFrame(p.Padding)
			}
			plan.Run(y, x, &space)
			got := tensor.New(f, n, oc, exact.H, exact.W)
			y.To(got)
			sameBits(t, got, exact.Round(f), fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %d groups, %+v, %v", trial,
				xs.name, ws.name, src.Dims(), weight.Dims(), groups, p, f))
		}
	}
	t.Log(ran)
}

// TestPlanChannels: convolutions of each channel by itself, of images, are the judge's: windows of any sides, strides,
// dilations and padding, for channels that leave blocks unfilled, with numbers that are not finite; and no run but the
// first allocates.
func TestPlanChannels(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	var space Space
	ran := map[string]int{}
	for trial := range 60 {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		kh, kw, c := 1+r.IntN(5), 1+r.IntN(5), 2+r.IntN(20)
		p := Params{Stride: [2]int{r.IntN(4), r.IntN(4)}, Dilation: [2]int{1 + r.IntN(2), 1 + r.IntN(2)},
			Pad: [4]int{r.IntN(3), r.IntN(3), r.IntN(3), r.IntN(3)}, Padding: Padding(r.IntN(4))}
		n, h, w := 1+r.IntN(2), 2*kh+r.IntN(9), 2*kw+r.IntN(25)
		src, weight := xs.make(r, fp16.Float32, n, c, h, w), ws.make(r, fp16.Float32, c, 1, kh, kw)
		var bias []float64
		if r.IntN(2) == 0 {
			bias = ws.make(r, fp16.Float32, 1, 1, 1, c).Data
		}
		k := NewGroupedKernel(weight, bias, c)
		oh, ow := p.OutSize(h, w, kh, kw)
		want := tensor.New(fp16.Float32, n, c, oh, ow)
		if trial%5 > 0 {
			want.Data = judge(src, weight, bias, judged(p, c), fp16.Float32).Round(fp16.Float32).Data
		} else {
			src.Data[r.IntN(len(src.Data))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[trial/5%3]
			Forward(want, src, k, p)
		}
		plan := k.Prepare(fp16.Float32, n, h, w, p)
		ran[plan.Name()]++
		x := newTestImage(src.Format, n, c, h, w, plan.Frame()+r.IntN(2))
		y := newTestImage(fp16.Float32, n, c, oh, ow, r.IntN(3))
		x.From(src)
		if min(h, w) <= x.Frame {
			continue
		}
		if x.Frame > 0 {
			x.FillFrame(p.Padding)
		}
		plan.Run(y, x, &space)
		got := tensor.New(fp16.Float32, n, c, oh, ow)
		y.To(got)
		sameBits(t, got, want, fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %+v", trial,
			xs.name, ws.name, src.Dims(), weight.Dims(), p))
		if !plan.none() {
			if n := testing.AllocsPerRun(1, func() { plan.Run(y, x, &space) }); n > 0 {
				t.Errorf("%s: %v allocations", plan.Name(), n)
			}
		}
	}
	t.Log(ran)
}

// TestPlanGathered: convolutions of images by windows that are not square, or not padded by their half, are the
// judge's: any strides, dilations and padding, for channels that leave blocks unfilled, with numbers that are not
// finite; and no run but the first allocates.
func TestPlanGathered(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	var space Space
	ran := map[string]int{}
	for trial := range 50 {
		xs, ws := makers[trial%len(makers)], makers[r.IntN(len(makers))]
		kh, kw, c, oc := 1+r.IntN(5), 1+r.IntN(5), 6+r.IntN(20), 1+r.IntN(20)
		p := Params{Stride: [2]int{r.IntN(4), r.IntN(4)}, Dilation: [2]int{1 + r.IntN(2), 1 + r.IntN(2)},
			Pad: [4]int{r.IntN(3), r.IntN(3), r.IntN(3), r.IntN(3)}, Padding: Padding(r.IntN(4))}
		n, h, w := 1+r.IntN(2), 2*kh+r.IntN(9), 2*kw+r.IntN(25)
		src, weight := xs.make(r, fp16.Float32, n, c, h, w), ws.make(r, fp16.Float32, oc, c, kh, kw)
		var bias []float64
		if r.IntN(2) == 0 {
			bias = ws.make(r, fp16.Float32, 1, 1, 1, oc).Data
		}
		k := NewKernel(weight, bias)
		f := formats[trial%len(formats)]
		oh, ow := p.OutSize(h, w, kh, kw)
		want := tensor.New(f, n, oc, oh, ow)
		if trial%5 > 0 {
			want.Data = judge(src, weight, bias, judged(p, 1), f).Round(f).Data
		} else {
			src.Data[r.IntN(len(src.Data))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[trial/5%3]
			Forward(want, src, k, p)
		}
		plan := k.Prepare(f, n, h, w, p)
		ran[plan.Name()]++
		x := newTestImage(src.Format, n, c, h, w, plan.Frame()+r.IntN(2))
		y := newTestImage(f, n, oc, oh, ow, r.IntN(3))
		x.From(src)
		if min(h, w) <= x.Frame {
			continue
		}
		if x.Frame > 0 {
			x.FillFrame(p.Padding)
		}
		plan.Run(y, x, &space)
		got := tensor.New(f, n, oc, oh, ow)
		y.To(got)
		sameBits(t, got, want, fmt.Sprintf("trial %d: %s * %s, %s, weight %s, %+v", trial,
			xs.name, ws.name, src.Dims(), weight.Dims(), p))
		if !plan.none() {
			if n := testing.AllocsPerRun(1, func() { plan.Run(y, x, &space) }); n > 0 {
				t.Errorf("%s: %v allocations", plan.Name(), n)
			}
		}
	}
	t.Log(ran)
}
