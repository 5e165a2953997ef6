package fault

import (
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/oracle/internal/trial"
)

// drawn is a fault of the numbers of a draw: f returns what the device has in their place, or nil.
func drawn(row *table.Row, f func(kind noise.Kind, shape [4]int, data []float64) []float64) *trial.Fault {
	return &trial.Fault{Row: row, Draws: f}
}

// moved is a fault that takes each number of a draw from elsewhere in it.
func moved(row *table.Row, from func(n, c, h, w int, s [4]int) int) *trial.Fault {
	return drawn(row, func(_ noise.Kind, shape [4]int, data []float64) []float64 {
		return gathered(data, shape, from)
	})
}

func gathered(data []float64, s [4]int, from func(n, c, h, w int, s [4]int) int) []float64 {
	y, at := make([]float64, len(data)), 0
	for n := range s[0] {
		for c := range s[1] {
			for h := range s[2] {
				for w := range s[3] {
					i := from(n, c, h, w, s)
					if i < 0 || i >= len(data) {
						return nil
					}
					y[at] = data[i]
					at++
				}
			}
		}
	}
	return y
}

// noiseFaults are those of the numbers that a stochastic block draws. The order is that of the library.
func noiseFaults() (l []*trial.Fault) {
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		l = append(l, drawn(Named("noise.noise-in", f),
			func(_ noise.Kind, _ [4]int, data []float64) []float64 { return mapped(data, f.Round) }))
	}
	return slices.Concat(l, otherPlaces(), otherNumbers(), otherChannels())
}

// otherPlaces are the noise of other samples, channels or pixels of the step.
func otherPlaces() (l []*trial.Fault) {
	at := func(n, c, h, w int, s [4]int) int { return ((n*s[1]+c)*s[2]+h)*s[3] + w }
	return append(l,
		moved(Named("noise.noise-of-the-sample-before"), func(n, c, h, w int, s [4]int) int {
			if s[0] == 1 {
				return -1
			}
			return at((n+s[0]-1)%s[0], c, h, w, s)
		}),
		moved(Named("noise.noise-of-the-next-sample"), func(n, c, h, w int, s [4]int) int {
			if s[0] == 1 {
				return -1
			}
			return at((n+1)%s[0], c, h, w, s)
		}),
		moved(Named("noise.the-same-noise-for-all-samples"), func(n, c, h, w int, s [4]int) int { return at(0, c, h, w, s) }),
		moved(Named("noise.the-same-noise-for-all-channels"),
			func(n, c, h, w int, s [4]int) int { return at(n, 0, h, w, s) }),
		moved(Named("noise.noise-of-the-channel-before"),
			func(n, c, h, w int, s [4]int) int { return at(n, (c+s[1]-1)%s[1], h, w, s) }),
		moved(Named("noise.noise-of-the-next-channel"),
			func(n, c, h, w int, s [4]int) int { return at(n, (c+1)%s[1], h, w, s) }),
		moved(Named("noise.noise-transposed"), func(n, c, h, w int, s [4]int) int {
			k := h*s[3] + w
			return at(n, c, k%s[2], k/s[2], s)
		}),
		moved(Named("noise.noise-of-rows-read-as-columns"),
			func(n, c, h, w int, s [4]int) int { return (n*s[1]+c)*s[2]*s[3] + w*s[2] + h }),
		moved(Named("noise.realizations-have-each-other-noise"),
			func(n, c, h, w int, s [4]int) int { return at(s[0]-1-n, c, h, w, s) }),
		moved(Named("noise.noise-in-equal-pairs"), func(n, c, h, w int, s [4]int) int { return at(n, c, h, w, s) &^ 1 }),
		moved(Named("noise.noise-flipped-left-to-right"),
			func(n, c, h, w int, s [4]int) int { return at(n, c, h, s[3]-1-w, s) }),
		moved(Named("noise.noise-flipped-top-to-bottom"),
			func(n, c, h, w int, s [4]int) int { return at(n, c, s[2]-1-h, w, s) }),
		moved(Named("noise.noise-drawn-channels-last"),
			func(n, c, h, w int, s [4]int) int { return ((n*s[2]+h)*s[3]+w)*s[1] + c }),
	)
}

// otherNumbers are noise of another distribution, of few levels, or without a sign.
func otherNumbers() (l []*trial.Fault) {
	return append(l, normals(Named("noise.uniform-noise-for-normal"),
		func(x float64) float64 { return math.Sqrt(3) * (elem.Erfc(-x/math.Sqrt2) - 1) }),
		normals(Named("noise.laplace-noise-for-normal"), func(x float64) float64 {
			return math.Copysign(-elem.Log(max(elem.Erfc(math.Abs(x)/math.Sqrt2), 1e-300))/math.Sqrt2, x)
		}),
		normals(Named("noise.noise-cut-off-at-2-standard-deviations"), func(x float64) float64 { return max(-2, min(2, x)) }),
		normals(Named("noise.noise-cut-off-at-3-standard-deviations"), func(x float64) float64 { return max(-3, min(3, x)) }),
		coarseNoise(1), coarseNoise(0.5), coarseNoise(0.4), coarseNoise(0.25), coarseNoise(0.2),
		coarseNoise(0.125), coarseNoise(0.1), coarseNoise(1./16), coarseNoise(1./32),
		drawn(Named("noise.noise-not-centred-absolute-value"),
			func(kind noise.Kind, _ [4]int, data []float64) []float64 {
				if kind == noise.Bernoulli {
					return nil
				}
				return mapped(data, math.Abs)
			}))
}

// otherChannels are a channel without noise, and all of the stream some numbers off.
func otherChannels() (l []*trial.Fault) {
	for k := range 64 {
		l = append(l, drawn(Named("noise.channel-without-noise", k),
			func(kind noise.Kind, s [4]int, data []float64) []float64 {
				if k >= s[1] || s[1] < 2 || kind == noise.Bernoulli {
					return nil
				}
				y, hw := slices.Clone(data), s[2]*s[3]
				for n := range s[0] {
					clear(y[(n*s[1]+k)*hw:][:hw])
				}
				return y
			}))
	}
	for k := -8; k <= 8; k++ {
		if k == 0 {
			continue
		}
		l = append(l, drawn(Named("noise.noise-stream-off-by-numbers", k),
			func(_ noise.Kind, _ [4]int, data []float64) []float64 {
				return turned(data, k)
			}))
	}
	return l
}

// turned returns the numbers k places on, as if they were a ring; nil if those are the
// numbers themselves. Masks of a few channels are shorter than k.
func turned(data []float64, k int) []float64 {
	n := len(data)
	if n == 0 || k%n == 0 {
		return nil
	}
	k = (k%n + n) % n
	return slices.Concat(data[k:], data[:k])
}

// normals is a fault that changes each normal draw.
func normals(row *table.Row, f func(x float64) float64) *trial.Fault {
	return drawn(row, func(kind noise.Kind, _ [4]int, data []float64) []float64 {
		if kind != noise.Normal {
			return data
		}
		return mapped(data, f)
	})
}

func mapped(data []float64, f func(x float64) float64) []float64 {
	y := make([]float64, len(data))
	for i, x := range data {
		y[i] = f(x)
	}
	return y
}

// coarseNoise is noise that takes only values so far apart.
func coarseNoise(step float64) *trial.Fault {
	return normals(Named("noise.noise-in-steps-of", step),
		func(x float64) float64 { return math.RoundToEven(x/step) * step })
}
