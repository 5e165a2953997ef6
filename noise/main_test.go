package noise

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/refrun/refrun/internal/asm"
)

// TestMain runs all tests with the best instruction set of this CPU, then those
// that come to a kernel once for every other. Lists and fuzzing are of no kernel.
func TestMain(m *testing.M) {
	flag.Parse()
	isas := asm.ISAs()
	if flag.Lookup("test.list").Value.String()+flag.Lookup("test.fuzz").Value.String() != "" {
		isas = isas[:1]
	}
	for i, isa := range isas {
		if err := asm.Use(isa); err != nil {
			panic(err)
		}
		if run := flag.Lookup("test.run"); i == 1 && run.Value.String() == "" {
			if err := run.Value.Set("Apply|Blocks|Counter|Dropout|Kernels|TorchNormal"); err != nil {
				panic(err)
			}
		}
		if code := m.Run(); code != 0 {
			fmt.Println("with --isa", isa)
			os.Exit(code)
		}
	}
}
