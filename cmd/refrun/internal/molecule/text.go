package molecule

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/molecule"
)

// moleculeText says the report in words.
func moleculeText(r *moleculeReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s of %s\nmode %s, contract %s\n\n",
		fault.Printable(r.Network), cli.Plural(len(r.Molecules), "molecule"), fault.Printable(r.File), r.Mode, r.Contract)
	fmt.Fprintf(&b, "  molecule            atoms           energy    largest force\n")
	for k, m := range r.Molecules {
		if k == 20 && len(r.Molecules) > 25 {
			fmt.Fprintf(&b, "  and %d more, which --json and -o have\n", len(r.Molecules)-k)
			break
		}
		fmt.Fprintf(&b, "  %-18s %6d %16s %16s\n",
			fault.Printable(m.Formula), m.Atoms, orNaN(m.Energy, "%.9g"), orNaN(m.Force, "%.4g"))
	}
	symmetriesText(&b, r)
	if c := r.Check; c != nil {
		checkText(&b, c)
	}
	return b.String()
}

// orNaN writes a number that may be absent.
func orNaN(v *float64, format string) string {
	if v == nil {
		return "NaN or infinite"
	}
	return fmt.Sprintf(format, *v)
}

func symmetriesText(b *strings.Builder, r *moleculeReport) {
	if len(r.Symmetries) > 0 {
		fmt.Fprintf(b, "\n  symmetry of the first, in float64    energy   forces    limit   (relative)\n")
	}
	for _, s := range r.Symmetries {
		switch {
		case s.Open != "":
			fmt.Fprintf(b, "  -    %-30s not tested: %s\n", s.Name, s.Open)
		default:
			verdict := "ok"
			if !s.Holds {
				verdict = "FAIL"
			}
			fmt.Fprintf(b, "  %-4s %-30s %8s %8s %8s\n", verdict, s.Name, cli.Num(s.Energy), cli.Num(s.Forces),
				limitText(s.Limit))
		}
	}
	if len(r.Overwritten) > 0 {
		fmt.Fprintf(b, "\n%s put several numbers to one place, where the last one stays: %s.\n",
			cli.Plural(len(r.Overwritten), "node"),
			fault.Printable(strings.Join(r.Overwritten[:min(len(r.Overwritten), 4)], ", ")))
		if p := r.Permuted; p != nil && *p < 1e-9 {
			fmt.Fprintf(b, "With all of them added up, atoms in another order change the energy by %s of it only:\n"+
				"the export has lost a scatter's reduction. Want opset 16 or newer, with reduction=add.\n",
				cli.Num(diff.Number(*p)))
		}
	}
	if len(r.NoKernel) > 0 {
		fmt.Fprintf(b, "\nONNX Runtime does not load this file on a CPU: it has no kernel for %s.\n",
			fault.Printable(strings.Join(r.NoKernel[:min(len(r.NoKernel), 4)], ", ")))
	}
}

func limitText(v diff.Number) string {
	if v == 0 {
		return "0 bits"
	}
	return cli.Num(v)
}

func checkText(b *strings.Builder, c *molecule.Report) {
	fmt.Fprintf(b, "\nthe device, which claims %s, beside float64\n", c.Claim)
	if len(c.Unjudged) > 0 {
		fmt.Fprintf(b, "  not judged, since the file has none: %s\n", cli.Short(c.Unjudged))
	}
	fmt.Fprintf(b, "                     RMS error    right devices'      RMS size    largest error\n")
	for _, v := range c.Of {
		fmt.Fprintf(b, "  %-8s %-8s %11s   at most %7s   %11s      %11s, of molecule %d",
			v.Quantity, v.Verdict, cli.Num(v.RMS), cli.Num(v.Limit), cli.Num(v.Size), cli.Num(v.Worst), v.At[0])
		if v.Quantity == "forces" {
			fmt.Fprintf(b, ", atom %d", v.At[1])
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "%s", c.Verdict)
	switch {
	case c.Fault != "":
		fmt.Fprintf(b, ": %s", c.Fault)
	case c.Verdict == molecule.Fail:
		fmt.Fprintf(b, ": by no fault that is known here")
	case c.Verdict == molecule.NoPower && len(c.Unjudged) > 0:
		fmt.Fprintf(b, ": not all that the network returns was judged")
	case c.Verdict == molecule.NoPower:
		fmt.Fprintf(b, ": right devices of this precision differ by as much as the numbers are")
	}
	fmt.Fprintln(b)
}
