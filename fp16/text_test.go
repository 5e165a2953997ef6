package fp16_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		f    fp16.Format
		v    float64
		want string
	}{
		{fp16.Float16, 0x555p-12, "0.333251953125 (0x3555)"},
		{fp16.Float16, 1.0 / 3, "0.333251953125 (0x3555)"},
		{fp16.BFloat16, 1.0 / 3, "0.333984375 (0x3eab)"},
		{fp16.TF32, 1.0 / 3, "0.333251953125 (0x3eaaa000)"},
		{fp16.Float32, 1.0 / 3, "0.3333333432674408 (0x3eaaaaab)"},
		{fp16.Float64, 1.0 / 3, "0.3333333333333333 (0x3fd5555555555555)"},
		{fp16.Float16, 65504, "65504 (0x7bff)"},
		{fp16.Float16, -0x1p-24, "-5.960464477539063e-08 (0x8001)"},
		{fp16.Float16, -1e-30, "-0 (0x8000)"},
		{fp16.BFloat16, -1e39, "-Inf (0xff80)"},
		{fp16.TF32, math.Inf(1), "+Inf (0x7f800000)"},
		{fp16.Float32, math.Float64frombits(0xfff0000000000001), "NaN (0x7fc00000)"},
		{fp16.Float64, 0, "0 (0x0000000000000000)"},
	} {
		if got := c.f.Text(c.v); got != c.want {
			t.Errorf("%v.Text(%x) = %q, want %q", c.f, c.v, got, c.want)
		}
	}
}

// TestTextReadsBack reads both halves of what Text writes, for all numbers of the
// half formats and some of the others.
func TestTextReadsBack(t *testing.T) {
	for _, f := range formats {
		numbers := []float64{0.1, -1e-40, 3e38, 1e300, 5e-324, limits[f][0], limits[f][1], limits[f][2], math.Pi}
		if f.Bytes() == 2 {
			for b := range uint64(1 << 16) {
				numbers = append(numbers, f.FromBits(b))
			}
		}
		for _, v := range numbers {
			v = f.Round(v)
			text := f.Text(v)
			decimal, bits, _ := strings.Cut(text, " (")
			d, err := strconv.ParseFloat(decimal, 64)
			if err != nil || !same(f.Round(d), v) || v == v && !same(d, v) {
				t.Fatalf("%v: %q reads back as %x (%v), want %x", f, text, d, err, v)
			}
			if got, err := f.ParseBits(strings.TrimSuffix(bits, ")")); err != nil || !same(got, v) {
				t.Fatalf("%v: %q reads back as %x (%v), want %x", f, text, got, err, v)
			}
		}
	}
}

func TestParseBits(t *testing.T) {
	if v, err := fp16.Float16.ParseBits("0xFC01"); err != nil || !same(v, fp16.NaN) {
		t.Errorf("a NaN of another kind: %v, %v", v, err)
	}
	for s, want := range map[string]string{
		"":           `bits "" of a tf32: want 0x and 8 hexadecimal digits`,
		"3eaaa000":   `bits "3eaaa000" of a tf32: want 0x and 8 hexadecimal digits`,
		"0x3eaa":     `bits "0x3eaa" of a tf32: want 0x and 8 hexadecimal digits`,
		"0x3eaaa00g": `bits "0x3eaaa00g" of a tf32: want 0x and 8 hexadecimal digits`,
		"0x+eaaa000": `bits "0x+eaaa000" of a tf32: want 0x and 8 hexadecimal digits`,
		"0x3eaaa001": `bits "0x3eaaa001" of a tf32: want the last 13 bits 0`,
		"0x3eaab000": `bits "0x3eaab000" of a tf32: want the last 13 bits 0`,
	} {
		if _, err := fp16.TF32.ParseBits(s); err == nil || err.Error() != want {
			t.Errorf("ParseBits(%q): %v", s, err)
		}
	}
}
