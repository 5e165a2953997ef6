package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/internal/oracle/factor"
	"github.com/refrun/refrun/tensor"
)

// factorReport is what the --json of a factorization prints.
type factorReport struct {
	*factor.Report
	Text string `json:"text"` // what is printed for people
}

// judgeFactor reads what a factorization, or a solver, has read and returned, and judges it.
func judgeFactor(c *cli.Command, path string, a judged) error {
	attributes, err := attributesOf(a.attributes)
	if err != nil {
		return err
	}
	s, err := factor.Parse(a.op, attributes)
	if err != nil {
		return fmt.Errorf("--attr: %w", err)
	}
	tensors, names, err := readTensors(path)
	if err != nil {
		return err
	}
	q := factor.Question{Spec: s}
	for _, of := range s.Inputs() {
		t := anyOf(tensors, of)
		if t == nil {
			return fmt.Errorf("%s: no tensor %.60q: want it beside %.200q", path, of[0], names)
		}
		q.Inputs = append(q.Inputs, t)
	}
	wanted := s.Outputs()
	for k, of := range wanted {
		known := []string{a.output + "." + strconv.Itoa(k)}
		for _, n := range of {
			known = append(known, a.output+"."+n)
		}
		if len(wanted) == 1 {
			known = slices.Insert(known, 0, a.output)
		}
		t := anyOf(tensors, known)
		if t == nil {
			return fmt.Errorf("%s: no tensor %.60q: want it beside %.200q", path, known[len(known)-len(of)], names)
		}
		q.Outputs = append(q.Outputs, t)
	}
	r, err := factor.Check(q)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.Ci.Rule = r.FaultID
	all := &factorReport{r, factorText(r)}
	return printJudged(c, all, all.Text, r.Verdict, a.report)
}

// anyOf is the first tensor that there is under one of the names.
func anyOf(tensors map[string]*tensor.Tensor, names []string) *tensor.Tensor {
	for _, n := range names {
		if t := tensors[n]; t != nil {
			return t
		}
	}
	return nil
}

// factorText is a report for people.
func factorText(r *factor.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s to %s: %s\n", r.Verdict, r.Op, r.Store, matrices(r.Matrices))
	if r.Reason != "" {
		b.WriteString(indented(r.Reason))
	}
	if r.Fault != "" {
		b.WriteString(indented("fault: " + r.Fault))
		b.WriteString(indented("to do: " + r.Advice))
	}
	if r.Unjudged > 0 && r.Verdict != factor.NoPower {
		b.WriteString(indented(fmt.Sprintf("not judged: %s without a right output", matrices(r.Unjudged))))
	}
	for _, o := range r.Outputs {
		b.WriteString(claimText(o))
	}
	return b.String()
}

// matrices counts them.
func matrices(n int) string {
	if n == 1 {
		return "1 matrix"
	}
	return fmt.Sprint(n, " matrices")
}

// claimText is a row of the report.
func claimText(o factor.Claim) string {
	if o.Violations == 0 {
		text := fmt.Sprintf("%s: all %d hold", o.Name, o.Elements)
		if o.Largest > 0 {
			text += fmt.Sprintf(", the largest error is %.2g of what it may be", o.Largest)
		}
		return indented(text)
	}
	text := indented(fmt.Sprintf("%s: %d of %d do not hold", o.Name, o.Violations, o.Elements))
	if o.Proved > 0 {
		text += indented(fmt.Sprintf("proved: %d are beyond the bound of sums in any order", o.Proved))
	}
	where := fmt.Sprintf("first at %v", o.Worst.Index)
	if w := o.Worst; w.Limit > 0 {
		where = fmt.Sprintf("most at %v: off by %.3g, right kernels by %.3g at most", w.Index, w.Error, w.Limit)
	}
	return text + indented(where)
}
