package emulate

import (
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/operator"
)

// AddedHow is the other way to write multiplicative noise of draws n and scale s:
// x + x (n s) has no rounding of 1 + n s, which in a half type is coarser than most of n s.
const AddedHow = "as x + x n"

// PyTorch's CPU keeps the statistics of a norm in the type of its parameters,
// and of its input where it has none, as an InstanceNorm2d has by default: under
// autocast to a half type f, with sums in float32 over the N numbers of a plane,
//
//	bfloat16   m = f(mean), q = f(sum (x-mean)^2), v = f(q/f(N)), r = f(1/sqrt(v+eps))
//	float16    m = f(mean), r = f(1/sqrt(var+eps))
//	           y = f(x (r w) + (b - m (r w))), w and b the parameters, 1 and 0 if there are none
//
// (batch_norm_cpu_update_stats_template in ATen/native/Normalization.cpp, which
// an instance norm calls with its planes as channels.)

// PlainNorms reports for each node whether it is such a norm in a mode. The parameters are of
// the half type where all of the operator's are such numbers, as after module.half().
func PlainNorms(c operator.Config, nodes []operator.Node, m graph.Mode) []bool {
	of := make([]bool, len(nodes))
	if m.Autocast != graph.CPU2 {
		return of
	}
	half := !slices.ContainsFunc(nodes, func(n operator.Node) bool {
		return slices.ContainsFunc([]*operator.Param{n.Weight, n.Bias},
			func(p *operator.Param) bool { return p != nil && !holds(m.Precision, p.Data) })
	})
	plain := map[string]bool{}
	for i := range c.Nodes {
		plain[c.Nodes[i].Name] = c.Nodes[i].NoAffine
	}
	for i := range nodes {
		of[i] = nodes[i].Op == operator.OpNorm && nodes[i].Norm == "instance" && (half || plain[nodes[i].Name])
	}
	return of
}
