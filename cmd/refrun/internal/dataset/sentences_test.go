package dataset

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/internal/ground/disk"
)

// scarce is a file system that is nearly full.
type scarce struct{ disk.System }

func (scarce) Free(string) (uint64, bool) { return 1000, true }

// datasetPairs are those of dataset.
func datasetPairs(t *testing.T) []clitest.Pair {
	clitest.DatasetFile(t, 3, 2)
	all := func(args ...string) string { return lines(t, append([]string{"dataset"}, args...)...) }
	dry := all("plan", "spec.yaml", "--dry-run", "--rate", "10")
	for _, dir := range []string{"set", "none"} {
		all("plan", "spec.yaml", "-o", dir, "--rate", "10")
	}
	two := all("plan", "spec.yaml", "-o", "two", "--workers", "2", "--rate", "10")
	restore := disk.Use(scarce{disk.Operating()})
	full := all("plan", "spec.yaml", "-o", "two", "--workers", "2", "--rate", "10")
	restore()
	first := all("run", "set")
	good, whole := all("verify", "set"), all("status", "set")
	if err := os.Remove(filepath.Join("set", "units", "00000", "00000001.safetensors")); err != nil {
		t.Fatal(err)
	}
	bad := all("verify", "set")
	return []clitest.Pair{
		{Says: "3 units made in", Is: first, IsNot: all("run", "set", "--units", "0")},
		{Says: "planned in two; refrun dataset run two makes it", Is: two, IsNot: dry},
		{Says: ", with 2 like it", Is: two, IsNot: dry},
		{Says: "the disk has 1 kB free, less than the files take", Is: full, IsNot: two},
		{Says: "set: ok, 3 units, 0 of them read, 0 made once more", Is: good, IsNot: bad},
		{Says: "unit 1: units/00000/00000001.safetensors: missing", Is: bad, IsNot: good},
		{Says: "about 2 s of one worker left",
			Is: regexp.MustCompile(`about .* of one`).ReplaceAllString(all("status", "none"), "about 2 s of one"), IsNot: whole},
		{Says: "  made in", Is: all("info", "set", "--unit", "1"), IsNot: all("info", "none", "--unit", "1")},
	}
}
