// Package fault is the library: the faults that have a name, where each applies and how
// it is made.
package fault

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/oracle/internal/trial"
)

// Library returns all hypotheses. Those that come first are named first where
// two are one and the same.
func Library() []*trial.Fault {
	var l []*trial.Fault
	for _, part := range [][]*trial.Fault{activationFaults(), normFaults(), noiseFaults(), rolloutFaults(), residualFaults(), convFaults(), precisionFaults()} {
		l = append(l, part...)
	}
	for i, h := range l {
		h.Prior = i
	}
	return l
}

// rows has the table by ID.
var rows = func() map[string]trial.Row {
	m := make(map[string]trial.Row, len(table))
	for _, r := range table {
		if _, twice := m[r.ID]; twice {
			panic("fault: two rows are called " + r.ID)
		}
		m[r.ID] = r
	}
	return m
}()

// Named returns a row of the table; args are what its name leaves open, and end its ID.
func Named(id string, args ...any) trial.Row {
	whole := id
	for i, a := range args {
		whole += fmt.Sprintf("%c%v", ":,"[min(i, 1)], a)
	}
	r, ok := rows[whole]
	if !ok {
		if r, ok = rows[id]; !ok {
			panic("fault: no row is called " + id)
		}
		if strings.Contains(r.Name, "%") {
			r.Name = fmt.Sprintf(r.Name, args...)
		}
	}
	r.ID = whole
	return r
}
