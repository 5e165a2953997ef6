package noise

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/bigref"
)

// counterDraw returns site 0 of one application.
func counterDraw(t testing.TB, c Counter, step, lo, hi int, kind Kind, p float64, shape ...int) []float64 {
	t.Helper()
	return counterNext(t, counterAt(t, c, step, lo, hi), kind, p, append([]int{hi - lo}, shape...)...)
}

func counterAt(t testing.TB, c Counter, step, lo, hi int) Draws {
	t.Helper()
	d, err := c.At(step, lo, hi)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// counterNext returns the next draw of d, between guards that must survive.
func counterNext(t testing.TB, d Draws, kind Kind, p float64, shape ...int) []float64 {
	t.Helper()
	n := 1
	for _, s := range shape {
		n *= s
	}
	if kind == ComplexNormal {
		n *= 2
	}
	return torchFill(t, n, func(dst []float64) {
		t.Helper()
		for i := range dst {
			dst[i] = math.NaN()
		}
		if err := d.Draw(kind, p, shape, dst); err != nil {
			t.Fatal(err)
		}
	})
}

// Realizations 5 and 6 at step 7 of operator 9, seed 2^32+2, one draw of each
// kind after the other, as float32 bit patterns; Python's port in docs/NOISE.md
// prints the same.
var counterKnown = []struct {
	kind Kind
	p    float64
	want string // site, kind, elements 0 to 5 of each realization
}{
	{Normal, 0, "0 normal bf81945e 3f5792ab 3f177cba bfc5bd3a 3fbcca3e bfbc2e58 bf918a42 bf1d032d beebfc6e 3fa221e6 " +
		"be268c9a 3f024065"},
	{Exponential, 0, "1 exponential 3f8c175e 3dfbf1d6 3d492b8f 3e90d7b5 3e8ca421 40038b59 3fab6db1 3f6afe7b 3e10be17 " +
		"3f8c0022 3f9bb92a 400624d6"},
	{Bernoulli, 0.5, "2 bernoulli 3f800000 3f800000 00000000 00000000 3f800000 00000000 00000000 3f800000 3f800000 " +
		"00000000 3f800000 3f800000"},
	{ComplexNormal, 0, "3 normal_complex 3deade18 bd0563fa bc027c9a 3f94e4ea be43a12c bf912c1f 3ea3e46d bf92e572 " +
		"3f4e323b be571243 3e1df44e 3eaf6652"},
}

func TestCounterKnown(t *testing.T) {
	doc, err := os.ReadFile("../docs/NOISE.md")
	if err != nil {
		t.Fatal(err)
	}
	d := counterAt(t, Counter{Seed: 1<<32 + 2, Operator: 9}, 7, 5, 7)
	for site, c := range counterKnown {
		shape := []int{2, 6}
		if c.kind == ComplexNormal {
			shape[1] = 3
		}
		line := fmt.Sprintf("%d %v", site, c.kind)
		for _, v := range counterNext(t, d, c.kind, c.p, shape...) {
			line += fmt.Sprintf(" %08x", math.Float32bits(float32(v)))
		}
		if line != c.want {
			t.Errorf("got  %q\nwant %q", line, c.want)
		}
		if !strings.Contains(string(doc), "\n"+line+"\n") {
			t.Errorf("docs/NOISE.md lacks the line %q", line)
		}
	}
}

// A hash over many numbers, the same on every port and in every build mode.
func TestCounterGolden(t *testing.T) {
	const want = "f0666ad4b2fb473d78a6ddd2674da52acdeed247902967adf721a228646f3ddc"
	h := sha256.New()
	var b [4]byte
	for _, c := range counterKnown {
		for _, v := range counterDraw(t, Counter{Seed: 3}, 1, 0, 3, c.kind, 0.3, 2, 10_001) {
			if v != float64(float32(v)) {
				t.Fatalf("%v: %v is not a float32 number", c.kind, v)
			}
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(float32(v)))
			h.Write(b[:])
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// The numbers at the published key and counter, formed one at a time.
func TestCounterLayout(t *testing.T) {
	c := Counter{Seed: 0x0123456789abcdef, Operator: 0xfedcba98}
	const step, lo, n = 1<<24 - 1, 1<<32 - 3, 9001
	d := counterAt(t, c, step, lo, lo+3)
	for site := range uint32(6) {
		kind := Kind(site % 4)
		const p = 0.3
		shape := []int{3, n, 1}
		got := counterNext(t, d, kind, p, shape...)
		each := len(got) / 3
		for i, v := range got {
			r, e := i/each, i%each
			perBlock := 4
			if kind == Exponential {
				perBlock = 2
			}
			var x [4]uint32
			x[0], x[1], x[2], x[3] = philox(0x89abcdef, 0x01234567, uint32(e/perBlock), 0xfffffffd+uint32(r),
				0xffffff00+site, 0xfedcba98)
			var want float64
			pair := 2 * (e % perBlock / 2)
			switch kind {
			case Bernoulli:
				if new(big.Rat).SetInt64(int64(x[e%4])).Cmp(new(big.Rat).Mul(bigref.Rat(p), big.NewRat(1<<32, 1))) < 0 {
					want = 1
				}
			case Exponential:
				want = float64(float32(negLog(x[2*(e%2)], x[2*(e%2)+1])))
			default:
				variance := map[Kind]float64{Normal: 2, ComplexNormal: 1}[kind]
				pairOf := [2]float64{}
				pairOf[0], pairOf[1] = boxMuller(x[pair], x[pair+1], variance)
				want = pairOf[e%2]
			}
			if math.Float64bits(v) != math.Float64bits(want) {
				t.Fatalf("site %d, realization %d, element %d of %v: %v, want %v", site, r, e, kind, v, want)
			}
		}
	}
}

// However a run is cut into batches, and whatever the number of threads.
func TestCounterSplit(t *testing.T) {
	c := Counter{Seed: 11, Operator: 4}
	for _, kind := range []Kind{Normal, Exponential, Bernoulli, ComplexNormal} {
		for _, n := range []int{1, 2, 3, 4, 5, 7, 4095, 4096, 4097, 9000} {
			whole := counterDraw(t, c, 2, 0, 6, kind, 0.5, n)
			each := len(whole) / 6
			for _, cuts := range [][]int{{0, 1, 2, 3, 4, 5, 6}, {0, 2, 6}, {0, 5, 6}} {
				for i, lo := range cuts[:len(cuts)-1] {
					hi := cuts[i+1]
					part := counterDraw(t, c, 2, lo, hi, kind, 0.5, n)
					torchDiff(t, fmt.Sprintf("%v, %d numbers, realizations %d to %d", kind, n, lo, hi), part, whole[lo*each:hi*each])
				}
			}
		}
		whole := counterDraw(t, c, 2, 0, 6, kind, 0.5, 9000)
		for _, threads := range []int{1, 3} {
			old := runtime.GOMAXPROCS(threads)
			part := counterDraw(t, c, 2, 0, 6, kind, 0.5, 9000)
			runtime.GOMAXPROCS(old)
			torchDiff(t, fmt.Sprintf("%v on %d threads", kind, threads), part, whole)
		}
	}
	// A number does not depend on the rest of the shape either.
	torchDiff(t, "shape", counterDraw(t, c, 2, 0, 1, Normal, 0, 3, 5, 2), counterDraw(t, c, 2, 0, 1, Normal, 0, 30))
	// Nothing to draw is a draw.
	d := counterAt(t, c, 2, 3, 3)
	if err := d.Draw(Normal, 0, []int{0, 5}, nil); err != nil {
		t.Error(err)
	}
	d = counterAt(t, c, 2, 3, 4)
	counterNext(t, d, Normal, 0, 1, 0)
	second := counterNext(t, d, Normal, 0, 1, 5)
	d = counterAt(t, c, 2, 3, 4)
	counterNext(t, d, Exponential, 0, 1, 70)
	torchDiff(t, "site", counterNext(t, d, Normal, 0, 1, 5), second)
}

// ulps returns |got-want| / |want| in units of 2^-50.
func ulps(got float64, want *big.Float) float64 {
	d := new(big.Float).SetPrec(200).SetFloat64(got)
	d.Sub(d, want).Quo(d, want)
	e, _ := d.Float64()
	return math.Abs(e) * 0x1p50
}

// The arithmetic against the mathematics, for random words and at the ends.
func TestCounterTransform(t *testing.T) {
	type words struct{ a, b uint32 }
	const ones = 1<<32 - 1
	cases := []words{{0, 0}, {ones, ones}, {ones, 0}, {0, ones}, {1 << 31, 0}, {1<<31 - 1, ones}}
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		a, b := r.Uint32(), r.Uint32()
		cases = append(cases, words{a, b}, words{a >> (a & 31), b}, words{^(a >> (b & 31)), b},
			words{a, b<<3>>3 | a<<29 | 0x1ffff0}, words{a, a<<29 | b&15}) // the octants' ends
	}
	for e := range 40 { // n = 2m+1 around sqrt(1/2) 2^e
		for off := range uint64(5) {
			n := (uint64(0xb504f333f9de6484>>(63-e)) + off - 2) | 1
			cases = append(cases, words{uint32(n >> 9), uint32(n>>1) << 24})
		}
	}
	var worst [3]float64
	for _, w := range cases {
		m := uint64(w.a)<<8 | uint64(w.b>>24)
		u := new(big.Float).SetPrec(200).SetUint64(2*m + 1)
		u.SetMantExp(u, -41)
		angle := bigref.Pi(200)
		angle.Mul(angle, new(big.Float).SetUint64(uint64(2*(w.b&(1<<24-1))+1)))
		angle.SetMantExp(angle, -24)
		sin, cos := sinCos(w.b & (1<<24 - 1))
		for i, c := range []struct {
			name string
			got  float64
			want *big.Float
		}{
			{"E", negLog(w.a, w.b), new(big.Float).Neg(bigref.Log(u, 128))},
			{"sin", sin, bigref.Sin(angle, 128)},
			{"cos", cos, bigref.Cos(angle, 128)},
		} {
			e := ulps(c.got, c.want)
			worst[i] = max(worst[i], e)
			if !(e < 0.8) { // what is claimed, 1, would not miss the smallest terms
				t.Fatalf("words %08x %08x: %s = %x is %.2f * 2^-50 of itself off", w.a, w.b, c.name, c.got, e)
			}
		}
	}
	t.Logf("worst errors of E, sin, cos: %.2f * 2^-50", worst)
}

// Ends of the range, and symmetry: the angles of an octant occur in all, so
// that positive and negative numbers are equally likely.
func TestCounterEnds(t *testing.T) {
	const ones = 1<<32 - 1
	if e := negLog(0, 0); e != float64(41*math.Ln2) {
		t.Errorf("greatest E is %x", e)
	}
	if e := negLog(ones, ones); !(e > 0x1p-41) || e > 0x1.000001p-41 {
		t.Errorf("least E is %x, want hardly more than 2^-41", e)
	}
	x, y := boxMuller(ones, 0xff000000, 2)
	if !(y > 1e-13) || !(x > 9e-7) {
		t.Errorf("least numbers %v, %v", x, y)
	}
	for _, j := range []uint32{0, 1, 12345, 1<<21 - 1} {
		s0, c0 := sinCos(j)
		for octant, want := range [8][2]float64{
			{s0, c0}, {c0, s0}, {c0, -s0}, {s0, -c0}, {-s0, -c0}, {-c0, -s0}, {-c0, s0}, {-s0, c0},
		} {
			k := uint32(octant)<<21 | j
			if octant%2 != 0 {
				k = uint32(octant)<<21 | (1<<21 - 1 - j)
			}
			if s, c := sinCos(k); s != want[0] || c != want[1] {
				t.Errorf("angle %#x: %v, %v, want %v", k, s, c, want)
			}
		}
	}
	for _, v := range counterDraw(t, Counter{}, 0, 0, 1, Bernoulli, 0, 1000) {
		if math.Float64bits(v) != 0 {
			t.Fatalf("p = 0 gives %v", v)
		}
	}
	for _, v := range counterDraw(t, Counter{}, 0, 0, 1, Bernoulli, 1, 1000) {
		if v != 1 {
			t.Fatalf("p = 1 gives %v", v)
		}
	}
	// A word equal to 2^32 p is no success.
	x0, _, _, _ := philox(0, 0, 0, 0, 0, 0)
	p := float64(x0) * 0x1p-32
	if v := counterDraw(t, Counter{}, 0, 0, 1, Bernoulli, p, 1); v[0] != 0 {
		t.Error("x = 2^32 p succeeds")
	}
	if v := counterDraw(t, Counter{}, 0, 0, 1, Bernoulli, math.Nextafter(p, 1), 1); v[0] != 1 {
		t.Error("x < 2^32 p fails")
	}
}

func TestCounterErrors(t *testing.T) {
	var c Counter
	if c.String() != "counter" {
		t.Errorf("name %q", c)
	}
	fails := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != "noise: counter"+want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	_, err := c.At(-1, 0, 1)
	fails(err, ": step -1: want 0 to 16777215")
	_, err = c.At(1<<24, 0, 1)
	fails(err, ": step 16777216: want 0 to 16777215")
	_, err = c.At(0, 0, 1<<32+1)
	fails(err, ": realization 4294967296: want 0 to 4294967295")
	for _, r := range [][2]int{{-1, 1}, {2, 1}} {
		torchPanics(t, "noise: realizations out of order", func() { _, _ = c.At(0, r[0], r[1]) })
	}
	d := counterAt(t, c, 0, 0, 2)
	draw := func(kind Kind, p float64, shape ...int) error { return d.Draw(kind, p, shape, make([]float64, 4)) }
	fails(draw(ComplexNormal+1, 0, 2, 2), " has no draw Kind(4)")
	for _, p := range []float64{-0x1p-60, math.Nextafter(1, 2), math.NaN()} {
		fails(draw(Bernoulli, p, 2, 2), fmt.Sprintf(": Bernoulli probability %v is not in [0, 1]", p))
	}
	fails(draw(Normal, 0, 1, 4), ": shape [1,4]: want 2 realizations first")
	fails(draw(Normal, 0), ": shape []: want 2 realizations first")
	fails(draw(Normal, 0, 2, 1<<33+1), ": shape [2,8589934593]: want at most 8589934592 numbers per realization")
	fails(draw(ComplexNormal, 0, 2, 1<<32+1), ": shape [2,4294967297]: want at most 8589934592 numbers per realization")
	fails(draw(Normal, 0, 2, 1<<32, 1<<32),
		": shape [2,4294967296,4294967296]: want at most 8589934592 numbers per realization")
	torchPanics(t, "noise: dst does not have the drawn shape", func() { _ = draw(Normal, 0, 2, 1<<33) })
	torchPanics(t, "noise: dst does not have the drawn shape", func() { _ = draw(ComplexNormal, 0, 2, 2) })
	// None of these was a draw; there may be 256.
	var last []float64
	for range 256 {
		last = counterNext(t, d, Normal, 0, 2, 2)
	}
	x0, x1, _, _ := philox(0, 0, 0, 0, 255, 0)
	if x, _ := boxMuller(x0, x1, 2); last[0] != x {
		t.Errorf("draw 256 starts with %v, want %v", last[0], x)
	}
	fails(draw(Normal, 0, 2, 2), ": more than 256 draws in one application")
}
