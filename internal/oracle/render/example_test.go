package render_test

import (
	"fmt"

	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/oracle/report"
)

// A report as the command prints it.
func Example() {
	fmt.Print(render.Text(&report.Report{
		Verdict: report.FailLogic, Reason: "The device computes another function than this operator.",
		FirstStep: 2, FirstRealization: -1, Subject: "2 convolutions 3x3", Shape: []int{1, 4, 3, 8, 8}, Claim: "float32",
	}))
	// Output:
	// refrun check  2 convolutions 3x3; states [1 4 3 8 8]
	// claim    float32
	// VERDICT  FAIL-LOGIC  first at step 2
	// READ     The device computes another function than this operator.
}
