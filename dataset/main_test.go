package dataset

import (
	"os"
	"testing"

	"github.com/refrun/refrun/internal/ground/scratch"
)

func TestMain(m *testing.M) {
	scratch.InMemory()
	os.Exit(m.Run())
}
