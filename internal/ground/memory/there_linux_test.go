package memory

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestThere: of the machine and of all control groups the least counts, of both versions, of a
// group and those above it; what others have of it is not there, what files have is.
func TestThere(t *testing.T) {
	const page, meminfo = 4096, "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"
	if os.Getpagesize() != page {
		t.Skip("pages of another size")
	}
	base := map[string]string{"proc/meminfo": meminfo, "proc/self/statm": "50000 1000 500 1 0 1 0\n"}
	const mine = 1000 * page
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
		whose string
	}{
		{"nothing is known", map[string]string{"proc/meminfo": ""}, 0, ""},
		{"a machine", nil, 8000000<<10 + mine, "machine"},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"},
			8000000<<10 + mine, "machine"},
		{"version 2", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000000000\n",
		}, 1000000000, "/a/b"},
		{"version 2, used by others", map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1000000000\n", "sys/fs/cgroup/a/b/memory.current": "304096000\n",
			"sys/fs/cgroup/a/b/memory.stat": "anon 204096000\nfile 100000000\n",
		}, 1000000000 - (304096000 - 100000000 - mine), "/a/b"},
		{"version 2, a group above", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max": "700000000\n",
		}, 700000000, "group /a has"},
		{"version 2, in a container", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "600000000\n",
		}, 600000000, "group / has"},
		{"version 1", map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/a\n0::/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "500000000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n"}, 500000000, "group /a has"},
		{"version 1, in a container that names its host's group", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "400000000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "300000000\n",
			"sys/fs/cgroup/memory/memory.stat":           "cache 1\ntotal_cache 290000000\n",
		}, 400000000 - (10000000 - mine), "group / has"},
		{"others have it all", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "1000000\n", "sys/fs/cgroup/a/memory.current": "90000000\n"}, 1, "/a"},
	} {
		root := t.TempDir()
		for _, files := range []map[string]string{base, c.files} {
			for name, text := range files {
				name = filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, whose := there(root); got != c.want || !strings.Contains(whose, c.whose) {
			t.Errorf("%s: %d, %q: want %d of %q", c.name, got, whose, c.want, c.whose)
		}
	}
	if n := There(); n < 1<<20 {
		t.Errorf("%d bytes here", n)
	}
	if err := Fits(math.MaxInt64); err == nil ||
		!strings.HasPrefix(err.Error(), "takes more than 9.22 EB of memory: want at most ") {
		t.Errorf("%v", err)
	}
	if err := Fits(1 << 20); err != nil {
		t.Error(err)
	}
}
