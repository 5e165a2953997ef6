package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// TestUnreadable: a file that may not be read is refused like any other.
func TestUnreadable(t *testing.T) {
	clitest.InFolder(t, clitest.Config)
	for _, name := range []string{"x.safetensors", "x.npy", "x.npz", "x.h5"} {
		if err := os.WriteFile(name, nil, 0o000); err != nil {
			t.Fatal(err)
		}
		asNobody(t, func() {
			refrun(t, "compare", name, name).Refused(t, "compare", name+": permission denied: want ...")
			refrun(t, "run", "--config", "run.yaml", "--x0", "zeros", "-o", name, "--resume").Refused(t, "run",
				name+": permission denied: want a file that can be read")
		})
	}
}

// asNobody runs, as a user without rights, what root would be allowed.
func asNobody(t *testing.T, run func()) {
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := syscall.Seteuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer syscall.Seteuid(0)
	}
	run()
}
