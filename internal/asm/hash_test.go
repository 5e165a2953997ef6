package asm

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestHash holds the kernels to crypto/sha256, which says its words when it is marshalled.
func TestHash(t *testing.T) {
	words := func(b []byte) (all [8]uint32) {
		h := sha256.New()
		h.Write(b)
		text, err := h.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			all[i] = binary.BigEndian.Uint32(text[4+4*i:])
		}
		return all
	}
	for _, b := range backends {
		k := b.hash
		if k == nil {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 7))
			for _, n := range []int{1, 2, 3, 17, 100} {
				x, y := newGuarded[byte](64*n, 0), newGuarded[byte](64*n, 0)
				p, q := x.data(), y.data()
				for i := range p {
					p[i], q[i] = byte(r.Uint32()), byte(r.Uint32())
				}
				was, before := bytes.Clone(p), bytes.Clone(q)
				lead := []byte("What was hashed before, of which there are exactly 64 bytes here.")[:64]
				start := [2][8]uint32{words(nil), words(lead)}
				state := start
				k.Two(&state, &p[0], &p[0], n)
				if want := [2][8]uint32{words(p), words(append(lead[:64:64], p...))}; state != want {
					t.Fatalf("%d blocks for both: %x, want %x", n, state, want)
				}
				state = start
				k.Two(&state, &p[0], &q[0], n)
				if want := [2][8]uint32{words(p), words(append(lead[:64:64], q...))}; state != want {
					t.Fatalf("%d blocks of two: %x, want %x", n, state, want)
				}
				if !bytes.Equal(p, was) || !bytes.Equal(q, before) {
					t.Fatal("the message is not what it was")
				}
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	k := HashKernels()
	if k == nil {
		b.Skip("no kernels")
	}
	p, q := make([]byte, 1<<16), make([]byte, 1<<16)
	var state [2][8]uint32
	for name, f := range map[string]func(){
		"one": func() { sha256.Sum256(p) },
		"two": func() { k.Two(&state, &p[0], &q[0], len(p)/64) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				f()
			}
		})
	}
}
