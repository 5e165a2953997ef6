package rollout

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// TestTwo: two hashes side by side are those of crypto/sha256, from wherever they have come.
func TestTwo(t *testing.T) {
	defer asm.Use(asm.ISA())
	r := rand.New(rand.NewPCG(1, 9))
	data := make([]byte, 1<<18)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	lengths := []int{0, 1, 63, 64, 65, 511, 512, 513, 700, 4096, 1<<16 + 1, 1<<17 + 40}
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		for range 400 {
			var is, want [2]hash.Hash
			for i := range is {
				is[i], want[i] = sha256.New(), sha256.New()
			}
			for range 3 {
				var part [2][]byte
				for i := range part {
					n := lengths[r.IntN(len(lengths))]
					at := r.IntN(len(data) - n + 1)
					part[i] = data[at : at+n]
					want[i].Write(part[i])
				}
				addTwo(is[0], is[1], part[0], part[1])
				for i := range is {
					if !bytes.Equal(is[i].Sum(nil), want[i].Sum(nil)) {
						t.Fatalf("%s: hash %d after %d and %d bytes: %x, want %x",
							isa, i, len(part[0]), len(part[1]), is[i].Sum(nil), want[i].Sum(nil))
					}
				}
			}
		}
	}
}

// TestDigestAnyOrder: a digest is that of its definition in whatever order the states of
// realizations come, in whatever form, and whenever it is written down and read again.
func TestDigestAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for range 40 {
		const ms, n = 3, 300
		d := NewDigest(fp16.Float32, ms, 1, 1, 1, n)
		var all [ms]hash.Hash
		for m := range all {
			all[m] = sha256.New()
		}
		x := make([]float64, n)
		for range 20 {
			for i := range x {
				x[i] = float64(float32(r.NormFloat64()))
			}
			m := r.IntN(ms)
			b := fp16.Float32.Append(nil, x)
			all[m].Write(b)
			switch r.IntN(6) {
			case 0:
				d.take(m, slices.Clone(b))
			case 1:
				if s := d.addRecord(m, b, b, []byte("tail")); s != sha256.Sum256(append(b, "tail"...)) {
					t.Fatalf("record: %x", s)
				}
			default:
				d.Add(m, x)
			}
			if r.IntN(5) == 0 {
				text, err := d.MarshalText()
				if err != nil {
					t.Fatal(err)
				}
				d = NewDigest(fp16.Float32, ms, 1, 1, 1, n)
				d.Add(r.IntN(ms), x) // forgotten
				if err := d.UnmarshalText(text); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := sha256.New()
		want.Write([]byte("float32 [3,1,1,1,300]\n"))
		for _, h := range all {
			want.Write(h.Sum(nil))
		}
		if got := d.sum(); !bytes.Equal(got, want.Sum(nil)) {
			t.Fatalf("digest %x, want %x", got, want.Sum(nil))
		}
	}
}
