package noise

import (
	"fmt"
	"math"
	"math/big"
	"runtime"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
)

func cudaStream(t testing.TB, sms, threads int, seed uint64) *TorchCUDA {
	t.Helper()
	g, err := newTorchCUDA(sms, threads)
	if err != nil {
		t.Fatal(err)
	}
	g.Seed(seed)
	return g
}

// cudaDraw returns the next draw of n numbers, between guards.
func cudaDraw(t testing.TB, g *TorchCUDA, kind Kind, p float64, n int) []float64 {
	t.Helper()
	shape := []int{n}
	if kind == ComplexNormal {
		shape[0] /= 2
	}
	return torchFill(t, n, func(dst []float64) {
		for i := range dst {
			dst[i] = math.NaN()
		}
		if err := g.Draw(kind, p, shape, dst); err != nil {
			t.Fatal(err)
		}
	})
}

// Decimals that GPUs printed after torch.manual_seed(0) and (1).
func TestTorchCUDAPublished(t *testing.T) {
	near := func(what string, got []float64, digits int, want ...float64) {
		t.Helper()
		for i, w := range want {
			if !(math.Abs(got[i]-w) <= 0.5001*math.Pow10(-digits)) {
				t.Errorf("%s: number %d is %.8f, published %.*f", what, i, got[i], digits, w)
			}
		}
	}
	g := cudaStream(t, 132, 2048, 0)
	near("rand(5)", torchFill(t, 5, g.Uniform), 4, 0.3990, 0.5167, 0.0249, 0.9401, 0.9459)
	g.Seed(0)
	near("randn(5)", cudaDraw(t, g, Normal, 0, 5), 4, -0.9247, -0.4253, -2.6438, 0.1452, -0.1209)

	// The last three of randn(1, 9483264), each from another round and component
	// on a device of another size.
	const n = 9483264
	for _, c := range []struct {
		device string
		sms    int
		want   []float64
	}{
		{"H100", 132, []float64{-0.6970, -0.7780, 0.3267}},
		{"A100", 108, []float64{0.1549, -0.6797, -0.1656}},
	} {
		l := cudaStream(t, c.sms, 2048, 1).launch(n)
		var got []float64
		for i := n - 3; i < n; i++ {
			got = append(got, float64(l.number(i, cudaNumbers(Normal, 0))))
		}
		near(c.device, got, 4, c.want...)
	}

	// More than a wave on other devices: numbers of a tensor by their places. Issues
	// 143086 (seed 1), 97097 (seed 14, normal_(5, sqrt 5) of 1000x100 on an RTX A4000)
	// and 62467 (seed 43, (1,3,128,128) on an RTX A6000) of github.com/pytorch/pytorch.
	corners := func(rows, cols []int, width int) (at []int) {
		for _, y := range rows {
			for _, x := range cols {
				at = append(at, y*width+x)
			}
		}
		return at
	}
	for _, c := range []struct {
		device       string
		sms, threads int
		seed         uint64
		n            int
		mean, std    float64
		at           []int
		want         []float64
	}{
		{"randn(1, 9483264)", 132, 2048, 1, n, 0, 1, []int{0, 1, 2}, []float64{-0.2963, 2.6764, -0.1408}},
		{"RTX A4000", 48, 1536, 14, 100000, 5, math.Sqrt(5),
			corners([]int{0, 1, 2, 997, 998, 999}, []int{0, 1, 2, 97, 98, 99}, 100), []float64{
				2.8731, 5.2727, 2.9889, 1.6853, 9.6331, 6.6319, 3.9968, 3.8097, 5.7328, 4.4029, 3.9804, 7.4698, 6.5552,
				4.0857, 4.2315, 2.7704, 3.5479, 3.3063,
				8.6297, 2.3137, 6.2596, 7.9358, 4.4697, 2.7475, 7.0551, 7.8583, 3.9990, 4.1139, 8.9315, 4.2042, 2.7337,
				2.2106, 7.7815, 8.2207, 6.5395, 4.2604}},
		{"RTX A6000", 84, 1536, 43, 3 * 128 * 128, 0, 1, []int{0, 16384, 32768}, []float64{1.9983, 0.8704, 2.1127}},
	} {
		l := cudaStream(t, c.sms, c.threads, c.seed).launch(c.n)
		var got []float64
		for _, i := range c.at {
			got = append(got, c.mean+c.std*float64(l.number(i, cudaNumbers(Normal, 0))))
		}
		near(c.device, got, 4, c.want...)
	}
}

// Every kind at every place of the arrangement, against the description: the
// number's round, component and thread, and the words that CURAND makes there.
func TestTorchCUDALayout(t *testing.T) {
	const seed = 0xfedcba9876543210
	for _, c := range []struct{ sms, threads, wave int }{{1, 256, 256}, {2, 600, 1024}, {3, 1023, 2304}} {
		for _, n := range []int{2, 254, 256, 258, 512, 770, 1024, 1026, 2304, 4096, 4098, 10000, 30000} {
			const offset = 4 * (1<<32 - 2) // so that the block number carries
			g := cudaStream(t, c.sms, c.threads, 0)
			if err := g.SetState(seed, offset); err != nil {
				t.Fatal(err)
			}
			wave := min((n+255)/256*256, c.wave)
			rounds := (n + 4*wave - 1) / (4 * wave)
			for i, kind := range []Kind{Normal, Exponential, Bernoulli, ComplexNormal} {
				base := uint64(1<<32 - 2 + i*rounds)
				got := cudaDraw(t, g, kind, 0.3, n)
				for li, v := range got {
					block := base + uint64(li/(4*wave))
					thread := li % wave
					component := li / wave % 4
					var x [4]uint32
					x[0], x[1], x[2], x[3] = philox(0x76543210, 0xfedcba98, uint32(block), uint32(block>>32), uint32(thread), 0)
					var want float32
					switch kind {
					case Bernoulli:
						if cudaUniform(x[component]) < 0.3 {
							want = 1
						}
					case Exponential:
						want = cudaExponential(x[component])
					default:
						std := map[Kind]float32{Normal: 1, ComplexNormal: 0.70710678}[kind]
						pair := component &^ 1
						sin, cos := cudaNormal(x[pair], x[pair+1], std)
						want = [2]float32{sin, cos}[component%2]
					}
					if math.Float64bits(v) != math.Float64bits(float64(want)) {
						t.Fatalf("%v: %v, number %d of %d: %v, want %v", g, kind, li, n, v, want)
					}
				}
			}
			if s, o := g.State(); s != seed || o != offset+16*uint64(rounds) {
				t.Fatalf("%v: after four draws of %d the offset is %d, want %d more than %d", g, n, o, 16*rounds, uint64(offset))
			}
		}
	}
}

// A device shows in what it does not hold at once, and only there; the number
// of threads counts in whole blocks.
func TestTorchCUDADevices(t *testing.T) {
	fill := func(sms, threads, n int) []float64 {
		return cudaDraw(t, cudaStream(t, sms, threads, 5), Normal, 0, n)
	}
	const wave = 2 * 1536
	full := fill(2, 1536, wave)
	torchDiff(t, "one wave", full, fill(108, 2048, wave))
	torchDiff(t, "whole blocks", fill(2, 1536+255, wave+1), fill(2, 1536, wave+1))
	small, large := fill(2, 1536, wave+1), fill(108, 2048, wave+1)
	torchDiff(t, "all but the last", small[:wave], large[:wave])
	if small[wave] == large[wave] {
		t.Error("the device does not show beyond one wave")
	}
	if fill(2, 1792, 4*wave)[wave] == fill(2, 1536, 4*wave)[wave] {
		t.Error("the number of threads does not show")
	}
	g := cudaStream(t, 40, 1024, 0)
	for _, c := range []struct{ sms, threads, wave int }{
		{40, 1024, 40960}, {48, 1536, 73728}, {108, 2048, 221184}, {132, 2048, 270336},
	} {
		if l := cudaStream(t, c.sms, c.threads, 0).launch(1 << 28); l.threads != c.wave {
			t.Errorf("%d multiprocessors of %d threads run %d, want %d", c.sms, c.threads, l.threads, c.wave)
		}
	}
	// All 64 bits of the seed count, on any number of processors.
	a := cudaDraw(t, g, Normal, 0, 70000)
	g.Seed(1 << 40)
	if b := cudaDraw(t, g, Normal, 0, 70000); a[0] == b[0] || a[9] == b[9] {
		t.Error("the upper half of the seed is ignored")
	}
	for _, threads := range []int{1, 3} {
		old := runtime.GOMAXPROCS(threads)
		g.Seed(0)
		b := cudaDraw(t, g, Normal, 0, 70000)
		runtime.GOMAXPROCS(old)
		torchDiff(t, fmt.Sprint(threads, " processors"), b, a)
	}
}

// The formulas of CURAND and PyTorch, at random words and at the ends.
func TestTorchCUDAFormulas(t *testing.T) {
	const ones = 1<<32 - 1
	for _, c := range []struct {
		x    uint32
		want float32
	}{
		{0, 0x1p-33}, {1, 0x1.8p-32}, {1<<24 - 2, 0x1.fffffcp-9}, {1<<24 - 1, 0x1p-8}, {1 << 24, 0x1p-8},
		{1 << 31, 0.5}, {ones, 1},
		{1<<24 + 1, 0x1p-8}, {1<<24 + 3, 0x1.000004p-8}, // to even
		{ones - 128, 1 - 0x1p-24}, {ones - 127, 1},
	} {
		if u := cudaUniform(c.x); u != c.want {
			t.Errorf("uniform of %#x is %x, want %x", c.x, u, c.want)
		}
	}
	if e := cudaExponential(ones); e != 0x1p-24 {
		t.Errorf("exponential of u = 1 is %x", e)
	}
	if e := cudaExponential(ones - 128); e != 0x1p-24 {
		t.Errorf("exponential of u = 1-2^-24 is %x", e)
	}
	if e := cudaExponential(ones - 400); !(e > 0x1p-24) || e > 0x1p-22 {
		t.Errorf("exponential of u = 1-2^-23 is %x", e)
	}
	for y := range uint32(8) {
		a, b := cudaNormal(ones, y<<29, 1)
		if math.Float32bits(a) != 0 || math.Float32bits(b) != 0 {
			t.Errorf("u = 1 gives %v, %v, want +0", a, b)
		}
	}
	// Half an angle step of float32, and the last angle, which is a full turn.
	const step = 0x1.921fb6p-30
	angles := []uint32{0, 1, 2, 3, 5, 1 << 24, 1<<24 + 1, 3 << 30, ones}
	for i := range uint32(40) {
		angles = append(angles, i*0x9e3779b9>>(i%24))
	}
	for _, y := range angles {
		for _, x := range []uint32{0, 5, 0x9abcdef0, ones - 1000} {
			f := bigref.Rat(float64(float32(y)))
			f.Add(f, big.NewRat(1, 2)).Mul(f, bigref.Rat(step))
			v, _ := f.Float32()
			angle := new(big.Float).SetFloat64(float64(v))
			u := new(big.Float).SetFloat64(float64(cudaUniform(x)))
			log, _ := bigref.Log(u, 100).Float32()
			s := float32(math.Sqrt(float64(-2 * log)))
			sin, _ := bigref.Sin(angle, 100).Float32()
			cos, _ := bigref.Cos(angle, 100).Float32()
			a, b := cudaNormal(x, y, 1)
			if a != float32(sin*s) || b != float32(cos*s) {
				t.Errorf("words %#x, %#x: normals %v, %v, want %v, %v", x, y, a, b, sin*s, cos*s)
			}
		}
	}
	// u = p is no success.
	coin := cudaNumbers(Bernoulli, 0.5)
	if a, b := coin(1<<31, 1<<31-1000); a != 0 || b != 1 {
		t.Errorf("Bernoulli at p and below: %v, %v, want 0, 1", a, b)
	}
	// p is rounded to float32.
	coin = cudaNumbers(Bernoulli, math.Nextafter(0.5, 1))
	if a, _ := coin(1<<31, 0); a != 0 {
		t.Error("p is not rounded to float32")
	}
}

// torch.rand is the uniform of the words of a draw, with 0 for 1.
func TestTorchCUDAUniform(t *testing.T) {
	if a, b := cudaRand(1<<32-1), cudaRand(1<<32-129); a != 0 || b != 1-0x1p-24 {
		t.Errorf("rand of the last words: %v, %v", a, b)
	}
	g := cudaStream(t, 2, 256, 8)
	got := torchFill(t, 5000, g.Uniform)
	if _, o := g.State(); o != 12 {
		t.Errorf("three rounds advance the offset by %d", o)
	}
	g.Seed(8)
	want := make([]float64, len(got))
	l := g.launch(len(got))
	for i := range want {
		want[i] = float64(l.number(i, func(x, y uint32) (float32, float32) { return cudaUniform(x), cudaUniform(y) }))
	}
	torchDiff(t, "rand", got, want)
}

func TestTorchCUDANames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"torch-cuda:132", "torch-cuda:132:2048"},
		{"torch-cuda:132:2048", "torch-cuda:132:2048"},
		{"torch-cuda:40:1024", "torch-cuda:40:1024"},
	} {
		g, err := ParseTorchCUDA(c.name)
		if err != nil || g.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.name, g, err, c.want)
		}
	}
	const form = " is not of the form torch-cuda:SMS[:THREADS], SMS the device's number of multiprocessors"
	const bounds = ": want 1 to 65535 multiprocessors of 256 to 4096 threads"
	for _, c := range []struct{ name, want string }{
		{"torch-cuda", `"torch-cuda"` + form},
		{"torch-cuda:", `"torch-cuda:"` + form},
		{"torch-cuda:x", `"torch-cuda:x"` + form},
		{"torch-cuda:+1", `"torch-cuda:+1"` + form},
		{"torch-cuda:132:", `"torch-cuda:132:"` + form},
		{"torch-cuda:132:2048:1", `"torch-cuda:132:2048:1"` + form},
		{"torch-cpu:132", `"torch-cpu:132"` + form},
		{"", `""` + form},
		{"torch-cuda:0", `"torch-cuda:0:2048"` + bounds},
		{"torch-cuda:65536", `"torch-cuda:65536:2048"` + bounds},
		{"torch-cuda:1:255", `"torch-cuda:1:255"` + bounds},
		{"torch-cuda:1:4097", `"torch-cuda:1:4097"` + bounds},
	} {
		g, err := ParseTorchCUDA(c.name)
		if g != nil || err == nil || err.Error() != "noise: stream "+c.want {
			t.Errorf("%s: %v, %v, want %s", c.name, g, err, c.want)
		}
	}
}

func TestTorchCUDADraw(t *testing.T) {
	g := cudaStream(t, 1, 256, 3)
	if s, o := g.State(); s != 3 || o != 0 {
		t.Errorf("state %d, %d after seeding with 3", s, o)
	}
	fails := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("accepted")
		}
	}
	fails(g.SetState(9, 6))
	fails(g.Draw(ComplexNormal+1, 0, []int{1}, make([]float64, 1)))
	for _, p := range []float64{-0x1p-60, math.Nextafter(1, 2), math.NaN()} {
		fails(g.Draw(Bernoulli, p, []int{1}, make([]float64, 1)))
	}
	torchPanics(t, msgTorchShape, func() { _ = g.Draw(Normal, 0, []int{2}, make([]float64, 3)) })
	torchPanics(t, msgTorchShape, func() { _ = g.Draw(ComplexNormal, 0, []int{2}, make([]float64, 2)) })
	if err := g.Draw(Normal, 0, []int{2, 0}, nil); err != nil {
		t.Error(err)
	}
	if s, o := g.State(); s != 3 || o != 0 {
		t.Errorf("refused and empty draws leave state %d, %d, want 3, 0", s, o)
	}
	// Offsets follow from call to call, and a state can be resumed.
	cudaDraw(t, g, Normal, 0, 1025)
	if _, o := g.State(); o != 8 {
		t.Errorf("two rounds advance the offset by %d, want 8", o)
	}
	a := cudaDraw(t, g, Bernoulli, 0.7, 30)
	h := cudaStream(t, 132, 2048, 0)
	if err := h.SetState(3, 8); err != nil {
		t.Fatal(err)
	}
	torchDiff(t, "resumed", cudaDraw(t, h, Bernoulli, 0.7, 30), a)
	g.Seed(3)
	if _, o := g.State(); o != 0 {
		t.Errorf("offset %d after seeding", o)
	}
}

func BenchmarkTorchCUDANormal(b *testing.B) {
	g, dst := cudaStream(b, 132, 2048, 0), make([]float64, 1<<20)
	for b.Loop() {
		if err := g.Draw(Normal, 0, []int{len(dst)}, dst); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(dst)), "ns/number")
}
