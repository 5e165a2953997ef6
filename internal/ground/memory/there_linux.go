package memory

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// there returns how many bytes this process may have, and who says so: what it has and what
// nobody else does, of the machine, of each control group that it is in, of either version, and
// of its own limit of addresses. Files are read below root.
func there(root string) (most int64, whose string) {
	f := files(root)
	pages, _, _ := strings.Cut(strings.TrimSpace(f.text("proc/self/statm")), " ")
	addresses := number(pages) * int64(os.Getpagesize())
	mine := f.resident()
	most, whose = math.MaxInt64, ""
	less := func(bytes int64, by string) {
		if bytes < most {
			most, whose = max(bytes, 1), by
		}
	}
	machine := f.fields("proc/meminfo", ":")
	if free, ok := machine["MemAvailable"]; ok {
		less(mine+free<<10, "which the machine has free")
	}
	for _, g := range f.groups() {
		if limit := number(f.text(g.dir, g.limit)); limit > 0 {
			stat := f.fields(path.Join(g.dir, "memory.stat"), " ")
			others := max(0, number(f.text(g.dir, g.used))-stat[g.cache]-mine)
			less(limit-others, "which the control group "+g.name+" has")
		}
	}
	var own unix.Rlimit
	if root == "/" && unix.Getrlimit(unix.RLIMIT_AS, &own) == nil && own.Cur < math.MaxInt64 {
		less(int64(own.Cur)-addresses+mine, "which ulimit -v leaves")
	}
	if whose == "" {
		return 0, ""
	}
	return most, whose
}

// group is a control group that may limit memory.
type group struct{ name, dir, limit, used, cache string }

// groups returns those that this process is in, with all above them: where a group's folder is
// that of a container, the names above are not there, and limit nothing.
func (f files) groups() (all []group) {
	for line := range strings.Lines(f.text("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		g := group{limit: "memory.max", used: "memory.current", cache: "file"}
		dir := "sys/fs/cgroup"
		if parts[1] != "" {
			if parts[1] != "memory" {
				continue
			}
			g = group{limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", cache: "total_cache"}
			dir = "sys/fs/cgroup/memory"
		}
		for name := path.Clean("/" + parts[2]); ; name = path.Dir(name) {
			g.name, g.dir = name, path.Join(dir, name)
			all = append(all, g)
			if name == "/" {
				break
			}
		}
	}
	return all
}

// files reads small files below a folder; one that cannot be read is empty.
type files string

func (f files) text(name ...string) string {
	b, _ := os.ReadFile(path.Join(append([]string{string(f)}, name...)...))
	return string(b)
}

// fields returns the numbers of lines of a name and a number.
func (f files) fields(name, between string) map[string]int64 {
	all := map[string]int64{}
	for s := bufio.NewScanner(bytes.NewBufferString(f.text(name))); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), between)
		all[key] = number(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
	}
	return all
}

// resident returns the memory of this process.
func (f files) resident() int64 {
	parts := strings.Fields(f.text("proc/self/statm"))
	if len(parts) < 2 {
		return 0
	}
	return number(parts[1]) * int64(os.Getpagesize())
}

// number returns the number of a text, 0 of one that is none, such as max.
func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
