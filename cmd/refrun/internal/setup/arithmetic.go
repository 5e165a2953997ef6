package setup

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/rollout"
)

// Arithmetic is what --precision, --autocast and --arith say; "" is what the case says.
type Arithmetic struct{ Precision, Autocast, Arith string }

// ArithFlag declares --arith.
func ArithFlag(c *cli.Command, to *string) {
	c.Flags.StringVar(to, "arith", "", "`contract` of float32: exact, each operation rounded once, or fast, "+
		"float32 operations in a written order (default what --precision says, exact)")
}

// Named returns a precision with the contract that --arith asks for.
func (a Arithmetic) Named(precision string) (string, error) {
	name, _, _ := strings.Cut(precision, ":")
	switch {
	case a.Arith != "" && a.Arith != "exact" && a.Arith != "fast":
		return "", fmt.Errorf("--arith: %.60q: want exact or fast", a.Arith)
	case a.Arith == "fast" && name != "float32":
		return "", fmt.Errorf("--arith: fast: %.60s has no such arithmetic: want float32", precision)
	case a.Arith == "fast":
		return "float32:fast", nil
	case a.Arith == "exact" && name == "float32":
		return name, nil
	}
	return precision, nil
}

// Mode returns the mode for a case, and the precision that was asked for.
// Where an autocast leaves the release open, it is that of the PyTorch which
// recorded the case.
func (a Arithmetic) Mode(cs *rollout.Case) (m graph.Mode, requested string, err error) {
	requested, field := cs.Rollout.Precision, cs.File+": rollout.precision"
	if a.Precision != "" {
		requested, field = a.Precision, "--precision"
	}
	if requested, err = a.Named(requested); err != nil {
		return m, requested, err
	}
	precision, rules, err := a.parts(cs, requested)
	if err != nil {
		return m, requested, fmt.Errorf("%s: %w", field, err)
	}
	switch half := strings.HasSuffix(precision, "float16"); { // or bfloat16
	case rules != "":
		field = "--autocast"
	case half:
		rules = cmp.Or(cs.Rollout.Autocast, "cuda")
	}
	if v := cs.Torch.Version; (rules == "cuda" || rules == "cpu") && v != "" {
		switch {
		case strings.HasPrefix(v, "1.13"):
			rules += ":1.13"
		case strings.HasPrefix(v, "2."):
			rules += ":2.x"
		default:
			return m, requested, fmt.Errorf("%s: torch.version: %q: want a 1.13 or 2.x version, "+
				"or --autocast %s:1.13 or %s:2.x", cs.File, v, rules, rules)
		}
	}
	if m, err = graph.ParseMode(precision, rules); err != nil {
		return m, requested, fmt.Errorf("%s: %w", field, err)
	}
	return m, requested, nil
}

// parts takes a mode's name apart, such as float16/autocast-cuda/state-float16, as reports
// write it. The state is the case's from then on.
func (a Arithmetic) parts(cs *rollout.Case, name string) (precision, rules string, err error) {
	precision, rest, more := strings.Cut(name, "/")
	rules = a.Autocast
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if autocast, ok := strings.CutPrefix(part, "autocast-"); ok && a.Autocast == "" {
			rules = autocast
			continue
		}
		state, ok := strings.CutPrefix(part, "state-")
		if !ok || precision == "float64" {
			return "", "", fmt.Errorf("%.60q: want a precision, and behind a slash autocast-RULES or, but "+
				"of float64, state-FORMAT, such as float16/state-float16", name)
		}
		if err := rollout.CheckState(state); err != nil {
			return "", "", fmt.Errorf("%.60q: state %w", name, err)
		}
		cs.Rollout.State = state
	}
	return precision, rules, nil
}
