package oracle

import (
	"context"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/oracle/internal/rig"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

var everyRead = flag.Bool("oracle.reads", false, "let every read of a check fail, not some of them")

var errRead = errors.New("input/output error")

// failing is a folder whose k-th read of data fails, and all after it.
type failing struct {
	fs.FS
	reads *atomic.Int64
	fail  int64
}

type failingFile struct {
	fs.File
	of *failing
}

func (f *failing) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".safetensors") {
		return file, err
	}
	return &failingFile{file, f}, nil
}

func (f *failing) next() error {
	if f.reads.Add(1) > f.fail {
		return errRead
	}
	return nil
}

func (f *failingFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.of.next(); err != nil {
		return 0, err
	}
	return f.File.(io.ReaderAt).ReadAt(b, at)
}

func (f *failingFile) Read(b []byte) (int, error) {
	if err := f.of.next(); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

// TestFailedReads: whatever read of a case fails, the answer is an error that names a
// file, and no report: what could not be read is not the device's.
func TestFailedReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dir, precision string }{
		{rig.Testdata("rollouts", "no_norm_no_noise"), "float32"},
		{rig.Testdata("rollouts", "autoregressive_batch_relu"), "float32"},
	} {
		mode, err := graph.ParseMode(c.precision, "")
		if err != nil {
			t.Fatal(err)
		}
		check := func(fail int64) (*report.Report, int64, error) {
			f := &failing{os.DirFS(c.dir), new(atomic.Int64), fail}
			cs, err := rollout.OpenCaseFS(f, c.dir)
			if err != nil {
				return nil, f.reads.Load(), err
			}
			r, err := CheckCase(context.Background(), cs, CheckOptions{Mode: mode})
			return r, f.reads.Load(), err
		}
		r, n, err := check(1 << 40)
		if err != nil || r.Verdict != report.PassConforming {
			t.Fatalf("%s: %+v, %v", c.dir, r, err)
		}
		step := max(1, n/12)
		if *everyRead {
			step = 1
		}
		t.Logf("%s: %d reads, every %dth fails", c.dir, n, step)
		for k := int64(0); k < n; k += step {
			r, _, err := check(k)
			if r != nil || !errors.Is(err, errRead) || !strings.Contains(err.Error(), ".safetensors") {
				t.Errorf("%s: read %d of %d fails: report %v, error %v", c.dir, k, n, r != nil, err)
			}
		}
	}
}
