package rollout

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

// postProcess normalises and clamps states in place: over the whole engine
// batch if the case names one (as Spinlock does), else each realization by
// itself.
func (s *Stepper) postProcess(x *tensor.Tensor) {
	if s.Config.Normalization == NoNormalization && s.Config.Clamp == nil {
		return
	}
	if s.Config.EngineBatch > 0 {
		s.Config.post(x.Data, x.Format)
		return
	}
	for n := range x.N() {
		s.Config.post(x.Samples(n, n+1).Data, x.Format)
	}
}

// post applies the post-processing to one group of numbers of format f.
func (c Config) post(x []float64, f fp16.Format) {
	switch c.Normalization {
	case MinMax:
		norm.MinMax(x, f)
	case ZScore:
		norm.ZScore(x, f)
	}
	if c.Clamp != nil {
		lo, hi := f.Round(c.Clamp[0]), f.Round(c.Clamp[1])
		for i, v := range x {
			switch {
			case v < lo:
				x[i] = lo
			case v > hi:
				x[i] = hi
			}
		}
	}
}
