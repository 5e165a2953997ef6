package bench

import (
	"bufio"
	"cmp"
	"fmt"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/rollout"
)

// benchLines takes one step for each line, and answers with its seconds on a
// line. The first answer is of the first application of the operator.
func benchLines(c *cli.Command, cs *rollout.Case, f benchFlags) error {
	step, _, _, err := f.stepper(cs, cmp.Or(f.precision, "float32"))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(cli.Stdin)
	for lines.Scan() {
		began := time.Now()
		if err := step(); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.Stdout, "%.9f\n", time.Since(began).Seconds()); err != nil {
			return err
		}
	}
	return lines.Err()
}
