package operator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// torchUAFNO is what PyTorch computed for one U-AFNO: see testdata/uafno.py.
type torchUAFNO struct {
	Operator json.RawMessage
	Seed     uint64
	Weights  string            // SHA-256 of all parameters in the order of their names
	Types    map[string]string // of modules' outputs under the CPU's autocast to bfloat16

	config                           Config
	input, float32, float64, reduced *tensor.Tensor
}

func torchUAFNOs(t *testing.T) []torchUAFNO {
	data, err := os.ReadFile("testdata/uafno.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct{ Cases []torchUAFNO }
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open("testdata/uafno.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for k := range recorded.Cases {
		c := &recorded.Cases[k]
		if c.config, err = ReadConfig("uafno.json", fmt.Sprintf("cases[%d]", k), c.Operator); err != nil {
			t.Fatal(err)
		}
		read := func(name string) *tensor.Tensor {
			x, err := f.Tensor(fmt.Sprintf("%d.%s", k, name))
			if err != nil {
				t.Fatal(err)
			}
			data, err := x.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			format, _ := x.DType.Format()
			return tensor.Of(format, data, x.Shape...)
		}
		c.input, c.float32, c.float64, c.reduced = read("input"), read("float32"), read("float64"), read("bfloat16")
	}
	return recorded.Cases
}

// weightsDigest is the SHA-256 of an operator's float32 parameters, in the order of their
// names.
func weightsDigest(op *Operator) string {
	all := slices.Clone(op.Params())
	slices.SortFunc(all, func(a, b *Param) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, p := range all {
		if p.Counter || strings.HasSuffix(p.Name, "running_mean") || strings.HasSuffix(p.Name, "running_var") {
			continue // buffers
		}
		for _, v := range p.Data {
			binary.Write(h, binary.LittleEndian, float32(v))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// rms returns the root of the mean square of a-b.
func rms(a, b *tensor.Tensor) float64 {
	var sum float64
	for i, v := range a.Data {
		d := v - b.Data[i]
		sum += float64(d * d)
	}
	return math.Sqrt(sum / float64(len(a.Data)))
}

// TestUAFNOTorch: from a seed an operator has PyTorch's weights, bit for bit; its float32
// output is at most as far from PyTorch's float64 output as PyTorch's float32 one is, and
// in float64 mode the two are equal but for the order of sums.
func TestUAFNOTorch(t *testing.T) {
	for k, c := range torchUAFNOs(t) {
		op, err := Init(c.config, c.Seed)
		if err != nil {
			t.Fatal(err)
		}
		if got := weightsDigest(op); got != c.Weights {
			t.Errorf("%d: weights of seed %d have the digest %s: want PyTorch's %s", k, c.Seed, got, c.Weights)
		}
		y, err := op.Forward(&Pass{Mode: graph.Mode{Precision: fp16.Float32}}, c.input)
		if err != nil {
			t.Fatal(err)
		}
		ours, torch := rms(y, c.float64), rms(c.float32, c.float64)
		if !(ours <= 1.02*torch) {
			t.Errorf("%d: distance of the float32 output to float64 %.3g: want at most 1.02 times PyTorch's %.3g",
				k, ours, torch)
		}
		wide := tensor.Of(fp16.Float64, c.input.Data, c.input.Shape...)
		y, err = op.Forward(&Pass{Mode: graph.Mode{Precision: fp16.Float64}}, wide)
		if err != nil {
			t.Fatal(err)
		}
		// float64 rounds 2^29 times as finely as float32, in which both err like torch does.
		if got := rms(y, c.float64); !(got <= 8*torch/(1<<29)) {
			t.Errorf("%d: distance of the float64 outputs %.3g: want at most %.3g", k, got, 8*torch/(1<<29))
		}
	}
}

// TestUAFNOAutocast: under the CPU's autocast to bfloat16 modules have the types that
// PyTorch gives them, and the output is as far from float64 as PyTorch's.
func TestUAFNOAutocast(t *testing.T) {
	for k, c := range torchUAFNOs(t) {
		op, err := Init(c.config, c.Seed)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		mode := graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CPU2}
		pass := &Pass{Mode: mode, Feature: func(name string, y *tensor.Tensor) {
			if want, ok := c.Types[name]; ok && want != y.Format.String() {
				t.Errorf("%d: %s is %v: want PyTorch's %s", k, name, y.Format, want)
			}
			seen[name] = true
		}}
		y, err := op.Forward(pass, c.input)
		if err != nil {
			t.Fatal(err)
		}
		for name := range c.Types {
			if !seen[name] && !container(name, c.Types) {
				t.Errorf("%d: no feature %s: want the output of every module", k, name)
			}
		}
		ours, torch, apart := rms(y, c.float64), rms(c.reduced, c.float64), rms(y, c.reduced)
		if !(ours < 1.2*torch && torch < 1.2*ours && apart < 1.4*torch) {
			t.Errorf("%d: distance of the bfloat16 output to float64 %.3g, PyTorch's %.3g, to each other %.3g: "+
				"want the same but for the order of sums", k, ours, torch, apart)
		}
	}
}

// container reports whether a module is an nn.Sequential inside a block, which Spinlock's
// names go through and no feature has.
func container(name string, modules map[string]string) bool {
	last := name[strings.LastIndex(name, ".")+1:]
	return last == "block" || last == "blocks"
}
