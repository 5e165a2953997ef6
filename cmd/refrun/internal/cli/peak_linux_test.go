package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestPeakIsOwn: a program that a large process has started says what it takes itself.
func TestPeakIsOwn(t *testing.T) {
	if os.Getenv("REFRUN_PEAK") != "" {
		os.Stdout.WriteString(`{"peak": ` + strconv.FormatInt(PeakBytes(), 10) + `}`)
		os.Exit(0)
	}
	const large = 600 << 20
	ballast := make([]byte, large)
	for i := 0; i < large; i += 4096 {
		ballast[i] = 1
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestPeakIsOwn$")
	cmd.Env = append(os.Environ(), "REFRUN_PEAK=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Peak int64 }
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if said.Peak < 1<<20 || said.Peak > large/2 {
		t.Errorf("%d bytes: want the child's own", said.Peak)
	}
	ballast[0] = 2
}
