package matmul

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/refrun/refrun/internal/asm"
)

// TestMain runs all tests once for every instruction set of this CPU.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" { // benchmarks choose for themselves
		os.Exit(m.Run())
	}
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
