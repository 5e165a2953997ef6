package chain

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/tensor"
)

// TestHalfCompilers: a batch norm that is folded into a convolution of a half mode is right of
// recorded layers, whether the convolution left a record or not. A weight of it that is wrong
// is not.
func TestHalfCompilers(t *testing.T) {
	for _, precision := range []string{"float16", "bfloat16"} {
		e, d := rig.LayerExam(t, "autoregressive_batch_relu", precision)
		nodes := e.Machine.Nodes
		norms, isNorm := emulate.Folds(nodes), map[int]bool{}
		for _, j := range norms {
			if isNorm[j] = j > 0; j > 0 {
				for c := range nodes[j].Mean.Data {
					nodes[j].Mean.Data[c], nodes[j].Variance.Data[c] = fp16.Float32.Round(.1*float64(c%3)),
						fp16.Float32.Round(.3+.1*float64(c))
				}
			}
		}
		for _, wrong := range []bool{false, true} {
			o := d
			o.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				switch {
				case norms[i] > 0:
					n := rig.Fold(&nodes[i], &nodes[norms[i]])
					if wrong && i == 0 {
						n.Weight.Data[5] += 0.05
					}
					return o.Convolve(&n, in[0])
				case isNorm[i]:
					return in[0].Clone(), nil
				}
				return nil, nil
			}
			o.Store = append([]fp16.Format(nil), d.Store...)
			for i := range nodes {
				if nodes[i].Op == operator.OpConv && norms[i] > 0 {
					o.Store[i] = fp16.Float64
				}
			}
			for _, without := range [][]string{{"block.0", "block.1"}, {"block.1"}} {
				r := rig.Record(t, e, o, 2, 0).Examine(t, Layers, "2", without...)
				if right := len(r.Findings) == 0; right == wrong {
					t.Errorf("%s, norms folded, without %v, wrong weight %v: findings %v", precision, without, wrong, r.Findings)
				}
				if how := strings.Join(r.Notes, "; "); !wrong && len(without) == 1 &&
					!strings.Contains(how, "batch norm folded into the convolution") {
					t.Errorf("%s: notes %q do not tell", precision, how)
				}
			}
		}
	}
}

// TestSplitNorms: a norm that stores what it has normalized before it is scaled is right of
// recorded layers, whether it left a record or not; one that stores it in a coarser type is not.
func TestSplitNorms(t *testing.T) {
	for _, precision := range []string{"float16", "bfloat16"} {
		e, d := rig.LayerExam(t, "seed_small", precision)
		nodes, first := e.Machine.Nodes, -1
		for i := range nodes {
			if rig.Splits(nodes[i]) {
				if first < 0 {
					first = i
				}
				for c := range nodes[i].Weight.Data {
					nodes[i].Weight.Data[c], nodes[i].Bias.Data[c] = fp16.Float32.Round(.7+.1*float64(c%5)),
						fp16.Float32.Round(.1*float64(c%3))
				}
			}
		}
		for _, wrong := range []bool{false, true} {
			for _, without := range [][]string{nil, {"block.1"}} {
				if (without == nil) != (precision == "float16") || // the long way, once each
					wrong && without != nil && !share.All() { // which is looked for in vain, at length
					continue
				}
				o := d
				o.Store = append([]fp16.Format(nil), d.Store...)
				o.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
					f := e.Mode.Precision
					wrong := wrong && i == first // what is wrong is looked for at length
					switch {
					case !rig.Splits(nodes[i]):
						return nil, nil
					case wrong && f == fp16.Float16:
						f = fp16.BFloat16
					}
					y := e.Machine.SplitNorm(i, f, in[0], nil)
					if wrong && f == e.Mode.Precision { // an ulp up
						for k, v := range y.Data {
							y.Data[k] += f.Ulp(v)
						}
					}
					return y, nil
				}
				if without != nil {
					for i := range nodes {
						if rig.Splits(nodes[i]) {
							o.Store[i] = fp16.Float64
						}
					}
				}
				r := rig.Record(t, e, o, 2, 0).Examine(t, Layers, "2", without...)
				if right := len(r.Findings) == 0; right == wrong {
					t.Errorf("%s, norms split, without %v, wrong %v: findings %v", precision, without, wrong, r.Findings)
				}
				if how := strings.Join(r.Notes, "; "); !wrong && !strings.Contains(how, "before its scale") {
					t.Errorf("%s, without %v: notes %q do not tell", precision, without, how)
				}
			}
		}
	}
}

// TestHalfConstants: the scale of noise may be a half number, and one that is half of it may not.
func TestHalfConstants(t *testing.T) {
	for _, precision := range []string{"float16", "bfloat16"} {
		if !share.All() && precision == "bfloat16" {
			continue
		}
		e, d := rig.LayerExam(t, "seed_small", precision)
		for _, by := range []float64{1, .5} {
			o := d
			o.Replace = func(i int, in []*tensor.Tensor) (*tensor.Tensor, error) {
				n := e.Machine.Nodes[i]
				if !emulate.IsNoise(&n) {
					return nil, nil
				}
				b, err := e.Step(0, 0, 2, 2)
				if err != nil {
					return nil, err
				}
				n.Noise.Scale = by * d.Mode.Precision.Round(n.Noise.Scale)
				y := tensor.New(d.Mode.Precision, in[0].Shape...)
				err = n.Noise.Apply(y, tensor.Of(d.Mode.Precision, in[0].Data, in[0].Shape...), noise.Time{}, b.Draws.Rewind())
				y.Format = fp16.Float64
				return y, err
			}
			r := rig.Record(t, e, o, 2, 0).Examine(t, Layers, "2")
			if right := len(r.Findings) == 0; right != (by == 1) {
				t.Errorf("%s, scale times %v: findings %v", precision, by, r.Findings)
			}
			if how := strings.Join(r.Notes, "; "); by == 1 && !strings.Contains(how, "rounded: the constant of") {
				t.Errorf("%s: notes %q do not tell", precision, how)
			}
		}
	}
}

// TestSignsOfDraws: the sign of a Laplace draw is that of a number of the noise's format, which in float16 may be 0.
func TestSignsOfDraws(t *testing.T) {
	for f, want := range map[fp16.Format]float64{fp16.Float16: 0, fp16.BFloat16: 1.5, fp16.Float32: 1.5} {
		s := &step{block: &noise.Block{Type: noise.Laplace, Scale: .1}}
		d := &emulate.Draws{Kinds: []noise.Kind{noise.Exponential, noise.Normal}, Data: [][]float64{{1.5, 1.5}, {1e-9, -.5}}}
		x, err := s.drawn(graph.Type{Shape: []int{1, 1, 1, 2}, Format: f}, d)
		if err != nil || x.Data[0] != want || x.Data[1] != -1.5 {
			t.Errorf("%v: %v, %v", f, x.Data, err)
		}
	}
}
