package chain

import (
	"fmt"
	"math"

	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/evidence"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/tensor"
)

// What was recorded is held against the states, too: the operator's input is the state before, and modules that hand
// an output on do not change it.

// layerInput compares the file's input with the state before its step, both
// in the coarser of their formats. It returns whether the numbers are equal. An
// input may also be the initial condition before post-processing; another
// state of the trajectory, or none, is a fault of the rollout, if the file says
// of which step it is.
func (e *layers) layerInput(l *evidence.LayerFile) bool {
	n, s := l.Input.N(), e.States
	if l.Step >= s.T || l.Realization+n > s.M || l.Input.H() != s.H || l.Input.W() != s.W || l.Input.C() != s.C {
		return false
	}
	at := func(t int) bool {
		for i := range n {
			state := s.At(l.Realization+i, t)
			for k, v := range l.Input.Samples(i, i+1).Data {
				if x := state[k]; l.Input.Format.Round(x) != v && s.Format.Round(v) != x && (v == v || x == x) {
					return false
				}
			}
		}
		return true
	}
	if at(l.Step - 1) {
		return true
	}
	if !l.Dated || l.Alone || l.Step == 1 && e.isStart(l) {
		return false
	}
	text := fmt.Sprintf("the operator's input at step %d is not the state before it", l.Step)
	for t := range s.T {
		if t != l.Step-1 && at(t) {
			text += fmt.Sprintf(", but the one at %d", t)
			break
		}
	}
	e.Find(report.Finding{Verdict: report.FailRollout, Gate: "bound", Step: l.Step, Realization: l.Realization,
		Excess: diff.Number(math.Inf(1)), Text: text})
	return false
}

// isStart reports whether the input is the recorded initial condition.
func (e *layers) isStart(l *evidence.LayerFile) bool {
	if e.Case.Trajectory == nil {
		return false
	}
	x0, shape, err := e.Case.ReadStart()
	if err != nil {
		return false
	}
	size := shape.C * shape.H * shape.W
	for i := range l.Input.N() {
		from := x0
		if len(x0) > size {
			from = x0[(l.Realization+i)*size:][:size]
		}
		for k, v := range l.Input.Samples(i, i+1).Data {
			if l.Input.Format.Round(from[k]) != v && (v == v || from[k] == from[k]) {
				return false
			}
		}
	}
	return true
}

// handedOn holds modules that only hand an output on to the output.
func (e *layers) handedOn(l *evidence.LayerFile, n *operator.Node, got *tensor.Tensor) {
	names := append([]string(nil), n.Also...)
	for _, name := range append(names, "output") {
		x := l.Also[name]
		if x == nil || name == "output" && n != &e.Machine.Nodes[len(e.Machine.Nodes)-1] {
			continue
		}
		coarse := got.Format
		if x.Format.Bytes() < coarse.Bytes() {
			coarse = x.Format
		}
		for k, v := range x.Data {
			if a, b := coarse.Round(v), coarse.Round(got.Data[k]); a != b && (a == a || b == b) {
				e.Find(report.Finding{
					Verdict: report.FailLogic, Gate: "bound", Step: l.Step,
					Realization: l.Realization + k/(x.C()*x.H()*x.W()), Layer: name, Excess: diff.Number(math.Inf(1)),
					Text: fmt.Sprintf("%s hands %s on and changes it: element %d is %v, want %v",
						name, n.Name, k, v, got.Data[k]),
				})
				break
			}
		}
	}
}
