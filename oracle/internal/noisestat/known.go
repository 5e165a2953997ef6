package noisestat

import (
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/oracle/internal/emulate"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/oracle/report"
)

// slopes regresses what the noise made of a few states on what the specified
// noise should have made of them: slope 1 is right, 0 another stream, the root
// of 2 a wrong scale. It judges nothing: a step with a wrong noise is a wrong
// step, and gate 6 says what the noise of such a step is.
func (e *gate) slopes() error {
	const most = 2
	s := e.States
	every := max(1, (s.T-1)/most)
	var rn, nn, rr float64
	count := 0
	for t := 1; t < s.T && !e.Late("slope of the noise"); t += every {
		b, err := e.StepWith((t/every)%s.M, t)
		if err != nil {
			return err
		}
		p, err := e.Apply(&emulate.Device{Mode: e.Mode}, b.X, b.Draws.Rewind())
		if err != nil {
			return err
		}
		with := p.Next(p.Out)
		without, err := p.Step(nil)
		if err != nil {
			return err
		}
		for i, v := range with.Data {
			n, r := v-without.Data[i], b.Got[i]-v
			if !measure.Finite(r) {
				continue
			}
			rn += float64(r * n)
			nn += float64(n * n)
			rr += float64(r * r)
			count++
		}
	}
	if !(nn > 0) || count < 2 {
		return nil
	}
	c := rn / nn
	spread := math.Sqrt(max(rr-float64(c*rn), 0) / float64(count) / nn)
	z := measure.Ratio(c, spread)
	near := 0.01
	if e.Mode.Output().Ulp(1) > 1e-4 {
		near = 0.1 // a half type swallows a part of noise that is smaller than its steps
	}
	e.Report.Noise.Tests = append(e.Report.Noise.Tests, report.NoiseTest{Name: "slope on the specified noise",
		Value: diff.Number(1 + c), Want: 1, Z: diff.Number(z), OK: math.Abs(c) < near || math.Abs(z) < 8})
	return nil
}
