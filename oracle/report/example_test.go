package report_test

import (
	"fmt"

	"github.com/refrun/refrun/oracle/report"
)

// Verdicts and the exit codes of the command.
func Example() {
	for _, v := range []report.Verdict{report.PassAccurate, report.FailLogic, report.NoPower} {
		fmt.Println(v, v.Passed(), v.Failed(), v.Code())
	}
	// Output:
	// PASS-ACCURATE true false 0
	// FAIL-LOGIC false true 1
	// NO-POWER false false 3
}
