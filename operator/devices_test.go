package operator

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// device is a recorded set of testdata/autocast: a PyTorch on a CPU and the
// half type of its autocast.
type device struct {
	set  string
	mode graph.Mode
	// gelu bounds the absolute error of GELU where its result is below 1: that
	// of oneDNN's approximation of erf (2.6.3; 3.7 on AVX-512).
	gelu float64
	// narrow kernels round every operation inside SiLU, tanh-GELU and bilinear
	// interpolation to the half type; others compute in float32.
	narrow bool
}

var devices = []device{
	{"1.13-bfloat16", graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CPU113}, 3.7e-7, true},
	{"2.9-bfloat16", graph.Mode{Precision: fp16.BFloat16, Autocast: graph.CPU2}, 1.2e-6, false},
	{"2.9-float16", graph.Mode{Precision: fp16.Float16, Autocast: graph.CPU2}, 1.2e-6, false},
}
