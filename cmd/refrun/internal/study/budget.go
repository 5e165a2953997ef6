package study

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/study"
)

// A budget is how far a path may be from the reference, as the root mean square of the differences over the std of the
// reference's state, at every step that is asked about. A study with a budget decides of each arithmetic whether it
// keeps to it. If one does not, the twin whose start is moved by 1e-6 says whether that is the arithmetic's doing.

var budgetForm = regexp.MustCompile(`^\s*([0-9.eE+-]+)\s*(?:(%)\s*(?:of\s+(?:the\s+)?std)?|of\s+(?:the\s+)?std)\s*$`)

// budget reads "1 % of std" or "0.01 of std".
func budget(text string) (diff.Number, error) {
	want := fmt.Errorf(`--budget: %.60q: want a share of the std, such as "1 %% of std" or "0.01 of std"`, text)
	m := budgetForm.FindStringSubmatch(text)
	if m == nil {
		return 0, want
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil || !(v > 0) || v > 1e6 {
		return 0, want
	}
	if m[2] != "" {
		v /= 100
	}
	return diff.Number(v), nil
}

// studyDecision says whether an arithmetic keeps to the budget, with all operators.
type studyDecision struct {
	Twin string `json:"twin"`
	Good bool   `json:"good"`
	// Worst is the greatest distance of a path, at Step; of one that leaves the budget, the first beyond it.
	Worst diff.Number `json:"rms_over_std"`
	Step  int         `json:"step"`
}

// decide asks each arithmetic, and the start moved by 1e-6.
func (r *studyReport) decide() (all []studyDecision) {
	for _, row := range r.Rows {
		if row.Twin != study.Other && row.Twin != "float64" {
			all = append(all, r.keeps(row.Twin))
		}
	}
	return all
}

// keeps asks one twin.
func (r *studyReport) keeps(twin string) studyDecision {
	d := studyDecision{Twin: twin, Good: true}
	for t := range r.Steps {
		for _, o := range r.Operators {
			if x := o.Twin(twin).Path[t].RMSOverStd; d.Step == 0 || !(x <= d.Worst) {
				d.Worst, d.Step = x, t+1
			}
		}
		if d.Good = d.Worst <= *r.Budget; !d.Good {
			break
		}
	}
	return d
}

// decided are the answers, and why some are no.
func (r *studyReport) decided() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nIs it within %s of the std at each of %s?\n\n", percent(*r.Budget), cli.Plural(r.Steps, "step"))
	var moved studyDecision
	all := true
	for _, d := range r.Decisions {
		if d.Twin == study.Moved {
			moved = d
			continue
		}
		one := percent(r.row(d.Twin).OneStep.RMSOverStd)
		if d.Good {
			fmt.Fprintf(&b, "%-15s yes: at most %s away, at step %d; one step %s\n", d.Twin, percent(d.Worst), d.Step, one)
		} else {
			fmt.Fprintf(&b, "%-15s no: %s away at step %d; one step %s\n", d.Twin, percent(d.Worst), d.Step, one)
		}
		all = all && d.Good
	}
	switch {
	case all:
	case moved.Good:
		b.WriteString("\n" + cli.Wrap("A start moved by 1e-6 stays within it: what is beyond it is what the steps of that "+
			"arithmetic add up to.", 0))
	default:
		b.WriteString("\n" + cli.Wrap(fmt.Sprintf("A start moved by 1e-6 is beyond it too, from step %d on: the end of such "+
			"a path says nothing about arithmetic. Compare single steps and statistics.", moved.Step), 0))
	}
	return b.String()
}

// percent formats a share.
func percent(x diff.Number) string { return num3(100*x) + " %" }
