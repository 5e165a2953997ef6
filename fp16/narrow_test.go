package fp16_test

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
)

var castFiles = flag.String("fp16.casts", "",
	"files of interop/narrow/casts.py --hard, with commas between, to hold casts to")

var narrows = []fp16.Narrow{fp16.E4M3, fp16.E4M3FNUZ, fp16.E4M3B11FNUZ, fp16.E5M2, fp16.E5M2FNUZ, fp16.E3M4, fp16.E3M2,
	fp16.E2M3, fp16.E2M1, fp16.E8M0}

// recorded is what testdata/casts.json says of one cast: the bits of the first float32 number of
// each code, from 0 to infinity, and the codes.
type recorded struct {
	Positive    [][2]uint32 `json:"positive"`
	Negative    [][2]uint32 `json:"negative"`
	PositiveNaN uint8       `json:"positive_nan"`
	NegativeNaN uint8       `json:"negative_nan"`
}

// TestNarrowCasts holds each cast of both libraries to all float32 numbers: to both sides of each
// place where its code changes, and to numbers between.
func TestNarrowCasts(t *testing.T) {
	b, err := os.ReadFile("testdata/casts.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Casts map[string]recorded `json:"casts"`
	}
	if err := json.Unmarshal(b, &all); err != nil || len(all.Casts) != 15 {
		t.Fatalf("%d casts, %v", len(all.Casts), err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for key, r := range all.Casts {
		n, c := castOf(t, key)
		for _, side := range []struct {
			steps [][2]uint32
			nan   uint8
			sign  uint32
		}{{r.Positive, r.PositiveNaN, 0}, {r.Negative, r.NegativeNaN, 1 << 31}} {
			at := func(bits uint32, want uint8) {
				v := float64(math.Float32frombits(bits | side.sign))
				if got := n.Encode(v, c); got != want {
					t.Errorf("%s of %v (%#x): %#x, want %#x", key, v, bits|side.sign, got, want)
				}
			}
			at(0x7fc00000, side.nan)
			for i, s := range side.steps {
				end := uint32(0x7f800000)
				if i+1 < len(side.steps) {
					end = side.steps[i+1][0] - 1
				}
				at(s[0], uint8(s[1]))
				at(end, uint8(s[1]))
				for range 20 {
					at(s[0]+uint32(rng.Int64N(int64(end-s[0])+1)), uint8(s[1]))
				}
			}
		}
	}
}

func castOf(t *testing.T, key string) (fp16.Narrow, fp16.Cast) {
	who, name, _ := strings.Cut(key, ".")
	n, err := fp16.ParseNarrow(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := fp16.ParseCast(who)
	if err != nil {
		t.Fatal(err)
	}
	return n, c
}

// TestNarrowCastFiles holds casts to what the libraries returned of other numbers.
func TestNarrowCastFiles(t *testing.T) {
	for path := range strings.SplitSeq(*castFiles, ",") {
		if path == "" {
			continue
		}
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		in, err := f.Tensor("input")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range f.Names() {
			if key == "input" {
				continue
			}
			codes, err := f.Tensor(key)
			if err != nil {
				t.Fatal(err)
			}
			n, c := castOf(t, key)
			wrong := 0
			for i, want := range codes.Bytes() {
				b := in.Bytes()[4*i:]
				v := math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
				if n.Encode(float64(v), c) != want {
					wrong++
				}
			}
			t.Logf("%s %s: %d of %d codes differ", path, key, wrong, len(codes.Bytes()))
			if wrong > 0 || len(codes.Bytes()) == 0 {
				t.Fail()
			}
		}
	}
}

// TestNarrowCodes holds all codes: each number encodes to itself by every convention, the numbers
// go up with the codes, and between two of them casts go to the nearer one, of a tie to the even code.
func TestNarrowCodes(t *testing.T) {
	if len(narrows) != 10 {
		t.Fatal("not all formats")
	}
	for _, n := range narrows {
		if got, err := fp16.ParseNarrow(n.String()); err != nil || got != n {
			t.Errorf("%v: %v, %v", n, got, err)
		}
		last := math.Inf(-1)
		for code := range 1 << (n.Bits() - 1) {
			v := n.Decode(uint8(code))
			if v-v != 0 {
				continue
			}
			for _, c := range []fp16.Cast{fp16.MLDtypes, fp16.Torch, fp16.Saturated} {
				if got := n.Encode(v, c); int(got) != code {
					t.Errorf("%v, %v: %v is %#x, want %#x", n, c, v, got, code)
				}
				if w := -v; n != fp16.E8M0 && n.Decode(n.Encode(w, c)) != w {
					t.Errorf("%v, %v: %v is %v", n, c, w, n.Decode(n.Encode(w, c)))
				}
			}
			if v <= last || !n.Holds(v) {
				t.Errorf("%v: %#x is %v after %v", n, code, v, last)
			}
			if last > 0 && n != fp16.E8M0 {
				between(t, n, last, v)
			}
			last = v
		}
		for _, c := range []float64{1.1 * n.Largest(), 1e10 * n.Largest(), math.Inf(1)} {
			if got := n.Decode(n.Encode(c, fp16.Saturated)); got != n.Largest() {
				t.Errorf("%v saturated: %v is %v, want %v", n, c, got, n.Largest())
			}
		}
	}
}

// between holds what lies between two numbers of which one follows the other.
func between(t *testing.T, n fp16.Narrow, lo, hi float64) {
	low, high := n.Encode(lo, fp16.MLDtypes), n.Encode(hi, fp16.MLDtypes)
	for _, part := range []float64{0x1p-30, 0.25, 0.5 - 0x1p-30, 0.5, 0.5 + 0x1p-30, 1 - 0x1p-30} {
		v := lo + part*(hi-lo)
		want := low
		if part > 0.5 || part == 0.5 && low&1 == 1 {
			want = high
		}
		if got := n.Encode(v, fp16.Saturated); got != want {
			t.Errorf("%v: %v between %v and %v is %#x, want %#x", n, v, lo, hi, got, want)
		}
		toward, away, p := n.Around(-v)
		if a, b := n.Decode(toward), n.Decode(away); a != -lo || b != -hi || p != part {
			t.Errorf("%v: around %v are %v and %v, %v of the way: want %v, %v and %v", n, -v, a, b, p, -lo, -hi, part)
		}
	}
}

// TestNarrowTable holds the table to what the standards say.
func TestNarrowTable(t *testing.T) {
	for _, c := range []struct {
		n                                 fp16.Narrow
		largest, smallestNormal, smallest float64
	}{
		{fp16.E4M3, 448, 0x1p-6, 0x1p-9}, {fp16.E5M2, 57344, 0x1p-14, 0x1p-16}, {fp16.E4M3FNUZ, 240, 0x1p-7, 0x1p-10},
		{fp16.E5M2FNUZ, 57344, 0x1p-15, 0x1p-17}, {fp16.E4M3B11FNUZ, 30, 0x1p-10, 0x1p-13}, {fp16.E3M4, 15.5, 0x1p-2, 0x1p-6},
		{fp16.E3M2, 28, 0x1p-2, 0x1p-4}, {fp16.E2M3, 7.5, 1, 0x1p-3}, {fp16.E2M1, 6, 1, 0.5},
	} {
		if c.n.Largest() != c.largest || c.n.SmallestNormal() != c.smallestNormal || c.n.Smallest() != c.smallest {
			t.Errorf("%v: %v, %v, %v", c.n, c.n.Largest(), c.n.SmallestNormal(), c.n.Smallest())
		}
	}
	if e := fp16.E8M0; e.Largest() != 0x1p127 || e.Smallest() != 0x1p-127 || !math.IsNaN(e.Decode(255)) {
		t.Errorf("E8M0: %v, %v, %v", e.Largest(), e.Smallest(), e.Decode(255))
	}
	for _, name := range []string{"", "float8", "E9M9"} {
		if _, err := fp16.ParseNarrow(name); err == nil {
			t.Errorf("%q is a format", name)
		}
	}
}
