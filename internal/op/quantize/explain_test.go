package quantize

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestWays: what any way of float32 arithmetic to scales and elements gives is explained, and that way is among those
// that give all.
func TestWays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := tensor.New(fp16.Float32, 64, 64)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(rng.NormFloat64() * math.Ldexp(1, i/64-40))
	}
	tried, apart := 0, 0
	for _, c := range []struct {
		format string
		Options
		global float64
	}{
		{"mxfp8_e4m3", Options{Rule: "rceil"}, 1}, {"mxfp4_e2m1", Options{Rule: "rceil"}, 1}, {"mxfp8_e5m2", Options{}, 1},
		{"nvfp4", Options{}, 1}, {"nvfp4", Options{}, GlobalScale(x)}, {"fp8_e4m3", Options{Block: "1x16"}, 1},
		{"fp8_e5m2", Options{Block: "row", Rule: "pow2"}, 1},
		{"int8", Options{Block: "row"}, 1}, {"uint8", Options{Block: "row"}, 1},
		{"int4", Options{Block: "32", Rule: "minmax"}, 1},
	} {
		s, err := Parse(c.format, c.Options)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Grid(x.Shape)
		if err != nil {
			t.Fatal(err)
		}
		all := s.stats(x.Data, x.Shape, g)
		plain, _ := s.Quantize(x, c.global, nil)
		for _, scale := range s.ScaleWays() {
			for _, quotient := range s.QuotientWays() {
				y := &Tensor{Shape: x.Shape, Global: c.global, Codes: make([]uint8, len(x.Data))}
				for b := range all {
					y.Scales = append(y.Scales, scale.of(all[b], c.global))
					y.Zeros = append(y.Zeros, s.zero(all[b], y.Scales[b]))
				}
				for i, v := range x.Data {
					b := g.Of[i]
					y.Codes[i] = s.element(quotient.of(v, y.Scales[b], c.global, all[b]), y.Zeros[b])
				}
				e, err := s.Explain(x, y, len(x.Data))
				if err != nil || e.Wrong() > 0 || !gives(e.Parts[0], scale.Name) || !gives(e.Parts[len(e.Parts)-1], quotient.Name) {
					t.Errorf("%s, scales by %s, elements by %s: %+v, %v", c.format, scale.Name, quotient.Name, e, err)
				}
				tried++
				if !slices.Equal(y.Codes, plain.Codes) {
					apart++
				}
			}
		}
	}
	t.Logf("%d pairs of ways, %d of which differ from the first", tried, apart)
	if tried < 80 || apart < 30 {
		t.Errorf("%d pairs of ways, %d of which differ from the first", tried, apart)
	}
}

func gives(p Part, way string) bool {
	return slices.Contains(p.Ways, way) || slices.Contains(p.Ways, AnyWay)
}

// TestApproximate: quotients and scales of approximate divisions are explained as such, but a tie that is exact is a
// tie.
func TestApproximate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	x := tensor.New(fp16.Float32, 64, 64)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(rng.NormFloat64())
	}
	off := func(q float64) float64 {
		low, high, ok := around(q, 1)
		switch {
		case !ok:
			return f32(q)
		case rng.IntN(2) == 0:
			return low
		}
		return high
	}
	for _, c := range []struct {
		format string
		Options
	}{
		{"fp8_e4m3", Options{Block: "1x16"}},
		{"nvfp4", Options{}},
		{"int8", Options{Block: "row"}},
		{"mxfp8_e4m3", Options{Rule: "rceil"}},
	} {
		s, _ := Parse(c.format, c.Options)
		g, _ := s.Grid(x.Shape)
		all, turned := s.stats(x.Data, x.Shape, g), 0
		y := &Tensor{Shape: x.Shape, Global: 1, Codes: make([]uint8, len(x.Data))}
		for b := range all {
			v := off(all[b].amax / s.largest())
			switch s.Kind {
			case EightBits:
				v = s.eight(v, 0x1p-9)
			case PowerOf2:
				v = scalePower(ceilLog2(v))
			}
			y.Scales = append(y.Scales, v)
		}
		for i := range x.Data { // every number is next to a tie
			b := g.Of[i]
			n := s.Element.Decode(uint8(1 + rng.IntN(7)))
			v := float32((n + s.Element.Decode(uint8(2+rng.IntN(7)))) / 2 * y.Scales[b])
			x.Data[i] = min(float64(math.Nextafter32(v, float32(rng.IntN(2))*10)), all[b].amax)
		}
		for i := range all { // the amax stays
			x.Data[i*len(x.Data)/len(all)] = all[i].amax
		}
		for i, v := range x.Data {
			q := v / y.Scales[g.Of[i]]
			if s.Kind != PowerOf2 {
				q = off(q)
			}
			if y.Codes[i] = s.element(q, 0); y.Codes[i] != s.element(divide(v, y.Scales[g.Of[i]]), 0) {
				turned++
			}
		}
		e, err := s.Explain(x, y, len(x.Data))
		if err != nil || e.Wrong() > 0 || s.Kind != PowerOf2 && turned < 20 {
			t.Errorf("%s: %+v, %v; %d codes differ from those of a division", c.format, e, err, turned)
		}
		for b := range y.Scales { // four units are too many
			y.Scales[b] = math.Nextafter(y.Scales[b], 2) * (1 + 6*0x1p-24)
		}
		if e, err = s.Explain(x, y, len(x.Data)); err != nil || e.Wrong() == 0 {
			t.Errorf("%s: scales that are off by more: %+v, %v", c.format, e, err)
		}
	}
	s, _ := Parse("int8", Options{Rule: "given"})
	ties := tensor.Of(fp16.Float32, []float64{0.75, 1.25, -0.75, -1.75}, 4)
	up := &Tensor{Shape: ties.Shape, Global: 1, Codes: []uint8{2, 3, 0xfe, 0xfc}, Scales: []float64{0.5}}
	if e, err := s.Explain(ties, up, 4); err != nil || e.Parts[0].Wrong != 1 {
		t.Errorf("a tie that goes away from zero: %+v, %v", e, err)
	}
}

// TestScaleRules: the scale of MX for each kind of amax, the standard's, NVIDIA's and torchao's.
func TestScaleRules(t *testing.T) {
	for _, c := range []struct {
		format, rule string
		amax, want   float64
	}{
		{"mxfp8_e4m3", "floor", 448, 1}, {"mxfp8_e4m3", "floor", 511, 1}, {"mxfp8_e4m3", "floor", 512, 2},
		{"mxfp8_e4m3", "ceil", 256, 1}, {"mxfp8_e4m3", "ceil", 257, 2}, {"mxfp8_e4m3", "rceil", 448, 1},
		{"mxfp8_e4m3", "rceil", 449, 2},
		{"mxfp8_e4m3", "even", 495, 1}, {"mxfp8_e4m3", "even", 496, 2}, {"mxfp4_e2m1", "even", 6.9, 1},
		{"mxfp4_e2m1", "even", 7, 2},
		{"mxfp6_e3m2", "rceil", 28, 1}, {"mxfp6_e2m3", "rceil", 7.6, 2}, {"mxfp8_e5m2", "rceil", 57345, 2},
		{"mxfp8_e4m3", "floor", 0, 0x1p-127}, {"mxfp8_e4m3", "rceil", 0, 0x1p-127},
		{"mxfp8_e4m3", "ceil", 0x1p-149, 0x1p-127}, {"mxfp8_e4m3", "even", 0x1p-130, 0x1p-127},
		{"mxfp8_e4m3", "floor", math.Inf(1), 0x1p120}, {"mxfp8_e4m3", "ceil", math.Inf(1), 0x1p120},
		{"mxfp8_e4m3", "rceil", math.Inf(1), 0x1p127},
		{"mxfp4_e2m1", "floor", math.NaN(), math.NaN()}, {"mxfp4_e2m1", "rceil", math.NaN(), math.NaN()},
		{"mxfp4_e2m1", "even", math.NaN(), math.NaN()},
		{"nvfp4", "", 6, 1}, {"nvfp4", "", 0, 0x1p-6}, {"nvfp4", "", 1e9, 448}, {"nvfp4", "", math.Inf(1), 448},
		{"nvfp4", "", math.NaN(), math.NaN()},
		{"fp8_e4m3", "", 448, 1}, {"fp8_e4m3", "", 0, 0}, {"fp8_e4m3", "pow2", 449, 2},
		{"fp8_e4m3", "", math.Inf(1), math.Inf(1)}, {"int8", "", 127, 1},
	} {
		s, err := Parse(c.format, Options{Rule: c.rule})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range s.ScaleWays() {
			if got := w.of(stats{amax: c.amax}, 1); !same(got, c.want) && !(c.want == 0x1p-6 && got == 0x1p-9) {
				t.Errorf("%s %s by %s: the scale of %v is %v, want %v", c.format, c.rule, w.Name, c.amax, got, c.want)
			}
		}
	}
}

// TestStochastic: draws with the right chances pass, whatever the format; nearest, truncated and biased ones do not.
func TestStochastic(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x := tensor.New(fp16.Float32, 64, 64)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(rng.NormFloat64())
	}
	for _, format := range []string{"mxfp4_e2m1", "nvfp4", "fp8_e5m2", "int8"} {
		s, err := Parse(format, Options{Rounding: "stochastic"})
		if err != nil {
			t.Fatal(err)
		}
		g, _ := s.Grid(x.Shape)
		all := s.stats(x.Data, x.Shape, g)
		y, _ := s.Quantize(x, 1, nil)
		for _, c := range []struct {
			name string
			away func(p float64) bool
			fair bool
		}{
			{"fair", func(p float64) bool { return rng.Float64() < p }, true},
			{"of 8 bits", func(p float64) bool { return math.Floor(p*256+rng.Float64()*256) >= 256 }, true},
			{"nearest", func(p float64) bool { return p > 0.5 }, false},
			{"truncated", func(p float64) bool { return false }, false},
			{"biased", func(p float64) bool { return rng.Float64() < p+0.1 }, false},
		} {
			for i, v := range x.Data {
				b := g.Of[i]
				toward, away, p := s.Element.around(s.QuotientWays()[0].of(v, y.Scales[b], 1, all[b]))
				if y.Codes[i] = toward; c.away(p) {
					y.Codes[i] = away
				}
			}
			e, err := s.Explain(x, y, len(x.Data))
			if err != nil || e.Wrong() > 0 {
				t.Fatalf("%s %s: %+v, %v", format, c.name, e, err)
			}
			if off := max(math.Abs(e.Drift), math.Abs(e.Nearness)); (off < 5) != c.fair {
				t.Errorf("%s %s: drift %.2f, nearness %.2f", format, c.name, e.Drift, e.Nearness)
			}
		}
	}
}

// TestDequantize: numbers come back within half a unit of the scale, and each way of float32 is explained.
func TestDequantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	x := tensor.New(fp16.Float32, 32, 64)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(rng.NormFloat64())
	}
	for _, name := range []string{"mxfp8_e4m3", "mxfp6_e3m2", "nvfp4", "fp8_e4m3", "int8", "uint4"} {
		s, err := Parse(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		global := 1.0
		if name == "nvfp4" {
			global = GlobalScale(x)
		}
		q, err := s.Quantize(x, global, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []fp16.Format{fp16.Float32, fp16.BFloat16, fp16.Float16} {
			y, err := s.Dequantize(q, to)
			if err != nil {
				t.Fatal(err)
			}
			far := 0.0
			for i, v := range y.Data {
				far = max(far, math.Abs(v-x.Data[i]))
			}
			if e, err := s.ExplainNumbers(q, y, 0); err != nil || e.Wrong() > 0 || far > 0.5 {
				t.Errorf("%s to %v: %+v, %v, %v off", name, to, e, err, far)
			}
		}
	}
}

// TestPack: two numbers a byte, the first low or high, come back.
func TestPack(t *testing.T) {
	codes := []uint8{1, 2, 15, 0}
	if low, high := Pack(codes, false), Pack(codes, true); low[0] != 0x21 || high[0] != 0x12 || low[1] != 0x0f ||
		high[1] != 0xf0 {
		t.Errorf("%x, %x", low, high)
	}
	for _, high := range []bool{false, true} {
		if got := Unpack(Pack(codes, high), high); !slices.Equal(got, codes) {
			t.Errorf("%v", got)
		}
	}
}
