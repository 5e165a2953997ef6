package quantize_test

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

var blockFiles = flag.String("quantize.files", "",
	"files of interop/narrow/blocks.py, with commas between, to hold quantizers to")

// the formats by torchao's names of their elements
var torchaoFormats = map[string]string{"float8_e4m3fn": "mxfp8_e4m3", "float8_e5m2": "mxfp8_e5m2",
	"fp6_e3m2": "mxfp6_e3m2", "fp6_e2m3": "mxfp6_e2m3", "float4_e2m1fn_x2": "mxfp4_e2m1"}

// TestTorchao holds quantizers to every bit that torchao's returned, and all that explains them to
// what they returned.
func TestTorchao(t *testing.T) {
	files := strings.Split("testdata/mx.safetensors,testdata/nvfp4.safetensors,"+*blockFiles, ",")
	for _, path := range files {
		if path == "" {
			continue
		}
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		questions, bytesOf := 0, func(name string) []byte {
			x, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			return x.Bytes()
		}
		for _, name := range f.Names() {
			made, ok := strings.CutSuffix(name, ".data")
			if !ok {
				continue
			}
			questions++
			parts := strings.Split(made, ".")
			in, err := f.Tensor(parts[0] + ".input")
			if err != nil {
				t.Fatal(err)
			}
			v, err := in.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			x := tensor.Of(fp16.Float32, v, in.Shape...)
			format, rule, global := "nvfp4", "", 1.0
			switch parts[1] {
			case "one_level":
			case "two_level":
				global = quantize.GlobalScale(x)
				want, _ := f.Tensor(made + ".global")
				if w, err := want.Float64s(); err != nil || w[0] != global && (w[0] == w[0] || global == global) {
					t.Errorf("%s %s: global scale %v, want %v", path, made, global, w)
				}
			default:
				format, rule = torchaoFormats[parts[1]], parts[2]
			}
			s, err := quantize.Parse(format, quantize.Options{Rule: rule, Order: "high"})
			if err != nil {
				t.Fatal(err)
			}
			y, err := s.Quantize(x, global, nil)
			if err != nil {
				t.Fatal(err)
			}
			codes := y.Codes
			if s.Element.Bits() == 4 {
				codes = quantize.Pack(codes, true)
			}
			if want := bytesOf(name); !bytes.Equal(codes, want) {
				t.Errorf("%s %s: codes differ: first at %d", path, made, differ(codes, want))
			}
			if got, want := scaleCodes(s, y.Scales), bytesOf(made+".scale"); !bytes.Equal(got, want) {
				i := differ(got, want)
				t.Errorf("%s %s: scales differ: at %d %d, want %d", path, made, i, got[i], want[i])
			}
			if e, err := s.Explain(x, y, len(x.Data)); err != nil || e.Wrong() > 0 {
				t.Errorf("%s %s: explained as %+v, %v", path, made, e, err)
			}
		}
		t.Logf("%s: %d questions", path, questions)
		if questions < 14 {
			t.Errorf("%s: %d questions", path, questions)
		}
	}
}

func scaleCodes(s quantize.Spec, scales []float64) (codes []byte) {
	n := fp16.E8M0
	if s.Kind == quantize.EightBits {
		n = fp16.E4M3
	}
	for _, v := range scales {
		codes = append(codes, n.Encode(v, fp16.Torch))
	}
	return codes
}

func differ(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
