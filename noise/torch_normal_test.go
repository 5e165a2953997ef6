package noise

import (
	"math"
	"testing"

	"github.com/refrun/refrun/internal/exact/single"
)

// The kernel once more, one number at a time and without rearrangement, to hold
// the lanes to: Cephes' decomposition with m in [0.5, 1), branches for octants,
// every multiply-add settled.

func cephesLogPlain(u float32) float32 {
	frac, exp := math.Frexp(float64(u))
	e, m := float32(exp), float32(frac)
	x := m - 1
	if m < 0.707106781186547524 {
		e--
		x += m
	}
	z := float32(x * x)
	y := float32(7.0376836292e-2)
	for _, p := range []float32{-1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
		-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1} {
		y = single.Settle(y, x, p)
	}
	y = float32(y * x)
	y = single.Settle(y, z, float32(e*-2.12194440e-4))
	y = single.Settle(-z, 0.5, y)
	return single.Settle(e, 0.693359375, x+y)
}

func cephesSincosPlain(theta float32) (sin, cos float32) {
	j := int(math.Trunc(float64(float32(theta*1.27323954473516)))) + 1
	j -= j % 2
	y := float32(j)
	x := single.Settle(y, -0.78515625, theta)
	x = single.Settle(y, -2.4187564849853515625e-4, x)
	x = single.Settle(y, -3.77489497744594108e-8, x)
	z := float32(x * x)
	c := single.Settle(2.443315711809948e-5, z, -1.388731625493765e-3)
	c = single.Settle(c, z, 4.166664568298827e-2)
	c = single.Settle(float32(c*z), z, -float32(z*0.5)) + 1
	s := single.Settle(-1.9515295891e-4, z, 8.3321608736e-3)
	s = single.Settle(s, z, -1.6666654611e-1)
	s = single.Settle(float32(s*z), x, x)
	switch j % 8 {
	case 0:
		return s, c
	case 2:
		return c, -s
	case 4:
		return -s, -c
	}
	return -c, s
}

// torchNormalPlain fills d, of 16 numbers and more, in two passes.
func torchNormalPlain(s *TorchCPU, d []float64) {
	block := func(d []float64) {
		for j := range 8 {
			r := float32(math.Sqrt(float64(-2 * cephesLogPlain(1-float32(d[j])))))
			sin, cos := cephesSincosPlain(float32(float32(2*math.Pi) * float32(d[j+8])))
			d[j] = float64(single.Settle(float32(r*cos), 1, 0))
			d[j+8] = float64(single.Settle(float32(r*sin), 1, 0))
		}
	}
	uniforms := func(d []float64) {
		for i := range d {
			d[i] = float64(s.mt.u24())
		}
	}
	uniforms(d)
	for i := 0; i+16 <= len(d); i += 16 {
		block(d[i : i+16])
	}
	if len(d)%16 != 0 {
		uniforms(d[len(d)-16:])
		block(d[len(d)-16:])
	}
}

// Every length around the blocks, and the draw that follows.
func TestTorchNormalLengths(t *testing.T) {
	for n := 16; n <= 70; n++ {
		s, x := torchStream(t, "1.13", uint64(n)), torchStream(t, "1.13", uint64(n))
		torchDiff(t, "normal", torchFill(t, n, s.Normal), torchFill(t, n, func(d []float64) { torchNormalPlain(x, d) }))
		if a, b := s.mt.random(), x.mt.random(); a != b {
			t.Fatalf("length %d: the next word is %#x, want %#x", n, a, b)
		}
	}
	// Shorter fills are a walk along one sequence of pairs, four words each.
	s, x := torchStream(t, "1.13", 1), torchStream(t, "1.13", 1)
	var walk, once []float64
	for n := range 16 {
		walk = append(walk, torchFill(t, n, s.Normal)...)
	}
	for range walk {
		once = append(once, torchFill(t, 1, x.Normal)...)
	}
	torchDiff(t, "short fills", walk, once)
	x.Seed(1)
	for range len(walk) / 2 * 4 {
		x.mt.random()
	}
	if a, b := s.mt.random(), x.mt.random(); len(walk)%2 != 0 || a != b {
		t.Errorf("after %d normals the next word is %#x, want %#x", len(walk), a, b)
	}
}

// The lanes against the plain kernel and the mathematics over the arguments
// that occur, 1 - k 2^-24 and rn(2 pi) k 2^-24: the ends and a grid between.
func TestTorchKernel(t *testing.T) {
	var ks []uint32
	for k := range uint32(1 << 12) {
		ks = append(ks, k, 1<<24-1-k)
	}
	for k := uint32(0); k < 1<<24; k += 97 {
		ks = append(ks, k)
	}
	for q := uint32(1); q < 8; q++ { // the octants
		for k := q<<21 - 16; k < q<<21+16; k++ {
			ks = append(ks, k)
		}
	}
	const split = 1<<24 - 0xb504f3 // where u passes sqrt(1/2)
	for k := uint32(split - 16); k < split+16; k++ {
		ks = append(ks, k)
	}
	for len(ks)%8 != 0 {
		ks = append(ks, 0)
	}
	for ; len(ks) > 0; ks = ks[8:] {
		var u, theta, log, sin, cos lanes32
		for i, k := range ks[:8] {
			u[i] = 1 - float32(k)*0x1p-24
			theta[i] = float32(2*math.Pi) * (float32(k) * 0x1p-24)
		}
		cephesLog(&log, &u)
		cephesSincos(&sin, &cos, &theta)
		for i := range u {
			for _, c := range []struct {
				name           string
				arg, got, want float32
				exact, bound   float64
			}{
				{"log", u[i], log[i], cephesLogPlain(u[i]), math.Log(float64(u[i])), 0x1p-23 * math.Abs(math.Log(float64(u[i])))},
				{"sin", theta[i], sin[i], first(cephesSincosPlain(theta[i])), math.Sin(float64(theta[i])), 0x1p-23},
				{"cos", theta[i], cos[i], second(cephesSincosPlain(theta[i])), math.Cos(float64(theta[i])), 0x1p-23},
			} {
				if math.Float32bits(c.got) != math.Float32bits(c.want) {
					t.Fatalf("%s(%x) = %#08x, want %#08x", c.name, c.arg, math.Float32bits(c.got), math.Float32bits(c.want))
				}
				if !(math.Abs(float64(c.got)-c.exact) <= c.bound) {
					t.Fatalf("%s(%x) = %v is far from %v", c.name, c.arg, c.got, c.exact)
				}
			}
		}
	}
}

func first(a, _ float32) float32  { return a }
func second(_, b float32) float32 { return b }

// A radius of zero gives +0, whatever the angle: the mean that is added sees
// to that.
func TestTorchZero(t *testing.T) {
	for k := range uint32(16) {
		var u, theta lanes32
		for i := range u {
			u[i] = 1
			theta[i] = float32(2*math.Pi) * (float32(k) / 16)
		}
		var dst [torchBlock]float64
		dst[3] = math.NaN()
		torchBoxMuller(&dst, &u, &theta, 1)
		for i, v := range dst {
			if math.Float64bits(v) != 0 {
				t.Errorf("angle %d/16: slot %d is %v, want +0", k, i, v)
			}
		}
	}
	s := torchStream(t, "1.13", 0)
	s.cache, s.cached = math.Copysign(0, -1), true
	torchDiff(t, "cached -0", torchFill(t, 1, s.Normal), []float64{0})
}
