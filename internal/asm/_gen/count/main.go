// Command count prints how many instructions the NEON kernels execute for each
// number they make: it runs BenchmarkWorks of package asm, built for arm64, once
// per kernel under qemu-aarch64, which writes down every instruction within the
// kernels. The counts are exact and the same on every machine. In internal/asm/_gen:
//
//	go run ./count
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "count")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "asm.test")
	build := exec.Command("go", "test", "-c", "-o", binary)
	build.Dir = ".."
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	run(build)
	ranges := kernels(run(exec.Command("go", "tool", "nm", "-size", binary)))

	// The benchmarks and what each makes in one call.
	list := run(
		exec.Command("qemu-aarch64", binary, "-test.run", "^$", "-test.bench", "Works/neon", "-test.benchtime", "1x"),
	)
	of := regexp.MustCompile(`BenchmarkWorks/(neon/\S+?)(?:-\d+)?\s.*?(\d+)(?:\.\d+)? (\S+)s/call`)
	fmt.Println("| kernel | instructions | for each |\n|---|---|---|")
	for _, m := range of.FindAllStringSubmatch(list, -1) {
		units, _ := strconv.Atoi(m[2])
		n := count(binary, ranges, m[1], filepath.Join(dir, "trace"))
		fmt.Printf("| %s | %.3g | %s |\n", strings.TrimPrefix(m[1], "neon/"), float64(n)/float64(units), m[3])
	}
}

// run runs a command and returns what it prints.
func run(c *exec.Cmd) string {
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		log.Fatalf("%v: %v\n%s%s", c, err, out.String(), errs.String())
	}
	return out.String()
}

// kernels returns the addresses of the kernels as qemu takes them.
func kernels(symbols string) string {
	var ranges []string
	for _, line := range strings.Split(symbols, "\n") {
		if f := strings.Fields(line); len(f) == 4 && strings.HasSuffix(f[3], "NEON.abi0") {
			ranges = append(ranges, "0x"+f[0]+"+"+f[1])
		}
	}
	if len(ranges) == 0 {
		log.Fatal("no kernels in the binary")
	}
	return strings.Join(ranges, ",")
}

// count returns the instructions of one call of a benchmark's kernel: each is a block
// of its own, of which qemu writes a line when it executes it.
func count(binary, ranges, name, trace string) (n int) {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = "^" + parts[i] + "$"
	}
	run(exec.Command("qemu-aarch64", "-singlestep", "-d", "exec,nochain", "-dfilter", ranges, "-D", trace,
		binary, "-test.run", "^$", "-test.bench", "^BenchmarkWorks$/"+strings.Join(parts, "/"), "-test.benchtime", "1x"))
	f, err := os.Open(trace)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "Trace") {
			n++
		}
	}
	return n
}
