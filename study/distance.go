package study

import (
	"math"

	"github.com/refrun/refrun/diff"
)

// Distance is how far states lie from the reference's, element by element over
// all realizations. A NaN or an infinity on either side is a distance of
// infinity.
type Distance struct {
	MeanAbs    diff.Number `json:"mean_abs"`
	MaxAbs     diff.Number `json:"max_abs"`
	RMSOverStd diff.Number `json:"rms_over_std"` // root mean square over the std of the reference's state
	// MeanRel is the mean of |d|/(|reference| + 1e-8), as Spinlock's benchmark
	// of precisions has it: numbers beside zero decide it.
	MeanRel diff.Number `json:"mean_rel"`
}

// distance gathers a Distance.
type distance struct{ n, abs, max, sq, rel float64 }

func (a *distance) add(got, want []float64) {
	for i, w := range want {
		d := math.Abs(got[i] - w)
		if !finite(d) {
			d = math.Inf(1)
		}
		a.abs += d
		a.max = max(a.max, d)
		a.sq += float64(d * d)
		a.rel += d / (math.Abs(w) + 1e-8)
	}
	a.n += float64(len(want))
}

func (a distance) over(std float64) Distance {
	return Distance{
		MeanAbs: diff.Number(a.abs / a.n), MaxAbs: diff.Number(a.max), MeanRel: diff.Number(a.rel / a.n),
		RMSOverStd: diff.Number(ratio(math.Sqrt(a.sq/a.n), std)),
	}
}

// Mean returns the mean of distances, figure by figure; MaxAbs is the greatest.
// The mean of none is 0.
func Mean(d []Distance) Distance {
	var m Distance
	for _, x := range d {
		m.MeanAbs += x.MeanAbs / diff.Number(len(d))
		m.RMSOverStd += x.RMSOverStd / diff.Number(len(d))
		m.MeanRel += x.MeanRel / diff.Number(len(d))
		m.MaxAbs = max(m.MaxAbs, x.MaxAbs)
	}
	return m
}

// relative returns the RMS distances over the std.
func relative(d []Distance) []float64 {
	r := make([]float64, len(d))
	for i, x := range d {
		r[i] = float64(x.RMSOverStd)
	}
	return r
}
