package forward

import (
	"fmt"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/oracle/lower"
	"github.com/refrun/refrun/tensor"
)

// Claim is the arithmetic that a device says it has.
type Claim struct {
	Mode graph.Mode
	// Pure is a half precision without autocast: weights, inputs and all results are of it, as
	// after module.half(). The mode is then float32, and Half the format.
	Pure bool
	Half fp16.Format
	// native is set for a network that was recorded in that half itself, whose casts are its own.
	native bool
}

// ParseClaim returns the claim of a precision (float64, float32, tf32, float16 or bfloat16) and an autocast:
// cuda or cpu, none for a half precision without, and "" for cuda's.
func ParseClaim(precision, autocast string) (Claim, error) {
	if autocast == "none" {
		f, err := fp16.ParseFormat(precision)
		if err == nil && !f.Half() {
			err = fmt.Errorf("autocast none: precision %v has none: want float16 or bfloat16", f)
		}
		return Claim{Mode: graph.Mode{Precision: fp16.Float32}, Pure: true, Half: f}, err
	}
	m, err := graph.ParseMode(precision, autocast)
	return Claim{Mode: m}, err
}

// Own is the claim that a network makes itself: a half precision throughout, or float64, if most of its results are of
// that type, as in a file that was converted to it; else float32.
func Own(g *graph.Graph, inputs []*tensor.Tensor) Claim {
	claim := Claim{Mode: graph.Mode{Precision: fp16.Float32}}
	types := make([]graph.Type, len(inputs))
	for i, x := range inputs {
		types[i] = graph.Type{Shape: x.Shape, Format: x.Format}
	}
	p, err := g.Infer(claim.Mode, types...)
	if err != nil { // which Check reports
		return claim
	}
	results, of := 0, map[fp16.Format]int{}
	for i := range g.Nodes {
		for _, v := range g.Nodes[i].Out {
			if f := p.Type(v).Format; f != fp16.Int64 {
				results++
				of[f]++
			}
		}
	}
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		if 2*of[f] > results {
			claim.Pure, claim.Half = true, f
		}
	}
	if 2*of[fp16.Float64] > results {
		claim.Mode.Precision = fp16.Float64
	}
	return claim
}

// Given is the mode in which a network is read for a claim: its inputs are float64's if that is claimed.
func (c Claim) Given() graph.Mode {
	if c.Mode.Precision == fp16.Float64 {
		return c.Mode
	}
	return graph.Mode{Precision: fp16.Float32}
}

// String returns the claim's name, such as bfloat16/autocast-cpu or float16/no-autocast.
func (c Claim) String() string {
	if c.Pure {
		return c.Half.String() + "/no-autocast"
	}
	return c.Mode.String()
}

// rules are its roundings.
func (c Claim) rules() lower.Claim {
	return lower.Claim{Mode: c.Mode, Pure: c.Pure, Half: c.Half, Native: c.native}
}
