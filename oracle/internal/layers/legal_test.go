package layers

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// TestLegalSumsOfChannels: a channel whose sums are large on their way has larger
// deviations than the others, which keep theirs.
func TestLegalSumsOfChannels(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	const in, side = 64, 8
	x, w := tensor.New(fp16.Float64, 2, in, side, side), tensor.New(fp16.Float64, 3, in, 1, 1)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(1 + r.Float64())
	}
	for c := range in {
		w.Data[c] = float64(1 - 2*(c%2))        // +-+-: sums stay small
		w.Data[in+c] = float64(1 - 2*(c/32))    // half of them +, then -: up to 48
		w.Data[2*in+c] = float64(1 - 2*(c/2%2)) // ++--
	}
	s := &sums{y: emulate.Conv(x, conv.NewKernel(w, nil), conv.Params{})}
	s.sd = make([]float64, len(s.y.Data))
	for i := range s.sd {
		s.sd[i] = 0x1p-22
	}
	slack := (&layerGate{u: 0x1p-24}).legalSums(x, w, conv.Params{}, s)
	for i, sd := range s.sd {
		o := i / (side * side) % 3
		if grown := sd / 0x1p-22; o == 1 && !(grown > 1.2) || o != 1 && grown != 1 {
			t.Fatalf("channel %d: deviations are %v times what they were (slack %v)", o, grown, slack)
		}
	}
}

// TestSiLUFarBelow: where e^-x overflows a device has -0, and where 1/(1+e^-x) is
// subnormal, too; that is right, and zeros before are not.
func TestSiLUFarBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 54))
	x := tensor.New(fp16.Float32, 1, 4, 32, 32)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(-70 * r.Float64())
		if i%4 == 0 {
			x.Data[i] = fp16.Float32.Round(-80 - 30*r.Float64())
		}
	}
	node := &operator.Node{Op: operator.OpAct, Act: act.SiLU}
	g := &layerGate{u: 0x1p-24, mode: operator.Mode{Precision: fp16.Float32}}
	round := fp16.Float32.Round
	for _, d := range []struct {
		name  string
		of    func(x, sum float64) float64 // sum is 1 + e^-x
		right bool
	}{
		{"a quotient", func(x, sum float64) float64 { return round(x / sum) }, true},
		{"a sigmoid without subnormal numbers", func(x, sum float64) float64 {
			s := round(1 / sum)
			if s < 0x1p-126 {
				s = 0
			}
			return round(x * s)
		}, true},
		{"zeros from -85 on", func(x, sum float64) float64 {
			if x < -85 {
				return math.Copysign(0, -1)
			}
			return round(x / sum)
		}, false},
	} {
		y := tensor.Like(x)
		for i, v := range x.Data {
			y.Data[i] = d.of(v, round(1+round(math.Exp(-v))))
		}
		for a := range g.actAnswers(node, layerValue{Tensor: x}, nil) {
			if a.how != "" { // a logistic function that is 0 where it is small
				continue
			}
			if s := judge(a, y, fp16.Float32); s.right() != d.right {
				t.Errorf("%s: judged right: %v (%s, %v over its limit)", d.name, s.right(), s.gate, s.excess)
			}
		}
	}
}
