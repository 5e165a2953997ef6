package main

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/internal/format/hdf5"
)

// process runs the command in a process of its own and returns how it ended, what it
// took of the processors and the most memory that it held.
func process(t *testing.T, args ...string) (r clitest.Result, seconds float64, peak int64) {
	t.Helper()
	file := t.TempDir() + "/peak"
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "REFRUN_TEST_PEAK="+file)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	seconds = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	status, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		t.Fatalf("no VmHWM in %s", status)
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return clitest.Result{Code: c.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}, seconds,
		kb << 10
}

// TestHostileMemory: what the largest refusals hold at a time, as the system counts it.
func TestHostileMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "good.yaml", []byte(clitest.GoodConfig))
	const n = files.MostConfig - 100
	times := strings.Repeat
	put(t, "wide.yaml", []byte("a: ["+times("a,", n/2-10)+"]"))
	put(t, "maps.yaml", []byte("a: ["+times("{},", n/3-10)+"]"))
	put(t, "deep.yaml", []byte(times("[", n)))
	put(t, "notes.yaml", []byte("a:\n"+times("- # x\n", n/6)))
	header := "{" + repeated(32<<20-200,
		func(i int) string { return fmt.Sprintf(`"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},`, i) })
	put(t, "names.safetensors", withHeader(header[:len(header)-1]+"}", 0))
	put(t, "text.safetensors", withHeader(`{"`+times("x", 32<<20-10)+`":1}`, 0))
	put(t, "axes.npy", npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (1"+times(",1", 10_000_000)+"), }", 4))
	put(t, "bomb.npz", zipped(t, zip.Deflate,
		npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (16777216,), }", 64<<20), "x.npy"))
	names := strings.Split(
		strings.TrimSuffix(repeated(4<<20, func(i int) string { return fmt.Sprintf("%d.npy,", i) }), ","), ",",
	)
	put(t, "entries.npz", zipped(t, zip.Store, nil, names...))
	two := make(chan bool, 2) // processes at a time
	var all sync.WaitGroup
	for _, args := range [][]string{
		{"run", "--config", "wide.yaml"}, {"run", "--config", "maps.yaml"}, {"plan", "--config", "deep.yaml"},
		{"bench", "--config", "notes.yaml"},
		{"run", "--config", "good.yaml", "--weights", "names.safetensors"},
		{"compare", "text.safetensors", "names.safetensors"},
		{"compare", "axes.npy", "axes.npy"}, {"run", "--config", "good.yaml", "--x0", "bomb.npz"},
		{"compare", "bomb.npz", "bomb.npz"}, {"compare", "entries.npz", "entries.npz"},
	} {
		two <- true
		all.Go(func() {
			defer func() { <-two }()
			h := hostile{"memory", args}
			r, seconds, peak := process(t, args...)
			if wrong := judgeHostile(r.Code, r.Stdout, r.Stderr); wrong != "" {
				t.Errorf("%v: %s", h, wrong)
			}
			if seconds > mostSeconds || peak > mostBytes+h.size() {
				t.Errorf("%v takes %.1f s and %d bytes: want at most %d s and %d bytes", h, seconds, peak, mostSeconds,
					mostBytes+h.size())
			}
			t.Logf("%v: %.2f s, %d MB", h, seconds, peak/1e6)
		})
	}
	all.Wait()
}

// TestCompareMemory: two tensors are compared in the same memory, however large they
// are and in whatever file: files of which the system stores only what is not zero, and
// compressed ones that are just not refused.
func TestCompareMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	const bytes = 96 << 20
	header := withHeader(
		fmt.Sprintf(`{"trajectory":{"dtype":"F64","shape":[2,48,2,256,256],"data_offsets":[0,%d]}}`, bytes), 0,
	)
	put(t, "sparse.safetensors", header)
	put(t, "sparse.npy", npyOf("{'descr': '<f8', 'fortran_order': False, 'shape': (2,48,2,256,256), }", 0))
	for _, name := range []string{"sparse.safetensors", "sparse.npy"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, info.Size()+bytes); err != nil {
			t.Fatal(err)
		}
	}
	put(t, "packed.npz", zipped(t, zip.Deflate,
		npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (1,32,1,512,512), }", 32<<20), "trajectory.npy"))
	f, err := os.Create("packed.h5")
	if err != nil {
		t.Fatal(err)
	}
	w, err := hdf5.Create(f, []hdf5.Spec{
		{Path: "/trajectories", Type: hdf5.Float32, Shape: []int{1, 32, 1, 512, 512}, Chunk: []int{1, 32, 1, 512, 512},
			Gzip: 6, Shuffle: true},
	})
	if err == nil {
		err = w.Write("/trajectories", make([]int, 5), make([]float64, 32<<18))
	}
	if err == nil {
		err = w.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, k := range []struct {
		a, b string
		most int64
	}{
		{"sparse.safetensors", "sparse.npy", 64 << 20}, {"packed.npz", "packed.npz", 64 << 20},
		{"packed.h5", "packed.npz", 200 << 20},
	} {
		all.Go(func() {
			r, seconds, peak := process(t, "compare", k.a, k.b, "--json")
			if r.Code != 0 || r.Stderr != "" {
				t.Errorf("%s and %s: exit code %d, %s", k.a, k.b, r.Code, r.Stderr)
			}
			if peak > k.most {
				t.Errorf("%s and %s: %d bytes: want at most %d", k.a, k.b, peak, k.most)
			}
			t.Logf("%s and %s: %.2f s, %d MB", k.a, k.b, seconds, peak/1e6)
		})
	}
	all.Wait()
}
