package noise

import (
	"math"

	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/ground/par"
)

// Normal fills dst as torch.randn and randn_like do. Sixteen numbers and more
// go through the blocked float32 kernel, which is reproduced exactly; fewer
// through scalar double precision (see [TorchCPU.Exponential] for its last
// bits), which draws pairs and keeps the second half of a pair for the next
// short fill.
func (t *TorchCPU) Normal(dst []float64) { t.normal(dst, 1) }

// ComplexNormal fills dst with pairs (re, im) as torch.randn of a complex64
// tensor does: as a real fill twice as long, of standard deviation 1/sqrt(2).
// An odd length panics.
func (t *TorchCPU) ComplexNormal(dst []float64) {
	if len(dst)%2 != 0 {
		panic(msgTorchComplex)
	}
	t.normal(dst, 1/math.Sqrt2)
}

// normal fills dst with normals of mean 0 and standard deviation std.
func (t *TorchCPU) normal(dst []float64, std float64) {
	if len(dst) < torchBlock {
		for i := range dst {
			// PyTorch adds the mean 0, which turns -0 into +0.
			dst[i] = float64(float32(float64(t.scalarNormal()*std) + 0))
		}
		return
	}
	// A length that is no multiple of 16 ends with a block over the last 16
	// slots, drawn afresh; the uniforms of the incomplete block are spent.
	n := len(dst)
	whole := dst[:n-n%torchBlock]
	t.mt.uniforms(whole)
	t.blocks.of, t.blocks.std = whole, float32(std)
	t.blocks.run()
	if spent := n % torchBlock; spent != 0 {
		for range spent {
			t.mt.random()
		}
		last := dst[n-torchBlock:]
		t.mt.uniforms(last)
		normalBlock((*[torchBlock]float64)(last), float32(std))
	}
}

// torchBlocks are blocks of uniforms to be made normals, independent of each other.
type torchBlocks struct {
	of      []float64
	std     float32
	kernels *asm.Noise
	ran     string
	self    *torchBlocks // whose body it is: not a copy's
	body    func(i int)
}

func (b *torchBlocks) run() {
	if k := asm.NoiseKernels(); b.self != b || b.kernels != k {
		b.self, b.body, b.kernels, b.ran = b, b.piece, k, "torch-cpu normal "+asm.ISA()
	}
	if b.kernels != nil {
		asm.Ran(b.ran)
	}
	par.For((len(b.of)+piece-1)/piece, b.body)
	b.of = nil
}

func (b *torchBlocks) piece(i int) {
	some := b.of[i*piece : min(len(b.of), (i+1)*piece)]
	if b.kernels != nil {
		b.kernels.TorchNormal(&some[0], len(some)/torchBlock, b.std)
		return
	}
	for ; len(some) > 0; some = some[torchBlock:] {
		normalBlock((*[torchBlock]float64)(some), b.std)
	}
}

// scalarNormal returns a standard normal in double precision by the Box-Muller
// method, with r = sqrt(-2 ln(1-u2)): r*cos(2 pi u1), and r*sin(2 pi u1) the
// time after.
func (t *TorchCPU) scalarNormal() float64 {
	if t.cached {
		t.cached = false
		return t.cache
	}
	u1, u2 := t.mt.u53(), t.mt.u53()
	r := math.Sqrt(-2 * t.logComplement(u2)) // the product is exact
	theta := 2 * math.Pi * u1
	t.cache, t.cached = r*elem.Sin(theta), true
	return r * elem.Cos(theta)
}

// torchBlock is the number of normals the blocked kernel makes at a time.
const torchBlock = 16

// normalBlock turns 16 uniforms into 16 normals by the Box-Muller method: with d
// the first eight of them, 1-d gives the radius and the other eight the angle;
// the cosines go to the first eight slots. All of it is float32 arithmetic in the
// order of PyTorch's AVX2 kernel.
func normalBlock(dst *[torchBlock]float64, std float32) {
	var u, theta lanes32
	for i := range u {
		u[i] = 1 - float32(dst[i])
		theta[i] = float32(2*math.Pi) * float32(dst[i+torchBlock/2])
	}
	torchBoxMuller(dst, &u, &theta, std)
}

// torchBoxMuller sets dst to r cos(theta), then r sin(theta), with r =
// std sqrt(-2 ln u), for u in [2^-24, 1] and theta in [0, 2 pi].
func torchBoxMuller(dst *[torchBlock]float64, u, theta *lanes32, std float32) {
	var log, sin, cos lanes32
	cephesLog(&log, u)
	cephesSincos(&sin, &cos, theta)
	for i := range log {
		// float64 has more than 2*24+2 bits: the root is rounded once.
		r := float32(math.Sqrt(float64(-2 * log[i])))
		// PyTorch adds the mean 0, which turns -0 into +0.
		dst[i] = float64(float32(float32(r*cos[i])*std) + 0)
		dst[i+torchBlock/2] = float64(float32(float32(r*sin[i])*std) + 0)
	}
}

// The constants of avx_mathfun.h, as decimals the way it writes them.
var (
	cephesLogP = splat32(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
		-1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
		-2.4999993993e-1, 3.3333331174e-1)
	cephesCosP  = splat32(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
	cephesSinP  = splat32(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
	cephesPi4   = splat32(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8) // -pi/4 in three pieces
	cephesHalf  = splat32(-0.5)
	cephesLn2Hi = splat32(0.693359375)
)

// horner sets y to the polynomial p, highest power first, at x.
func (y *lanes32) horner(p []lanes32, x *lanes32) {
	*y = p[0]
	for k := range p[1:] {
		y.fma(y, x, &p[k+1])
	}
}

// cephesLog sets y = ln(u), u in [2^-24, 1], as avx_mathfun.h does after the
// Cephes library's logf. The original finds m in [0.5, 1) with u = m*2^e, and
// where m < sqrt(1/2) takes e-1 and 2m-1 for e and x = m-1. Both are exact, so
// it comes to m in [sqrt(1/2), sqrt(2)) and x = m-1.
func cephesLog(y, u *lanes32) {
	const rootHalf = 0x3f3504f3 // bits of float32(sqrt(1/2))
	var e, x, z, t lanes32
	for i := range u {
		b := math.Float32bits(u[i])
		k := int32(b-rootHalf) >> 23
		e[i] = float32(k)
		x[i] = math.Float32frombits(b-uint32(k)<<23) - 1
		z[i] = x[i] * x[i]
		t[i] = e[i] * -2.12194440e-4 // the rest of ln 2
	}
	y.horner(cephesLogP, &x)
	for i := range y {
		y[i] *= x[i]
	}
	y.fma(y, &z, &t)
	y.fma(&z, &cephesHalf[0], y)
	for i := range y {
		y[i] += x[i]
	}
	y.fma(&e, &cephesLn2Hi[0], y)
}

// cephesSincos sets the sine and cosine of theta in [0, 2 pi] as avx_mathfun.h
// does after the Cephes library: j counts octants, rounded up to even, x is
// what remains of theta, in [-pi/4, pi/4], and the octant says which of the two
// polynomials serves as sine and which signs they take.
func cephesSincos(sin, cos, theta *lanes32) {
	var j [len(lanes32{})]uint32
	var y, z, t lanes32
	for i, v := range theta {
		j[i] = (uint32(v*1.27323954473516) + 1) &^ 1 // 4/pi
		y[i] = float32(j[i])
	}
	x := *theta
	for k := range cephesPi4 {
		x.fma(&y, &cephesPi4[k], &x)
	}
	for i := range x {
		z[i] = x[i] * x[i]
		t[i] = z[i] * -0.5
	}
	cos.horner(cephesCosP, &z)
	sin.horner(cephesSinP, &z)
	for i := range z {
		cos[i] *= z[i]
		sin[i] *= z[i]
	}
	cos.fma(cos, &z, &t)
	sin.fma(sin, &x, &x)
	for i, j := range j {
		// By bit pattern, as the octants come at random.
		s, c := math.Float32bits(sin[i]), math.Float32bits(cos[i]+1)
		swap := (s ^ c) & -(j >> 1 & 1)
		sin[i] = math.Float32frombits(s ^ swap ^ j&4<<29)
		cos[i] = math.Float32frombits(c ^ swap ^ ^(j-2)&4<<29)
	}
}
