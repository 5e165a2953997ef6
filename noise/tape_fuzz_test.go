package noise

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/refrun/refrun/safetensors"
)

// FuzzTape: arrays of any name, shape and content are refused in one line, or their
// draws can be taken.
func FuzzTape(f *testing.F) {
	for _, a := range []struct {
		name  string
		shape []int
	}{
		{"batch0", []int{2, 1, 2, 1, 1}}, {"batch0.draw0.normal", []int{1, 2, 1, 2, 2}}, {
			"batch7.draw1.exponential", []int{1, 1, 1, 1, 1},
		}, {"batch0.draw0.bernoulli", []int{2, 1, 3}}, {"batch0.draw0.complex", []int{1, 1, 1, 2, 2, 2}},
	} {
		n := 1
		for _, d := range a.shape {
			n *= d
		}
		x, err := safetensors.OfFloat64s(a.name, safetensors.F32, a.shape, make([]float64, n))
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if err := safetensors.Write(&b, []*safetensors.Tensor{x}, nil); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := safetensors.Parse("f", data)
		if err != nil {
			return
		}
		tape, err := OpenTape(file)
		for step := 1; err == nil && step <= min(tape.Steps(), 3); step++ {
			var d Draws
			if d, err = tape.Draws(0, step, 0, 1); err == nil {
				for _, r := range tape.batches[0] {
					shape := append([]int{1}, r.Shape[2:]...)
					if len(shape) == 2 {
						shape = append(shape, 1, 1)
					}
					if r.named && r.kind == ComplexNormal || len(shape) == 5 {
						shape = shape[:4]
					}
					kind := r.kind
					if !r.named {
						kind = Normal
					}
					if err := d.Draw(kind, 0, shape, make([]float64, r.Len()/(r.Shape[0]*r.Shape[1]))); err != nil {
						form(t, err)
					}
				}
			}
		}
		if err != nil {
			form(t, err)
		}
	})
}

func form(t *testing.T, err error) {
	t.Helper()
	if line := fmt.Sprint(err); !strings.HasPrefix(line, "f: ") || !strings.Contains(line, ": want ") ||
		strings.ContainsAny(line, "\n\r") {
		t.Errorf("not the form of an error: %q", line)
	}
}
