package conv

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/tensor"
)

var fastOutputsWanted = flag.Int("conv.fast", 15000, "outputs of fast arithmetic to compare with plain Go")

// fastJudge is one output of fast arithmetic once more, from a tensor: with the matrices
// of the method as fractions, one product after another, none left out.
type fastJudge struct {
	taps   int
	tile   int
	points []*big.Rat // finite: 0 first, if their number is odd
	first  int        // index of the first pair
	g      [][]*big.Rat
	polys  map[int][]float32
	spread map[[2]int]*spread
}

// A spread is an element of G g G^T: the sum of the elements of g, each with its factor, by the divisor.
type spread struct {
	factor  []*big.Int
	divisor *big.Int
}

func newFastJudge(taps, tile int, points ...float64) *fastJudge {
	j := &fastJudge{taps: taps, tile: tile, polys: map[int][]float32{}, spread: map[[2]int]*spread{}}
	if 2*len(points)+2 < taps+tile { // with infinity
		j.points, j.first = []*big.Rat{new(big.Rat)}, 1
	}
	for _, p := range points {
		r := new(big.Rat).SetFloat64(p)
		j.points = append(j.points, r, new(big.Rat).Neg(r))
	}
	for r, p := range j.points {
		d := big.NewRat(1, 1)
		for s, q := range j.points {
			if s != r {
				d.Mul(d, new(big.Rat).Sub(p, q))
			}
		}
		row, power := []*big.Rat{}, big.NewRat(1, 1)
		for range taps {
			row = append(row, new(big.Rat).Quo(power, d))
			power = new(big.Rat).Mul(power, p)
		}
		j.g = append(j.g, row)
	}
	last := make([]*big.Rat, taps)
	for i := range last {
		last[i] = new(big.Rat)
	}
	last[taps-1].SetInt64(1)
	j.g = append(j.g, last)
	return j
}

// weight is element (y, x) of G g G^T, rounded to float64 and then to float32; g is in units of 2^-149.
func (j *fastJudge) weight(g []*big.Int, y, x int) float32 {
	s := j.spread[[2]int{y, x}]
	if s == nil {
		s = &spread{divisor: big.NewInt(1)}
		var factors []*big.Rat
		for i := range j.taps {
			for k := range j.taps {
				f := new(big.Rat).Mul(j.g[y][i], j.g[x][k])
				factors = append(factors, f)
				s.divisor.Mul(s.divisor, new(big.Int).Quo(f.Denom(), new(big.Int).GCD(nil, nil, s.divisor, f.Denom())))
			}
		}
		for _, f := range factors {
			s.factor = append(s.factor, new(big.Int).Mul(f.Num(), new(big.Int).Quo(s.divisor, f.Denom())))
		}
		j.spread[[2]int{y, x}] = s
	}
	sum, p := new(big.Int), new(big.Int)
	for i, f := range s.factor {
		sum.Add(sum, p.Mul(f, g[i]))
	}
	v, _ := new(big.Rat).SetFrac(sum, p.Lsh(s.divisor, 149)).Float64()
	return float32(v)
}

// poly returns the coefficients of the product of x - q^2 over the positive points but
// the one of index skip.
func (j *fastJudge) poly(skip int) []float32 {
	if c := j.polys[skip]; c != nil {
		return c
	}
	c := []*big.Rat{big.NewRat(1, 1)}
	for l := j.first; l < len(j.points); l += 2 {
		if l == skip {
			continue
		}
		q := new(big.Rat).Mul(j.points[l], j.points[l])
		next := make([]*big.Rat, len(c)+1)
		for i := range next {
			next[i] = new(big.Rat)
			if i > 0 {
				next[i].Add(next[i], c[i-1])
			}
			if i < len(c) {
				next[i].Sub(next[i], new(big.Rat).Mul(q, c[i]))
			}
		}
		c = next
	}
	out := make([]float32, len(c))
	for i, v := range c {
		out[i], _ = v.Float32()
	}
	j.polys[skip] = out
	return out
}

func (j *fastJudge) input(d []float32) []float32 {
	horner := func(c []float32, from int) float32 {
		s := d[from+2*(len(c)-1)]
		for i := len(c) - 2; i >= 0; i-- {
			s = single.FMA(c[i], d[from+2*i], s)
		}
		return s
	}
	all := j.poly(-1)
	var r []float32
	if j.first == 1 {
		r = append(r, horner(all, 0))
	}
	for l := j.first; l < len(j.points); l += 2 {
		p, _ := j.points[l].Float32()
		c := j.poly(l)
		low, high := horner(c, j.first), horner(c, j.first+1)
		r = append(r, single.FMA(p, low, high), single.FMA(-p, low, high))
	}
	return append(r, horner(all, j.first))
}

func (j *fastJudge) output(d []float32, row int) float32 {
	n := len(d)
	var s float32
	switch row {
	case 0:
		from := j.first
		if s = d[0]; from == 0 { // no point 0: the first pair begins the sum
			s, from = d[0]+d[1], 2
		}
		for l := from; l < n-1; l += 2 {
			s += d[l] + d[l+1]
		}
		return s
	case j.tile - 1:
		s = d[n-1]
	}
	for l := n - 3; l >= j.first; l -= 2 {
		p, _ := j.points[l].Float32()
		v, power := d[l]-d[l+1], p
		if row == 2 {
			v, power = d[l]+d[l+1], p*p
		} else if row == 3 {
			power = p * p * p
		}
		if l == n-3 && row < j.tile-1 {
			s = power * v
		} else {
			s = single.FMA(power, v, s)
		}
	}
	return s
}

// split is where the parts of a window of so many taps begin, and the first tap of each
// and of the one after it.
func split(k int) (at, taps []int) {
	if k == 7 {
		return []int{0, 4}, []int{0, 4, 7}
	}
	return []int{0}, []int{0, k}
}

// value is output (n, o, y, x) of a convolution with weights w and bias, padded by half of
// the window, of x.
func (j *fastJudge) value(x, w *tensor.Tensor, bias float64, chain, n, o, y, xx int, padding Padding) float32 {
	k, side := w.H(), j.taps+j.tile-1
	at, taps := split(k)
	top, left := y/j.tile*j.tile-k/2, xx/j.tile*j.tile-k/2
	pixel := func(c, i, l int) float32 {
		// Beyond what outputs of the image read there is nothing.
		if i >= x.H()+k/2 || l >= x.W()+k/2 {
			return 0
		}
		if padding == Zeros {
			if i < 0 || i >= x.H() || l < 0 || l >= x.W() {
				return 0
			}
		} else { // circular
			i, l = (i+x.H())%x.H(), (l+x.W())%x.W()
		}
		return float32(x.Plane(n, c)[i*x.W()+l])
	}
	m := make([]float32, side*side)
	part := make([]float32, side*side)
	terms := 0
	step := func(p int, u, v float32) { part[p] = single.FMA(u, v, part[p]) }
	flush := func() {
		for p := range m {
			if terms <= chain {
				m[p] = part[p]
			} else {
				m[p] += part[p]
			}
			part[p] = 0
		}
	}
	for a := range at {
		for b := range at {
			for c := range (x.C() + 7) / 8 * 8 {
				d := make([]float32, side*side)
				g := make([]*big.Int, j.taps*j.taps)
				for i := range g {
					g[i] = new(big.Int)
				}
				if c < x.C() {
					for i := range side {
						for l := range side {
							d[i*side+l] = pixel(c, top+at[a]+i, left+at[b]+l)
						}
					}
					for i := taps[a]; i < taps[a+1]; i++ {
						for l := taps[b]; l < taps[b+1]; l++ {
							new(big.Float).SetMantExp(big.NewFloat(w.Plane(o, c)[i*k+l]), 149).Int(g[(i-at[a])*j.taps+l-at[b]])
						}
					}
				}
				half := make([][]float32, side) // by column
				for l := range side {
					column := make([]float32, side)
					for i := range side {
						column[i] = d[i*side+l]
					}
					half[l] = j.input(column)
				}
				for i := range side {
					line := make([]float32, side)
					for l := range side {
						line[l] = half[l][i]
					}
					for l, v := range j.input(line) {
						step(i*side+l, j.weight(g, i, l), v)
					}
				}
				if terms++; terms%chain == 0 {
					flush()
				}
			}
		}
	}
	if terms%chain != 0 {
		flush()
	}
	line := make([]float32, side)
	for l := range side {
		column := make([]float32, side)
		for i := range side {
			column[i] = m[i*side+l]
		}
		line[l] = j.output(column, y%j.tile)
	}
	return j.output(line, xx%j.tile) + float32(bias)
}

// tapped is an output of a convolution tap by tap: see value.
func tapped(x, w *tensor.Tensor, bias float64, p Params, n, o, y, xx int) float32 {
	down, along := max(p.Dilation[0], 1), max(p.Dilation[1], 1)
	var total, sum float32
	terms := 0
	width := 8
	if x.C() <= 4 {
		width = 4
	}
	for b := 0; b < x.C(); b += width {
		for i := range w.H() {
			for j := range w.W() {
				for c := b; c < b+width; c++ {
					var u, v float32
					if c < x.C() {
						u = float32(w.Plane(o, c)[i*w.W()+j])
						r, l := y*max(p.Stride[0], 1)+i*down-p.Pad[0], xx*max(p.Stride[1], 1)+j*along-p.Pad[1]
						if p.Padding == Circular {
							r, l = (r+x.H())%x.H(), (l+x.W())%x.W()
						}
						if r >= 0 && r < x.H() && l >= 0 && l < x.W() {
							v = float32(x.Plane(n, c)[r*x.W()+l])
						}
					}
					sum = single.FMA(u, v, sum)
				}
				if terms++; terms%16 == 0 {
					if terms == 16 {
						total = sum
					} else {
						total += sum
					}
					sum = 0
				}
			}
		}
	}
	if terms < 16 {
		total = sum
	} else if terms%16 != 0 {
		total += sum
	}
	return total + float32(bias)
}

func TestFastTapsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 60 {
		k, kind, stride := []int{1, 3, 5, 7}[i%4], i%hardKinds, 1+i/4%3
		ic, oc, h, w := 1+r.IntN(60), 1+r.IntN(40), k/2+1+r.IntN(30), k/2+1+r.IntN(30)
		if k > 1 && stride == 1 {
			ic = 1 + r.IntN(4) // too few for Winograd's method
		}
		x := tensor.Of(fp16.Float32, hard(r, kind, 2*ic*h*w, ic, h*w), 2, ic, h, w)
		weight := tensor.Of(fp16.Float32, hard(r, kind, oc*ic*k*k, ic, k*k), oc, ic, k, k)
		bias, padding := hard(r, kind, oc, oc, 1), Padding(kind%2)
		p := Square(stride, k/2, padding)
		oh, ow := p.OutSize(h, w, k, k)
		y := tensor.New(fp16.Float32, 2, oc, oh, ow)
		Forward(y, x, NewKernel(weight, bias).Fast(), p)
		for range 50 {
			n, o, i, j := r.IntN(2), r.IntN(oc), r.IntN(oh), r.IntN(ow)
			want := tapped(x, weight, bias[o], p, n, o, i, j)
			if want != want {
				want = canonicalNaN
			}
			if got := y.Plane(n, o)[i*ow+j]; math.Float32bits(float32(got)) != math.Float32bits(want) {
				t.Fatalf("%dx%d, stride %d, kind %d, %d to %d channels of %dx%d: output (%d, %d, %d) is %v, want %v",
					k, k, stride, kind, ic, oc, h, w, o, i, j, got, want)
			}
		}
	}
}

// TestFastWindows: windows of any geometry, with enough outputs and pixels, tap by tap, on tensors and in plans; others
// are exact.
func TestFastWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 8))
	fast, exact := 0, 0
	for trial := range 120 {
		kind, kh, kw := trial%hardKinds, 1+r.IntN(5), 1+r.IntN(9)
		p := Params{Stride: [2]int{r.IntN(4), r.IntN(4)}, Dilation: [2]int{r.IntN(3), r.IntN(3)},
			Pad: [4]int{r.IntN(4), r.IntN(4), r.IntN(4), r.IntN(4)}}
		ic, oc := 1+r.IntN(12), 12+r.IntN(12)
		if trial%3 == 0 {
			oc = 32 + 8*r.IntN(3)
		}
		h, w := 6+r.IntN(8), 12+r.IntN(20)
		if trial%4 == 0 {
			w = 9
		}
		oh, ow := p.OutSize(h, w, kh, kw)
		if oh < 1 || ow < 1 {
			continue
		}
		x := tensor.Of(fp16.Float32, hard(r, kind, 2*ic*h*w, ic, h*w), 2, ic, h, w)
		weight := tensor.Of(fp16.Float32, hard(r, kind, oc*ic*kh*kw, ic, kh*kw), oc, ic, kh, kw)
		bias := hard(r, kind, oc, oc, 1)
		k, plain := NewKernel(weight, bias).Fast(), NewKernel(weight, bias)
		if !k.fast || k.usual(p) {
			continue
		}
		y, z := tensor.New(fp16.Float32, 2, oc, oh, ow), tensor.New(fp16.Float32, 2, oc, oh, ow)
		Forward(y, x, k, p)
		if !FastWindow(p, ic, oc, oh, ow) {
			if Forward(z, x, plain, p); !slices.EqualFunc(y.Data, z.Data, sameNumber) {
				t.Fatalf("%dx%d, %v: other bits than exact arithmetic", kh, kw, p)
			}
			exact++
			continue
		}
		fast++
		for range 50 {
			n, o, i, j := r.IntN(2), r.IntN(oc), r.IntN(oh), r.IntN(ow)
			want := tapped(x, weight, bias[o], p, n, o, i, j)
			if want != want {
				want = canonicalNaN
			}
			if got := y.Plane(n, o)[i*ow+j]; math.Float32bits(float32(got)) != math.Float32bits(want) {
				t.Fatalf("%dx%d, %v, kind %d, %d to %d channels of %dx%d: output (%d, %d, %d) is %v, want %v",
					kh, kw, p, kind, ic, oc, h, w, o, i, j, got, want)
			}
		}
		plan := k.Prepare(fp16.Float32, 2, h, w, p)
		image := func(c, h, w, frame int) *Image {
			return NewImage(fp16.Float32, 2, c, h, w, frame, make([]float32, ImageSize(2, c, h, w, frame)))
		}
		from, to := image(ic, h, w, plan.Frame()), image(oc, oh, ow, 0)
		from.From(x)
		from.FillFrame(p.Padding)
		plan.Run(to, from, new(Space))
		if to.To(z); !slices.EqualFunc(y.Data, z.Data, sameNumber) || !plan.OnImages() {
			t.Fatalf("%dx%d, %v: a plan has other bits", kh, kw, p)
		}
	}
	if fast < 30 || exact < 10 {
		t.Errorf("%d windows in fast arithmetic, %d in exact: want some of each", fast, exact)
	}
}

func sameNumber(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// Every kernel, and plain Go, returns what the judge does.
func TestFastDefinition(t *testing.T) {
	judges := map[int]*fastJudge{3: newFastJudge(3, 4, 5./8, 13./8), 5: newFastJudge(5, 3, 1./4, 7./8, 7./4),
		7: newFastJudge(4, 4, 1./4, 7./8, 7./4)}
	chains := map[int]int{3: 32, 5: 16, 7: 16}
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range []int{3, 5, 7} {
		for kind := range hardKinds {
			ic, oc, h, w := []int{5, 18, 41}[kind%(4-k/3)], 8+r.IntN(40), k/2+1+r.IntN(9), k/2+1+r.IntN(9)
			x := tensor.Of(fp16.Float32, hard(r, kind, ic*h*w, ic, h*w), 1, ic, h, w)
			weight := tensor.Of(fp16.Float32, hard(r, kind, oc*ic*k*k, ic, k*k), oc, ic, k, k)
			bias := hard(r, kind, oc, oc, 1)
			padding := Padding(kind % 2)
			y := tensor.New(fp16.Float32, 1, oc, h, w)
			Forward(y, x, NewKernel(weight, bias).Fast(), Square(1, k/2, padding))
			for range 2 {
				o, i, j := r.IntN(oc), r.IntN(h), r.IntN(w)
				want := judges[k].value(x, weight, bias[o], chains[k], 0, o, i, j, padding)
				if want != want {
					want = canonicalNaN
				}
				if got := y.Plane(0, o)[i*w+j]; math.Float32bits(float32(got)) != math.Float32bits(want) {
					t.Fatalf("%dx%d, kind %d, %d to %d channels of %dx%d: output (%d, %d, %d) is %v, want %v",
						k, k, kind, ic, oc, h, w, o, i, j, got, want)
				}
			}
		}
	}
}

// Kernels return what plain Go does, bit for bit, on all kinds of data, and so do images
// of any batch, and any number of threads.
func TestFastBits(t *testing.T) {
	isa := asm.ISA()
	if asm.WinogradForm(3).Fast() == nil {
		t.Skip("plain Go: nothing to compare with")
	}
	defer func() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
	}()
	r := rand.New(rand.NewPCG(3, 4))
	for done := 0; done < *fastOutputsWanted; {
		k, kind := []int{1, 3, 3, 3, 5, 7}[r.IntN(6)], r.IntN(hardKinds+1)
		n, ic, oc, h, w := 1+r.IntN(2), 5+r.IntN(40), 8+r.IntN(40), k/2+1+r.IntN(9), k/2+1+r.IntN(16)
		if r.IntN(8) == 0 {
			ic, oc = 200+r.IntN(100), 200+r.IntN(100)
		}
		x := tensor.Of(fp16.Float32, hard(r, kind%hardKinds, n*ic*h*w, ic, h*w), n, ic, h, w)
		if kind == hardKinds {
			for range 3 {
				x.Data[r.IntN(len(x.Data))] = []float64{math.Inf(1), math.Inf(-1), fp16.NaN, 1e38, -3e38, 0x1p-149}[r.IntN(6)]
			}
		}
		weight := tensor.Of(fp16.Float32, hard(r, kind%hardKinds, oc*ic*k*k, ic, k*k), oc, ic, k, k)
		kernel := NewKernel(weight, hard(r, kind%hardKinds, oc, oc, 1)).Fast()
		p := Square(1+r.IntN(4)/2, k/2, []Padding{Zeros, Circular, Reflect, Replicate}[r.IntN(4)])
		oh, ow := p.OutSize(h, w, k, k)
		one := func(name string) *tensor.Tensor {
			if err := asm.Use(name); err != nil {
				t.Fatal(err)
			}
			y := tensor.New(fp16.Float32, n, oc, oh, ow)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1 + r.IntN(7)))
			Forward(y, x, kernel, p)
			return y
		}
		got, want := one(isa), one("purego")
		for i, v := range want.Data {
			if math.Float64bits(got.Data[i]) != math.Float64bits(v) {
				t.Fatalf("%dx%d, kind %d, [%d,%d,%d,%d] to %d channels, stride %d, %s: output %d is %x, want %x",
					k, k, kind, n, ic, h, w, oc, p.Stride[0], p.Padding, i, got.Data[i], v)
			}
		}
		// The last sample alone.
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		y := tensor.New(fp16.Float32, 1, oc, oh, ow)
		Forward(y, x.Samples(n-1, n), kernel, p)
		for i, v := range y.Data {
			if math.Float64bits(got.Samples(n-1, n).Data[i]) != math.Float64bits(v) {
				t.Fatalf("output %d of a sample alone is %x", i, v)
			}
		}
		for _, v := range want.Data {
			if v-v == 0 { // of two NaNs nothing is learnt
				done++
			}
		}
	}
}

// TestFastTapsBound: no output tap by tap is farther from the exact sum than g_r P + u|b|, P
// the sum of the products' magnitudes and r = 129 + n/128; some reach a hundredth of it.
func TestFastTapsBound(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	reached := 0.0
	for kind := range hardKinds {
		const oc, side = 8, 10
		k, ic := []int{1, 3, 9}[kind%3], []int{8, 40, 130}[kind/3%3]
		p := Square(2, k/2, Zeros)
		x, w := tensor.Of(fp16.Float32, hard(r, kind, ic*side*side, ic, side*side), 1, ic, side, side),
			tensor.New(fp16.Float32, oc, ic, k, k)
		bias := make([]float64, oc)
		for i := range x.Data { // within the range in which nothing underflows
			x.Data[i] = math.Copysign(max(math.Abs(x.Data[i]), 0x1p-40), x.Data[i])
		}
		for i := range w.Data {
			w.Data[i] = fp16.Float32.Round(r.NormFloat64())
		}
		for i := range bias {
			bias[i] = fp16.Float32.Round(r.NormFloat64())
		}
		magnitudes := func(t *tensor.Tensor) *tensor.Tensor {
			a := tensor.Like(t)
			for i, v := range t.Data {
				a.Data[i] = math.Abs(v)
			}
			return a
		}
		exact, oh := NewKernel(w, bias), (side-1)/2+1
		got := tensor.New(fp16.Float32, 1, oc, oh, oh)
		want, size := tensor.New(fp16.Float64, 1, oc, oh, oh), tensor.New(fp16.Float64, 1, oc, oh, oh)
		Forward(got, x, exact.Fast(), p)
		Forward(want, x, exact, p)
		Forward(size, magnitudes(x), NewKernel(magnitudes(w), nil), p)
		const u = 0x1p-24
		rounds := float64(129 + (ic+7)/8*8*k*k/128)
		for i, v := range got.Data {
			b := math.Abs(bias[i/(oh*oh)])
			bound := 1.001 * u * (rounds*(size.Data[i]) + b + math.Abs(want.Data[i]))
			off := math.Abs(v - want.Data[i])
			if !(off <= bound) {
				t.Fatalf("%dx%d, kind %d: output %d is off by %.3g, more than %.3g", k, k, kind, i, off, bound)
			}
			reached = max(reached, off/bound)
		}
	}
	if t.Logf("%.3g of the bound", reached); reached < 0.005 {
		t.Errorf("no output is farther off than %.3g of the bound", reached)
	}
}

// No output is farther from the exact sum than the bound of Winograd's method, with
// float32's unit, on any kind of data; the largest is some hundredths of a percent of it or
// more, so that a bound of another size would be seen.
func TestFastBound(t *testing.T) {
	kept := chains
	defer func() { chains = kept }()
	chains = map[int]int{3: fastForms[3].chain, 5: fastForms[5].chain}
	r := rand.New(rand.NewPCG(11, 12))
	for _, k := range []int{3, 5} {
		reached := 0.0
		for kind := range hardKinds {
			const oc, side = 8, 12
			form := asm.FastForm(k)
			m := form.Tile
			ic := []int{8, 40, 100}[kind%3]
			x := tensor.Of(fp16.Float32, hard(r, kind, ic*side*side, ic, side*side), 1, ic, side, side)
			if kind == 3 { // within the range in which nothing underflows
				for i, v := range x.Data {
					x.Data[i] = math.Copysign(max(math.Abs(v), 0x1p-40), v)
				}
			}
			w := tensor.New(fp16.Float32, oc, ic, k, k)
			for i := range w.Data {
				w.Data[i] = fp16.Float32.Round(r.NormFloat64())
			}
			exact, p := NewKernel(w, nil), Square(1, k/2, Zeros)
			got, want := tensor.New(fp16.Float32, 1, oc, side, side), tensor.New(fp16.Float64, 1, oc, side, side)
			Forward(got, x, exact.Fast(), p)
			Forward(want, x, exact, p)
			src := newTestImage(fp16.Float32, 1, ic, side, side, k/2)
			src.From(x)
			src.FillFrame(Zeros)
			tables := exact.transform(form, &asm.Winograd{Outputs: 8}).tables
			norms := make([]float64, form.Side)
			for ty := 0; ty < side; ty += m {
				for tx := 0; tx < side; tx += m {
					greatest := 0.0
					for i := range form.Side {
						pixelNorms(norms, src, exact, 0, ty+i-k/2, tx-k/2)
						for _, v := range norms {
							greatest = max(greatest, v)
						}
					}
					for o := range oc {
						for ij := range m * m {
							at := (o*side+ty+ij/m)*side + tx + ij%m
							bound := 0x1p29 * tables[ij*8+o] * greatest
							off := math.Abs(got.Data[at] - want.Data[at])
							if !(off <= bound) {
								t.Fatalf("%dx%d, kind %d: output (%d, %d, %d) is off by %.3g, more than %.3g",
									k, k, kind, o, ty+ij/m, tx+ij%m, off, bound)
							}
							reached = max(reached, off/bound)
						}
					}
				}
			}
		}
		if t.Logf("%dx%d: %.3g of the bound", k, k, reached); reached < 5e-4 {
			t.Errorf("%dx%d: no output is farther off than %.3g of the bound", k, k, reached)
		}
	}
}

// An image in a frame wider than the convolution's own has the same outputs.
func TestFastFrame(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for i, padding := range []Padding{Zeros, Circular, Reflect, Replicate, Zeros, Circular, Reflect, Replicate} {
		size, h, w := 3+i/4*2, 9+i/4*7, 11+i/4*5 // 16x16 for 5x5: tiles of 3x3 end beyond it
		x, weight := gauss(r, fp16.Float32, 2, 16, h, w), gauss(r, fp16.Float32, 24, 16, size, size)
		k, p := NewKernel(weight, nil).Fast(), Square(1, size/2, padding)
		want, got := tensor.New(fp16.Float32, 2, 24, h, w), tensor.New(fp16.Float32, 2, 24, h, w)
		Forward(want, x, k, p)
		src, dst := newTestImage(fp16.Float32, 2, 16, h, w, 3), newTestImage(fp16.Float32, 2, 24, h, w, i%3)
		src.From(x)
		src.FillFrame(padding)
		k.Prepare(fp16.Float32, 1, h, w, p).Run(dst, src, new(Space))
		dst.To(got)
		for i, v := range want.Data {
			if got.Data[i] != v {
				t.Fatalf("%dx%d, %v: output %d is %v, want %v", size, size, padding, i, got.Data[i], v)
			}
		}
	}
}

// TestFastNobodys: what no output of the image reads, on the next line of an image whose
// last tile's transformed window ends beyond it, makes no output NaN.
func TestFastNobodys(t *testing.T) {
	const side = 16
	r := rand.New(rand.NewPCG(3, 7))
	w := gauss(r, fp16.Float32, 8, 8, 7, 7)
	for _, at := range [][2]int{{8, side - 3}, {side - 3, 8}} { // the padding before it holds this pixel, too
		x := gauss(r, fp16.Float32, 1, 8, side, side)
		x.Data[at[0]*side+at[1]] = math.NaN()
		y := tensor.New(fp16.Float32, 1, 8, side, side)
		Forward(y, x, NewKernel(w, nil).Fast(), Square(1, 3, Circular))
		for i := range side * side {
			near := true // whether the window of 11x11 pixels of its tile holds the NaN
			for axis, tile := range []int{i / side / 4 * 4, i % side / 4 * 4} {
				near = near && (at[axis]-tile+3+side)%side < 11
			}
			for o := range 8 {
				if v := y.Plane(0, o)[i]; near != (v != v) {
					t.Fatalf("NaN at %v: output (%d, %d, %d) is %v", at, o, i/side, i%side, v)
				}
			}
		}
	}
}

// The distance from exact arithmetic, RMS over that of the outputs.
func TestFastAccuracy(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		k, channels int
		most        float64
	}{{3, 16, 1e-6}, {3, 64, 1e-6}, {3, 256, 1e-6}, {5, 32, 1e-6}, {7, 32, 3e-6}} {
		t.Run(fmt.Sprintf("%dx%d of %d", c.k, c.k, c.channels), func(t *testing.T) {
			const side, oc = 16, 16
			x := tensor.New(fp16.Float32, 1, c.channels, side, side)
			for i := range x.Data {
				v := r.NormFloat64()
				x.Data[i] = fp16.Float32.Round(max(v, 0.1*v))
			}
			w := tensor.New(fp16.Float32, oc, c.channels, c.k, c.k)
			for i := range w.Data {
				w.Data[i] = fp16.Float32.Round((2*r.Float64() - 1) / math.Sqrt(float64(c.channels*c.k*c.k)))
			}
			kernel := NewKernel(w, nil)
			got, want := tensor.New(fp16.Float32, 1, oc, side, side), tensor.New(fp16.Float64, 1, oc, side, side)
			Forward(got, x, kernel.Fast(), Square(1, c.k/2, Zeros))
			Forward(want, x, kernel, Square(1, c.k/2, Zeros))
			var off, size float64
			for i, v := range want.Data {
				off += (got.Data[i] - v) * (got.Data[i] - v)
				size += v * v
			}
			if rms := math.Sqrt(off / size); !(rms <= c.most) {
				t.Errorf("RMS distance %.2g, want at most %.2g", rms, c.most)
			} else {
				t.Logf("RMS distance %.2g", rms)
			}
		})
	}
}
