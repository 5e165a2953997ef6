package hdf5

import (
	"bytes"
	"compress/flate"
	"io"
	"math"
	"math/rand/v2"
	"testing"
)

// TestCoder: blocks of codes are read back by another program, whatever is how often in them, and
// are no longer than its own.
func TestCoder(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	of := map[string]func(n int) []byte{
		"one byte":  func(n int) []byte { return bytes.Repeat([]byte{byte(r.Uint32())}, n) },
		"two bytes": func(n int) []byte { return append(bytes.Repeat([]byte{7}, n), 200) },
		"all as often": func(n int) []byte {
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(i)
			}
			return p
		},
		"normal": func(n int) []byte {
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(r.NormFloat64() * 4)
			}
			return p
		},
		"golden": func(n int) []byte { // as often as Fibonacci's numbers: the deepest tree that there is
			var p []byte
			for s, a, b := 0, 1, 1; len(p) < n; s, a, b = s+1, b, a+b {
				p = append(p, bytes.Repeat([]byte{byte(s * 37)}, a)...)
			}
			r.Shuffle(len(p), func(i, k int) { p[i], p[k] = p[k], p[i] })
			return p
		},
	}
	var c coder
	for name, make := range of {
		for _, n := range []int{1, 2, 3, 5, 258, 1000, 49152, 300_000} {
			p := make(n)
			var got, want bytes.Buffer
			c.write(&got, p)
			checkCodes(t, &c)
			w, err := flate.NewWriter(&want, flate.HuffmanOnly)
			if err != nil {
				t.Fatal(err)
			}
			w.Write(p)
			w.Flush()
			if got.Len() > want.Len()+want.Len()/50+40 {
				t.Errorf("%s, %d: %d bytes, want %d or some more", name, n, got.Len(), want.Len())
			}
			got.Write([]byte{1, 0, 0, 0xff, 0xff})
			if back, err := io.ReadAll(flate.NewReader(&got)); err != nil || !bytes.Equal(back, p) {
				t.Errorf("%s, %d: %v, or other bytes", name, n, err)
			}
		}
	}
}

// checkCodes: the codes fill all there is of them, as some readers want it.
func checkCodes(t *testing.T, c *coder) {
	t.Helper()
	sum := 0
	for _, k := range c.codes {
		if n := k & 15; n > longest {
			t.Fatalf("a code of %d bits", n)
		} else if n > 0 {
			sum += 1 << (longest - n)
		}
	}
	if sum != 1<<longest {
		t.Fatalf("codes fill %d of %d", sum, 1<<longest)
	}
}

// BenchmarkCoder codes the exponents' bytes of 49152 normal numbers.
func BenchmarkCoder(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 1))
	p := make([]byte, 49152)
	for i := range p {
		p[i] = byte(math.Float32bits(float32(r.NormFloat64())) >> 24)
	}
	b.SetBytes(int64(len(p)))
	var c coder
	var to bytes.Buffer
	for b.Loop() {
		to.Reset()
		c.write(&to, p)
	}
}
