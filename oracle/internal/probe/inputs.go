package probe

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
)

// The rungs of the ladders, as standard deviations of the first convolution's
// output.
var (
	// Below the root of eps, 3e-3, a norm's output is ruled by eps.
	varianceRungs = []float64{1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001}
	// Squares of numbers beyond 256 overflow float16.
	amplitudeRungs = []float64{10, 100, 1000}
	// float16's subnormal numbers end at 6.1e-5.
	subnormalRungs = []float64{3e-5, 3e-6}
	// kappa, the ratio of mean to deviation. A one-pass variance in float32 is
	// right up to 10; one in half is off by 30 % there.
	meanRungs = []float64{1, 3, 8}
)

// mostNumber is what no output of any node may exceed: float16 ends at 65504,
// and a device that stores fewer outputs than another overflows later.
const mostNumber = 3e4

// gain returns the standard deviation of the first convolution's output for
// white input of deviation 1, as the root mean square over its channels; 1 for
// operators that begin otherwise.
func (p *prober) gain() float64 {
	n := &p.m.Nodes[0]
	if n.Op != operator.OpConv {
		return 1
	}
	sum := 0.0
	for _, w := range n.Weight.Data {
		sum += float64(w * w)
	}
	if g := math.Sqrt(sum / float64(n.Weight.Shape[0])); g > 0 {
		return g
	}
	return 1
}

// ladders probes the operator as it is.
func (p *prober) ladders() (*probeCase, error) {
	f := &probeCase{name: "ladders"}
	g := p.gain()
	rung := func(name, what string, std float64) error {
		x, err := p.white(len(f.probes) + 1)
		if err != nil {
			return err
		}
		for k := range x {
			x[k] *= std / g
		}
		ok, err := p.holds(x)
		if ok {
			f.add(evidence.Probe{Name: name, Value: std, What: fmt.Sprintf(what, std)}, x)
		}
		return err
	}
	for _, ladder := range []struct {
		name, what string
		rungs      []float64
	}{
		{table.VarianceLadder, "white noise; the first convolution's output has a deviation of %g", varianceRungs},
		{table.AmplitudeLadder, "white noise, large; the first convolution's output has a deviation of %g", amplitudeRungs},
		{table.SubnormalLadder, "white noise, small; the first convolution's output has a deviation of %g, " +
			"subnormal in float16", subnormalRungs},
	} {
		for _, std := range ladder.rungs {
			if err := rung(ladder.name, ladder.what, std); err != nil {
				return nil, err
			}
		}
	}
	if err := p.means(f, g); err != nil {
		return nil, err
	}
	f.add(evidence.Probe{Name: table.Impulse, What: "one pixel of each channel, inside"},
		p.impulses(4/g, func(c int) (h, w int) { return 3*c + 2, 5*c + 3 }))
	f.add(evidence.Probe{Name: table.Impulse, What: "one pixel of each channel, in the corners"},
		p.impulses(4/g, func(c int) (h, w int) {
			return c % 2 * (p.shape.H - 1), (c/2 + c) % 2 * (p.shape.W - 1)
		}))
	f.add(evidence.Probe{Name: table.ConstantChannel, What: "zeros throughout"}, make([]float64, p.elements()))
	one := make([]float64, p.elements())
	for k := range one {
		one[k] = float64(k/(p.shape.H*p.shape.W)+1) / 2
	}
	f.add(evidence.Probe{Name: table.ConstantChannel, Value: 1, What: "each channel constant"}, one)
	return f, nil
}

// means adds white noise about larger and larger means, until a norm's input has one of so many deviations.
func (p *prober) means(f *probeCase, gain float64) error {
	for _, kappa := range meanRungs {
		x, err := p.white(len(f.probes) + 1)
		if err != nil {
			return err
		}
		x, reached, err := p.shifted(x, kappa, gain)
		if err != nil {
			return err
		}
		if x != nil {
			f.add(evidence.Probe{Name: table.MeanLadder, Value: reached, What: fmt.Sprintf("white noise about "+
				"a mean: in the first norm's input means are up to %.3g deviations", reached)}, x)
		}
		if reached < kappa {
			break
		}
	}
	return nil
}

// holds reports whether all numbers stay within mostNumber.
func (p *prober) holds(x []float64) (bool, error) {
	of, err := p.forward(x)
	if err != nil {
		return false, err
	}
	for _, y := range of {
		for _, v := range y.Data {
			if !(math.Abs(v) <= mostNumber) {
				return false, nil
			}
		}
	}
	return true, nil
}

// mostMean is the largest mean of a mean-ladder's input, in its deviations.
const mostMean = 100

// shifted adds the mean to x that gives kappa in the first norm's input, in the
// group where it is greatest, and returns what was reached: zero padding turns
// part of a mean into deviation, and weights may cancel. nil if there is no norm
// that takes its statistics from the image.
func (p *prober) shifted(x []float64, kappa, gain float64) ([]float64, float64, error) {
	at := slices.IndexFunc(p.m.Nodes, func(n operator.Node) bool { return n.Op == operator.OpNorm && n.Norm != "batch" })
	if at < 0 {
		return nil, 0, nil
	}
	n := &p.m.Nodes[at]
	y := make([]float64, len(x))
	lo, hi, reached := 0.0, 2.0*mostMean, 0.0
	for range 30 {
		mean := (lo + hi) / 2
		for k, v := range x {
			y[k] = (v + mean) / gain
		}
		of, err := p.forward(y)
		if err != nil {
			return nil, 0, err
		}
		in := x
		if j := n.In[0]; j != operator.Input {
			in = of[j].Data
		}
		worst, size := 0.0, len(in)/n.Groups
		for g := range n.Groups {
			m, v := measure.Moments(in[g*size : (g+1)*size])
			worst = max(worst, math.Abs(m)/math.Sqrt(v))
		}
		reached = worst
		if mean >= mostMean && worst < kappa {
			return y, reached, nil // more does not help
		}
		if worst > kappa {
			hi = mean
		} else {
			lo = mean
		}
	}
	return y, kappa, nil
}

// impulses returns an image of zeros but for one pixel in each channel.
func (p *prober) impulses(size float64, at func(c int) (h, w int)) []float64 {
	x := make([]float64, p.elements())
	for c := range p.shape.C {
		h, w := at(c)
		x[(c*p.shape.H+h%p.shape.H)*p.shape.W+w%p.shape.W] = size * float64(c+1)
	}
	return x
}

// nonfinite puts a NaN and an infinity into one pixel. After the first norm
// over an image every number of the sample depends on it, so the whole next
// state is NaN; other samples are as they were. Where no norm takes its
// statistics from the image, which pixels are hit depends on the method, as
// Winograd's tiles do: nothing is probed then.
func (p *prober) nonfinite() (*probeCase, error) {
	if !p.spreads() {
		return nil, nil
	}
	f := &probeCase{name: "nonfinite"}
	for k, v := range []float64{0, fp16.NaN, math.Inf(1), 0} {
		x, err := p.white(100 + k)
		if err != nil {
			return nil, err
		}
		what := "finite numbers"
		if v != 0 {
			h, w := p.shape.H/3, p.shape.W/2
			x[h*p.shape.W+w] = v
			what = fmt.Sprintf("%v in channel 0 at (%d,%d)", v, h, w)
		}
		f.add(evidence.Probe{Name: table.Nonfinite, What: what}, x)
	}
	return f, nil
}

// spreads reports whether one number that is none makes all of the output so.
func (p *prober) spreads() bool {
	x := make([]float64, p.elements())
	for k := range x {
		x[k] = float64(k % 7)
	}
	for _, v := range []float64{fp16.NaN, math.Inf(1)} {
		x[p.shape.H/3*p.shape.W+p.shape.W/2] = v
		of, err := p.forward(x)
		if err != nil || !evidence.AllPoison(of[len(of)-1].Data) {
			return false
		}
	}
	return true
}
