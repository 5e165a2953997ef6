package kernel_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/kernel"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

var recordings = flag.String("kernel.recordings", filepath.Join("..", "..", "..", "tensorcore", "testdata"),
	"a folder of what devices returned")

// TestRecorded: every file of what a device's tensor cores returned is that device's, in all bits, and who made it is
// said if nobody is named: it, and those that add alike.
func TestRecorded(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(*recordings, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]struct {
		Device, Inputs string
		Outputs        []string
		Devices        map[string]string // of outputs that are another unit's
		WithoutC       []string          `json:"without_c"` // outputs that were recorded with 0
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		t.Fatal(err)
	}
	files := 0
	for name, of := range index {
		f, err := safetensors.Open(filepath.Join(*recordings, name+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		read := func(name string) *tensor.Tensor {
			x, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			v, err := x.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			return tensor.Of(fp16.Float64, v, x.Shape...)
		}
		in, err := tensorcore.ParseInput(of.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		files++
		for _, output := range of.Outputs {
			device := strings.ToLower(cmp.Or(of.Devices[output], of.Device))
			store := fp16.Float32
			if output == "d_fp16" {
				store = fp16.Float16
			}
			q := kernel.Question{
				Op: "dot", A: read("a"), B: read("b"), C: read("c"), Output: read(output), Operands: in, Store: store,
			}
			if slices.Contains(of.WithoutC, output) {
				q.C = nil
			}
			r := check(t, q)
			var fit []string
			for _, f := range r.Fits {
				if f.NotEqual == 0 && !slices.Contains(fit, f.Device) {
					fit = append(fit, f.Device)
				}
			}
			q.Device = device
			if claimed := check(t, q); claimed.Verdict != kernel.Pass || claimed.NotEqual != 0 || !slices.Contains(fit, device) {
				t.Errorf("%s %s: %s, %d not equal; unnamed, %v fit", name, output, claimed.Verdict, claimed.NotEqual, fit)
			}
			t.Logf("%-10s %s 0 of %d not equal; unnamed: %s", name, output, r.Elements, strings.Join(fit, " "))
		}
	}
	if files != 42 {
		t.Errorf("%d files", files)
	}
}
