package tensor

import (
	"math"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// TestFloat32s: float32 numbers come in and go out as they are, and NaN is the one NaN.
func TestFloat32s(t *testing.T) {
	in := []float32{1, -0.1, math.MaxFloat32, 0x1p-149, float32(math.Inf(-1)), math.Float32frombits(0x80000000),
		math.Float32frombits(0xffc12345)}
	x := FromFloat32(in, 7, 1)
	if x.Format != fp16.Float32 || x.Fault(2) != "" {
		t.Fatalf("%v %q", x.Format, x.Fault(2))
	}
	for i, v := range x.Float32s() {
		want := math.Float32bits(in[i])
		if in[i] != in[i] {
			want = 0x7fc00000
		}
		if math.Float32bits(v) != want {
			t.Errorf("%d: %#x, want %#x", i, math.Float32bits(v), want)
		}
	}
	in[0] = 2
	if x.Data[0] != 1 {
		t.Error("the data is shared")
	}
	if y := Of(fp16.Float64, []float64{1 + 0x1p-24, 1 + 0x3p-24}, 2).Float32s(); !slices.Equal(y,
		[]float32{1, 1 + 0x1p-22}) {
		t.Errorf("rounded %v", y)
	}
}

// TestBits: every number of the half formats, there and back.
func TestBits(t *testing.T) {
	for f, least := range map[fp16.Format]float64{fp16.Float16: 0x1p-24, fp16.BFloat16: 0x1p-133} {
		all := make([]uint16, 1<<16)
		for i := range all {
			all[i] = uint16(i)
		}
		x := FromBits(f, all, 1<<16)
		if x.Format != f || x.Data[1] != least {
			t.Errorf("%v: %v is the least number, want %v", f, x.Data[1], least)
		}
		for i, b := range x.Bits() {
			if nan := x.Data[i] != x.Data[i]; !nan && int(b) != i || nan && uint64(b) != f.Bits(fp16.NaN) {
				t.Fatalf("%v: %#x comes back as %#x", f, i, b)
			}
		}
	}
}

func TestBitsMisuse(t *testing.T) {
	for name, f := range map[string]func(){
		"numbers": func() { FromFloat32(make([]float32, 3), 2) },
		"bits":    func() { FromBits(fp16.Float16, make([]uint16, 3), 2) },
		"format":  func() { FromBits(fp16.Float32, make([]uint16, 2), 2) },
		"wide":    func() { New(fp16.TF32, 1).Bits() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
