package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/refrun/refrun/tensor"
)

// Profile returns the time of each pass of an application, with the operations in it.
func (p *Plan) Profile(out, in []*tensor.Tensor) (lines []string) {
	copy(p.given, in)
	copy(p.wanted, out)
	for k, x := range p.passes {
		began := time.Now()
		x.run(p)
		took := time.Since(began)
		var names []string
		flops := int64(0)
		for _, n := range p.nodes {
			if n.Pass == k {
				names = append(names, n.Name+": "+n.Op+", "+n.Kernel)
				flops += n.FLOPs
			}
		}
		lines = append(lines, fmt.Sprintf("%4d %8.3f ms %6.1f GFLOP/s %s",
			k, took.Seconds()*1e3, float64(flops)/took.Seconds()/1e9, strings.Join(names, "; ")))
	}
	return lines
}
