package hdf5

import (
	"bytes"
	"hash/adler32"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/internal/asm"
)

// TestFilters: kernels sort bytes and sum them as plain loops do.
func TestFilters(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(2, 4))
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 31, 32, 33, 100, 1 << 15, 1<<15 + 32, 1<<16 + 7} {
			b := make([]byte, 4*n)
			for i := range b {
				b[i] = byte(r.Uint32()) | byte(n&1)*0xf0
			}
			if got, want := adler(b), adler32.Checksum(b); got != want {
				t.Errorf("%s: %d bytes: Adler-32 %08x, want %08x", isa, len(b), got, want)
			}
			for _, size := range []int{2, 4} {
				sorted, back := make([]byte, len(b)), make([]byte, len(b))
				shuffle(sorted, b, size)
				unshuffle(back, sorted, size)
				if !bytes.Equal(back, b) {
					t.Errorf("%s: %d elements of %d bytes come back as others", isa, len(b)/size, size)
				}
			}
		}
	}
}

// TestCodes: what is stored of a chunk does not depend on what was stored before.
func TestCodes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 5))
	old := new(Writer)
	for range 30 {
		part := r.IntN(70000) + 1
		raw := make([]byte, 4*part)
		for i := range raw {
			if raw[i] = byte(r.Uint32()); i/part%2 == 1 {
				raw[i] = byte(r.NormFloat64() * 3)
			}
		}
		var got [2]string
		for i, w := range []*Writer{old, new(Writer)} {
			w.packed.Reset()
			w.code(raw, part)
			got[i] = w.packed.String()
		}
		if got[0] != got[1] {
			t.Fatalf("parts of %d bytes: other codes after others", part)
		}
		back, err := new(inflater).inflate([]byte(got[0]), len(raw))
		if err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("parts of %d bytes come back as others: %v", part, err)
		}
	}
}
