package conv

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
	"github.com/refrun/refrun/tensor"
)

// An answer is what the judge says of a convolution: its outputs, rounded to some formats.
type answer struct {
	N, C, H, W int
	of         map[fp16.Format]*tensor.Tensor
}

// Round returns the outputs in a format, one of those that were asked for.
func (a *answer) Round(f fp16.Format) *tensor.Tensor { return a.of[f] }

// answers are those that were given, by all that was asked. TestMain runs the tests once for each instruction set, on
// the same numbers: their sums of big integers are computed once.
var answers = map[[sha256.Size]byte]*answer{}

// judge asks for a convolution in formats.
func judge(src, weight *tensor.Tensor, bias []float64, g bigref.Geometry, formats ...fp16.Format) *answer {
	asked := sha256.New()
	fmt.Fprintln(asked, g, formats, src.Shape, weight.Shape, bias == nil)
	for _, numbers := range [][]float64{src.Data, weight.Data, bias} {
		binary.Write(asked, binary.LittleEndian, numbers)
	}
	key := [sha256.Size]byte(asked.Sum(nil))
	if a := answers[key]; a != nil {
		return a
	}
	exact := bigref.Convolution(src, weight, bias, g)
	a := &answer{exact.N, exact.C, exact.H, exact.W, map[fp16.Format]*tensor.Tensor{}}
	for _, f := range formats {
		a.of[f] = exact.Round(f)
	}
	answers[key] = a
	return a
}
