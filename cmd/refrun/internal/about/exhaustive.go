package about

import (
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/exhaust"
	"github.com/refrun/refrun/internal/op/act"
)

// exhaustiveRow is one set of inputs of selftest --exhaustive.
type exhaustiveRow struct {
	Function string   `json:"function"`
	Inputs   string   `json:"inputs"` // which
	OK       bool     `json:"ok"`
	Count    uint64   `json:"count"`
	Special  uint64   `json:"by_rule"`          // NaN, infinities, zeros; all of relu and none
	Simple   uint64   `json:"by_inequality"`    // where the function is close to x, x/2, 1 or 0
	Double   uint64   `json:"by_double_double"` // with a proven error bound
	Fixed    uint64   `json:"by_fixed_point"`   // of 768 bits
	Wrong    uint64   `json:"wrong"`
	First    []string `json:"first_wrong,omitempty"`
	Seconds  float64  `json:"seconds"`
}

// exhaustive judges every activation on all numbers of the half types and of
// float32, and on a million random float32 numbers by fixed point alone.
func exhaustive(c *cli.Command) (rows []exhaustiveRow, ok bool, err error) {
	ok = true
	for _, f := range act.All() {
		if f == act.Identity {
			continue
		}
		for _, set := range []struct {
			name   string
			format fp16.Format
			random bool
		}{
			{"all float16", fp16.Float16, false}, {"all bfloat16", fp16.BFloat16, false},
			{"a million random float32", fp16.Float32, true}, {"all float32", fp16.Float32, false},
		} {
			if set.random && f == act.ReLU {
				continue // decided by rule everywhere
			}
			p := c.Progress(f.String() + ", " + set.name + ", in units of 1024")
			start := time.Now()
			progress := func(done, total uint64) { p.Step(int(done>>10), int(total>>10)) }
			var r exhaust.Report
			if set.random {
				r, err = exhaust.Random(f, set.format, 1e6, 1, progress)
			} else {
				job := exhaust.All(f, set.format)
				job.Exactly = set.format != fp16.Float32
				r, err = exhaust.Run(job, progress)
			}
			p.Done()
			if err != nil {
				return nil, false, err
			}
			row := exhaustiveRow{Function: f.String(), Inputs: set.name, OK: r.OK(), Count: r.Inputs, Special: r.Special,
				Simple: r.Simple, Double: r.Double, Fixed: r.Fixed, Wrong: r.Wrong + r.Undecided,
				Seconds: time.Since(start).Seconds()}
			for _, m := range r.First {
				row.First = append(row.First, m.String())
			}
			ok = ok && row.OK
			rows = append(rows, row)
			printExhaustive(c, row)
		}
	}
	return rows, ok, nil
}

func printExhaustive(c *cli.Command, row exhaustiveRow) {
	c.Printf("%-9s  %-24s  %10d inputs: "+
		"%d by rule, %d by inequality, %d double-double, %d fixed point; %d wrong or undecided; %.0f s\n",
		row.Function, row.Inputs, row.Count, row.Special, row.Simple, row.Double, row.Fixed, row.Wrong, row.Seconds)
	for _, m := range row.First {
		c.Printf("  %s\n", m)
	}
}
