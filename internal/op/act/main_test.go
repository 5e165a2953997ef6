package act

import (
	"fmt"
	"os"
	"testing"

	"github.com/refrun/refrun/internal/asm"
)

// pass counts the runs of TestMain. Tests of what does not depend on the
// instruction set take other numbers in each.
var pass uint64

// TestMain runs all tests, or benchmarks, once for every instruction set of this
// CPU.
func TestMain(m *testing.M) {
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			panic(err)
		}
		pass++
		if code := m.Run(); code != 0 {
			fmt.Println("with --isa", isa)
			os.Exit(code)
		}
	}
}
