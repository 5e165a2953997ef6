package dataset

import (
	"os"
	"testing"

	"github.com/refrun/refrun/internal/scratch"
)

func TestMain(m *testing.M) {
	scratch.InMemory()
	os.Exit(m.Run())
}
