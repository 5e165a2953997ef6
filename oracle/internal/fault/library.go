// Package fault is the library: the faults that have a name, where each applies and how
// it is made.
package fault

import (
	"github.com/refrun/refrun/internal/oracle/table"
	"github.com/refrun/refrun/oracle/internal/trial"
)

// Library returns all hypotheses. Those that come first are named first where
// two are one and the same.
func Library() []*trial.Fault {
	var l []*trial.Fault
	for _, part := range [][]*trial.Fault{
		activationFaults(), normFaults(), noiseFaults(), residualFaults(), convFaults(), precisionFaults(),
	} {
		l = append(l, part...)
	}
	return l
}

// Named returns a row of the table: see [table.Named].
//
// It is called in many places, none of which is hot: a copy in each is code for nothing.
//
//go:noinline
func Named(id string, args ...any) *table.Row { return table.Named(id, args...) }
