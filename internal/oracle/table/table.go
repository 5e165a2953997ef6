// Package table is the table of faults: what has a name, whoever sees it. How the faults of
// the library are made is package fault.
package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/oracle/report"
)

// A Row is what the library's table says of a fault.
type Row struct {
	ID      string // does not change when Name is put in other words
	Name    string
	Verdict report.Verdict
	Advice  string // where to look, "" if the name says it

	// Rounding says that the fault changes how numbers are rounded. It is seen
	// around the emulation, and a device may round otherwise than claimed and
	// be right: it is only a diagnosis of what other gates found.
	Rounding bool
	// Small faults may hide below the rounding errors: they are looked for in every
	// check, and most that a run could not have shown are listed as blind.
	Small bool
	// TF32 says that TF32 units do this: under a claim of TF32 it is only a diagnosis.
	TF32 bool
	// Probe is the kind of probe that shows a small fault best, "" if none does:
	// probes are steps of the operator alone, without a policy, and some faults
	// are nowhere larger than the errors of correct devices.
	Probe string
	// Needs says what shows a small fault if the claim is float32 or float64 and no
	// probe does.
	Needs string
	// Many is one name for many similar small faults in the list of blind spots. They
	// are looked for in a small operator whose claim is coarser than float32.
	Many  string
	Slow  bool // comes last, or is left out
	Whole bool // acts on several nodes together
}

// Rows returns the table.
func Rows() []Row { return slices.Concat(all, kernels, quantizers, factors) }

// rows has the table by ID.
var rows = func() map[string]Row {
	m := map[string]Row{}
	for _, r := range Rows() {
		if _, twice := m[r.ID]; twice {
			panic("table: two rows are called " + r.ID)
		}
		m[r.ID] = r
	}
	return m
}()

// Named returns a row of the table; args are what its name leaves open, and end its ID.
func Named(id string, args ...any) *Row {
	whole := id
	for i, a := range args {
		whole += fmt.Sprintf("%c%v", ":,"[min(i, 1)], a)
	}
	r, ok := rows[whole]
	if !ok {
		if r, ok = rows[id]; !ok {
			panic("table: no row is called " + id)
		}
		if strings.Contains(r.Name, "%") {
			r.Name = fmt.Sprintf(r.Name, args...)
		}
	}
	r.ID = whole
	return &r
}

// ByID returns the row of an ID with what ends it, as [Named] made it. Without a row of its
// own, its name may have one %s or %v, but no other verb: what ends an ID is text.
func ByID(id string) *Row {
	if r, ok := rows[id]; ok {
		return &r
	}
	base, rest, _ := strings.Cut(id, ":")
	return Named(base, rest)
}
