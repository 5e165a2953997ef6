package main

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

var datasetMemory = flag.Int("dataset-memory", 100, "how many operators the larger dataset of TestDatasetMemory has")

// TestDatasetMemory: what a process takes does not grow with the operators, but for the plan and
// an index of it. Datasets of 20 and of many tiny operators are made, verified and merged, and
// the most memory that each process had is compared.
func TestDatasetMemory(t *testing.T) {
	clitest.DatasetFile(t, 0, 2)
	// A line of the plan has some 200 bytes as text, and a record 500; each is held once as text
	// and once read, twice that with what the collector has not taken back yet.
	const each, slack = 4 << 10, 4 << 20
	most := map[int]map[string]int64{}
	for _, n := range []int{20, *datasetMemory} {
		dir := fmt.Sprint("set", n)
		spec := fmt.Sprintf(`{"operators":%d,"operator":{"grid_size":8,"num_layers":0,"base_channels":2,
		"noise_type":"gaussian"},
			"rollout":{"num_timesteps":3,"num_realizations":2},"space":{"operator.noise_scale":{"log":[0.01,0.3]}}}`, n)
		if err := os.WriteFile("spec.json", []byte(spec), 0o666); err != nil {
			t.Fatal(err)
		}
		most[n] = map[string]int64{}
		for _, args := range [][]string{
			{"plan", "spec.json", "-o", dir, "--rate", "10"},
			{"run", dir},
			{"status", dir},
			{"verify", dir, "--read"},
			{"merge", dir, "-o", dir + ".safetensors"},
			{"merge", dir, "-o", dir + ".h5"},
		} {
			p := asCommand(t, append(append([]string{"dataset"}, args...), "--quiet")...)
			if out, err := p.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
			what := args[0]
			if what == "merge" {
				what += args[3][len(dir):]
			}
			most[n][what] = p.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		}
	}
	for what, few := range most[20] {
		many := most[*datasetMemory][what]
		t.Logf("%s: %d MB of 20 operators, %d MB of %d", what, few>>20, many>>20, *datasetMemory)
		if many > few+slack+each*int64(*datasetMemory) {
			t.Errorf("%s: %d bytes of %d operators, %d of 20", what, many, *datasetMemory, few)
		}
	}
}
