package layers

import (
	"math"
	"testing"

	"github.com/refrun/refrun/act"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// TestSiLUByPowersOfTwo: x/(1+2^t) of the rounded t = -x log2 e, which many kernels
// compute in float32, is right at all sizes of x; what is 2^-17 off is not at any.
func TestSiLUByPowersOfTwo(t *testing.T) {
	const n = 4096
	x := tensor.New(fp16.Float64, 1, 1, 1, n)
	for i := range x.Data {
		x.Data[i] = emulate.Single(-86 + 96*(float64(i)+0.37)/n)
	}
	g := &layerGate{u: 0x1p-24, mode: operator.Mode{Precision: fp16.Float32}}
	log2e := emulate.Single(math.Log2E)
	outside, farther := 0, 0
	for a := range g.actAnswers(&operator.Node{Op: operator.OpAct, Act: act.SiLU}, layerValue{Tensor: x}) {
		for i, v := range x.Data {
			e := emulate.Single(math.Exp2(emulate.Single(-v * log2e)))
			y := emulate.Single(v / emulate.Single(1+e))
			if y < a.lo[i] || y > a.hi[i] {
				outside++
			}
			if v < -70 || a.mid[i]+0x1p-17*math.Abs(y) > a.hi[i] { // where an absolute 2^-126 is less
				farther++
			}
		}
	}
	if outside > 0 || farther < n {
		t.Errorf("%d of %d right numbers are outside of what a right device has; of those 2^-17 off, %d are", outside, n, farther)
	}
}
