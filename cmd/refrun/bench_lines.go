package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/refrun/refrun/rollout"
)

// stdin is what bench --lines and kernel --batch - read.
var stdin io.Reader = os.Stdin

// benchLines takes one step for each line, and answers with its seconds on a
// line. The first answer is of the first application of the operator.
func (c *command) benchLines(cs *rollout.Case, f benchFlags) error {
	step, _, _, err := f.stepper(cs, cmp.Or(f.precision, "float32"))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		began := time.Now()
		if err := step(); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.stdout, "%.9f\n", time.Since(began).Seconds()); err != nil {
			return err
		}
	}
	return lines.Err()
}
