package quantizer

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
	"github.com/refrun/refrun/tensorcore"
)

// The units of GPUs before Blackwell keep 13 bits of the fraction of FP8 sums: thousands of times coarser than float32,
// and no range that holds them would hold a wrong sum off. So such a product is held to the unit's very bits, in the
// two ways of cuBLAS: K ascending (fast accumulation), or sums of 128 terms that are added in float32. Scales, a bias
// and the output's rounding are judged behind it as any operations are.

// inPieces is how many terms a unit adds before its sum is added to float32 numbers, as cuBLAS and DeepSeek's kernels
// do.
const inPieces = 128

// inUnits are the codes of operands that units take.
var inUnits = map[fp16.Narrow]tensorcore.Input{fp16.E4M3: tensorcore.E4M3, fp16.E5M2: tensorcore.E5M2}

// byUnits is the answer under which a product that is not one of float32 sums is that of a device's units, and what
// they are; nil if it is none's.
func (p *Product) byUnits() (*judge.Report, string, error) {
	in, is := inUnits[p.OfA]
	if !is || p.OfA != p.OfB || p.Store != nil || p.ScaleA.Shape[1] > 1 || p.ScaleB.Shape[0] > 1 {
		return nil, "", nil
	}
	var tried []*tensor.Tensor
	for _, name := range tensorcore.Names() {
		m, err := tensorcore.Lookup(name)
		if err != nil {
			return nil, "", err
		}
		u, err := m.Unit(in, fp16.Float32)
		if err != nil {
			continue // which has none of FP8
		}
		for _, pieces := range []bool{false, true} {
			sums := tensor.New(fp16.Float32, p.Output.Shape...)
			way := name + "'s FP8 units, K ascending"
			if pieces {
				way = fmt.Sprintf("%s's FP8 units, sums of %d added in float32", name, inPieces)
				u.MatMulPart(sums, p.A, p.B, nil, inPieces)
			} else {
				u.MatMul(sums, p.A, p.B, nil, 1)
			}
			if slices.ContainsFunc(tried, func(t *tensor.Tensor) bool { return slices.Equal(t.Data, sums.Data) }) {
				continue
			}
			tried = append(tried, sums)
			q := p.behind(sums)
			q.Brief = true
			if r, err := judge.Check(q); err != nil || r.Verdict == judge.Pass {
				return r, way, err
			}
		}
	}
	return nil, "", nil
}

// behind asks about what follows the sums: scales and a bias.
func (p *Product) behind(sums *tensor.Tensor) judge.Question {
	g := graph.New(nil)
	q := judge.Question{Graph: g, Output: p.Output, Inputs: []*tensor.Tensor{sums}}
	p.scaled(&q, g.Input("product"))
	return q
}
