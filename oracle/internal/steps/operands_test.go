package steps

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/tensor"
)

// TestStepsOperands: a device may run single convolutions in float32,
// or cut off the operands of some and round those of others; not have a number wrong.
func TestStepsOperands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		mode    string
		layers  int
		of      map[string]int // by the end of a convolution's name, in operandModes
		faulty  bool
		pattern string
	}{
		{"1x1 in float32", "tf32", 4, map[string]int{
			".projection": 0, "output_layer.conv": 0, "conv_blocks.0.block.0": 0,
		}, false, "takes float32 operands in conv_blocks.0.block.0, conv_blocks.2.projection, " +
			"conv_blocks.3.projection, output_layer.conv"},
		{"one cut off", "tf32", 2, map[string]int{"conv_blocks.1.block.0": 3}, false,
			"takes tf32:truncate operands in conv_blocks.1.block.0"},
		{"three kinds", "tf32", 2, map[string]int{"conv_blocks.0.block.0": 0, "conv_blocks.1.block.0": 3}, false,
			"takes float32 operands in conv_blocks.0.block.0; tf32:truncate operands in conv_blocks.1.block.0"},
		{"a fault as well", "tf32", 2, map[string]int{"conv_blocks.1.block.0": 3}, true,
			"takes tf32:truncate operands in conv_blocks.1.block.0"},
		{"the ends without autocast", "float16", 2, map[string]int{
			"conv_blocks.0.block.0": 0, "output_layer.conv": 0,
		}, false, "stores conv, norm, act, draw, product, noise, out, share; bias apart; " +
			"takes float32 operands in conv_blocks.0.block.0, output_layer.conv"},
	} {
		b := newDeepStepBench(t, c.mode, "", "instance", c.layers, convex(.4))
		nodes, p := b.gate.e.Machine.Nodes, b.gate.claim
		for i := range nodes {
			for end, k := range c.of {
				if nodes[i].Op == operator.OpConv && strings.HasSuffix(nodes[i].Name, end) {
					p = p.With(k, []int{i}, len(nodes))
				}
			}
		}
		b.device = func(int) *emulate.Device { return b.correct(p, 1) }
		if b.unnamed = c.faulty; c.faulty {
			b.after = func(t int, y *tensor.Tensor) {
				if t == 2 {
					y.Plane(1, 0)[77] += 1
				}
			}
		}
		r := b.check()
		if got := len(r.Findings) > 0; got != c.faulty || r.Pattern != c.pattern {
			t.Errorf("%s: pattern %q, findings %v: want %q, faulty %v", c.name, r.Pattern, r.Findings, c.pattern, c.faulty)
		}
		if want := " with other operands"; !c.faulty && !strings.HasSuffix(r.Contract, want) {
			t.Errorf("%s: contract %q: want %q at its end", c.name, r.Contract, want)
		}
	}
}
