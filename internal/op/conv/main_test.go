package conv

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/refrun/refrun/internal/asm"
)

// TestMain runs all tests once for every instruction set of this CPU, with its
// kernels wherever they can run.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" { // benchmarks choose for themselves
		os.Exit(m.Run())
	}
	winogradLeast = [2]int{}
	for _, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			panic(err)
		}
		if code := m.Run(); code != 0 {
			fmt.Println("with --isa", isa)
			os.Exit(code)
		}
	}
}

// squareAxis is the axis of n pixels with pad more on either side.
func squareAxis(n, pad int, padding Padding) axis {
	p := Square(1, pad, padding)
	return paddedAxis(n, 1, n+2*pad, &p, 0)
}
