package probe

import (
	"bytes"

	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/safetensors"
)

// integers probes the indices: with integer inputs and weights, these times a
// power of two, the sums of the first convolution (of all nodes, if no norm or
// curved activation comes between) are added without error in float32, in any
// order, and a wrong index is a wrong number. The power of two makes the sums
// about as large as 1, so that a norm's eps is not lost in var + eps.
//
// Where a norm follows the first convolution, its last two channels read the
// first three input channels with weights w, 2^-k v and -w. In the accumulator
// probe the first channel and the third are equal, and the sum is 2^-k times that
// of v and the second; an accumulator of a half type has lost it against w's. It
// is for half precisions: beside float32's roundings it would show how Winograd's
// method cancels, which is no fault.
func (p *prober) integers() (*probeCase, error) {
	for _, every := range []int{1, 2, 4, 16, 64} { // of the weights that are not 0
		f := p.integerCase(every)
		fields := min(16, max(2, 1<<13/p.elements()+1)) // statistics want some thousand numbers
		for k := range fields {
			f.add(evidence.Probe{Name: table.IntegerFill, What: "integers from -3 to 3"}, p.integerField(k))
		}
		x := p.integerField(fields)
		if hw := p.shape.H * p.shape.W; p.accumulates() {
			copy(x[2*hw:3*hw], x[:hw])
			f.add(evidence.Probe{Name: table.AccumulatorSum, What: "integers; channel 2 is channel 0"}, x)
		}
		q, err := p.with(f.weights)
		if err != nil {
			return nil, err
		}
		fits := true
		for m := range f.probes {
			n := p.elements()
			ok, err := q.holds(f.inputs[m*n : (m+1)*n])
			if err != nil {
				return nil, err
			}
			fits = fits && ok
		}
		if fits {
			return f, nil
		}
	}
	return nil, nil
}

// accumulates reports whether the first convolution can hold the accumulator
// probe.
func (p *prober) accumulates() bool {
	n, precision := p.m.Nodes, p.c.Rollout.Precision
	return (precision == "float16" || precision == "bfloat16") && len(n) > 1 && n[0].Op == operator.OpConv &&
		n[0].Weight.Shape[0] >= 4 && n[0].Weight.Shape[1] >= 3 && n[1].Op == operator.OpNorm && n[1].Norm != "batch"
}

// integerField returns integers from -3 to 3.
func (p *prober) integerField(k int) []float64 {
	x := make([]float64, p.elements())
	for i := range x {
		x[i] = float64(int(measure.Mix64(uint64(k)<<40|uint64(i))%7) - 3)
	}
	return x
}

// integerCase has integer weights from -2 to 2, one in so many not 0, times a
// power of two for each convolution.
func (p *prober) integerCase(every int) *probeCase {
	f := &probeCase{name: "integers", weights: map[string][]float64{}}
	fill := func(w *operator.Param, of func(i int) float64) {
		if w == nil {
			return
		}
		v := make([]float64, len(w.Data))
		for i := range v {
			v[i] = of(i)
		}
		f.weights[w.Name] = v
	}
	value := func(c float64) func(int) float64 { return func(int) float64 { return c } }
	for at := range p.m.Nodes {
		n := &p.m.Nodes[at]
		scale := 1.0
		if n.Op == operator.OpConv {
			terms := float64(len(n.Weight.Data)) / float64(n.Weight.Shape[0]*every)
			for 8*terms*scale*scale > 1 { // variances: of the weights 2, of the inputs 4
				scale /= 2
			}
		}
		small := func(i int) float64 {
			r := measure.Mix64(uint64(at+1)<<40 | uint64(i))
			if int(r>>32)%every != 0 {
				return 0
			}
			return float64(int(r%5)-2) * scale
		}
		switch n.Op {
		case operator.OpConv:
			fill(n.Weight, small)
			fill(n.Bias, small)
		case operator.OpNorm:
			fill(n.Weight, value(1))
			fill(n.Bias, value(0))
			fill(n.Mean, value(0))
			fill(n.Variance, value(1))
		}
	}
	for _, w := range p.op.Params() {
		if isScale(w.Name) {
			fill(w, value(0))
		}
	}
	if p.accumulates() {
		n := &p.m.Nodes[0]
		s := n.Weight.Shape
		w, taps := f.weights[n.Weight.Name], s[2]*s[3]
		for k, o := range []int{s[0] - 2, s[0] - 1} {
			part, of := []float64{0x1p-4, 0x1p-7}[k], w[o*s[1]*taps:(o+1)*s[1]*taps]
			clear(of[3*taps:])
			for i := range taps {
				of[taps+i] *= part
				of[2*taps+i] = -of[i]
			}
		}
	}
	return f
}

// with returns a prober of the operator with other weights.
func (p *prober) with(weights map[string][]float64) (*prober, error) {
	all, err := p.weights(weights)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		return nil, err
	}
	f, err := safetensors.Parse("probe weights", b.Bytes())
	if err != nil {
		return nil, err
	}
	q := *p
	if q.op, err = operator.Load(p.op.Config, f); err != nil {
		return nil, err
	}
	q.m = emulate.New(q.op, p.c.Rollout)
	return &q, nil
}
