package fp16

import (
	"bytes"
	"math"
	"testing"
)

func TestAppend(t *testing.T) {
	in := []float64{1, -2.5, 0, math.Copysign(0, -1), 1.0 / 3, math.Inf(-1), math.Float64frombits(0xfff8000000000123)}
	for f, want := range map[Format]string{
		Float64: "\x00\x00\x00\x00\x00\x00\xf0\x3f" + "\x00\x00\x00\x00\x00\x00\x04\xc0" +
			"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x80" +
			"\x55\x55\x55\x55\x55\x55\xd5\x3f" + "\x00\x00\x00\x00\x00\x00\xf0\xff" +
			"\x00\x00\x00\x00\x00\x00\xf8\x7f",
		Float32: "\x00\x00\x80\x3f" + "\x00\x00\x20\xc0" + "\x00\x00\x00\x00" + "\x00\x00\x00\x80" +
			"\xab\xaa\xaa\x3e" + "\x00\x00\x80\xff" + "\x00\x00\xc0\x7f",
		TF32: "\x00\x00\x80\x3f" + "\x00\x00\x20\xc0" + "\x00\x00\x00\x00" + "\x00\x00\x00\x80" +
			"\x00\xa0\xaa\x3e" + "\x00\x00\x80\xff" + "\x00\x00\xc0\x7f",
		Float16:  "\x00\x3c" + "\x00\xc1" + "\x00\x00" + "\x00\x80" + "\x55\x35" + "\x00\xfc" + "\x00\x7e",
		BFloat16: "\x80\x3f" + "\x20\xc0" + "\x00\x00" + "\x00\x80" + "\xab\x3e" + "\x80\xff" + "\xc0\x7f",
	} {
		got := f.Append([]byte{7}, in)
		if !bytes.Equal(got[1:], []byte(want)) || got[0] != 7 {
			t.Errorf("%v: % x, want 07 % x", f, got, want)
		}
		back := make([]float64, len(in))
		f.Decode(back, []byte(want))
		for i, v := range in {
			if r := f.Round(v); math.Float64bits(back[i]) != math.Float64bits(r) {
				t.Errorf("%v: decoded %v, want %v", f, back[i], r)
			}
		}
		if f.Bytes()*len(in) != len(want) {
			t.Errorf("%v: %d bytes a number, want %d", f, f.Bytes(), len(want)/len(in))
		}
	}
}
