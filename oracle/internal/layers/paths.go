package layers

import (
	"math"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// paths raises the deviations of sums whose partial sums go farther on their way than those of a random order: of
// images that are smooth and weights of one sign, channel after channel, or tap after tap, all products of which have
// one sign. There a device's error is that of the way, and not of where it ends.
func (s *sums) paths(u float64) {
	terms := float64(s.weights.C() * s.weights.H() * s.weights.W())
	for _, parts := range [][]*tensor.Tensor{s.byChannel(), s.byTap()} {
		sum, squares := make([]float64, len(s.y.Data)), make([]float64, len(s.y.Data))
		for _, y := range parts {
			for k, v := range y.Data {
				sum[k] += v
				squares[k] += float64(sum[k] * sum[k])
			}
		}
		each := terms / float64(len(parts)) // additions between two that are known
		for k, q := range squares {
			s.sd[k] = max(s.sd[k], roundingSD*u*math.Sqrt(float64(each*q)+s.squares[k]))
		}
	}
}

// byChannel is what each channel adds.
func (s *sums) byChannel() (parts []*tensor.Tensor) {
	for c := range s.weights.C() {
		parts = append(parts, s.run(channel(s.x, c), channel(s.weights, c)))
	}
	return parts
}

// channel is one channel of all samples.
func channel(x *tensor.Tensor, c int) *tensor.Tensor {
	y := tensor.New(fp16.Float64, x.N(), 1, x.H(), x.W())
	for n := range x.N() {
		copy(y.Plane(n, 0), x.Plane(n, c))
	}
	return y
}

// byTap is what each place of the kernel adds.
func (s *sums) byTap() (parts []*tensor.Tensor) {
	for i := range s.weights.H() {
		for j := range s.weights.W() {
			w := tensor.New(fp16.Float64, s.weights.N(), s.weights.C(), 1, 1)
			for o := range s.weights.N() {
				for c := range s.weights.C() {
					w.Plane(o, c)[0] = s.weights.Plane(o, c)[i*s.weights.W()+j]
				}
			}
			parts = append(parts, emulate.Conv(s.seen(i, j), conv.NewKernel(w, nil), conv.Params{}))
		}
	}
	return parts
}

// seen are the pixels that a place of the kernel is over, one for each of the output.
func (s *sums) seen(i, j int) *tensor.Tensor {
	p, stride := s.geometry, max(1, s.geometry.Stride[0])
	out := tensor.New(fp16.Float64, s.x.N(), s.x.C(), s.y.H(), s.y.W())
	for n := range s.x.N() {
		for c := range s.x.C() {
			from, to := s.x.Plane(n, c), out.Plane(n, c)
			for k := range to {
				y, yes := inside(k/s.y.W()*stride+i-p.Pad[0], s.x.H(), p.Padding)
				x, too := inside(k%s.y.W()*stride+j-p.Pad[1], s.x.W(), p.Padding)
				if yes && too {
					to[k] = from[y*s.x.W()+x]
				}
			}
		}
	}
	return out
}
