package rollout

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/internal/safetensors"
)

// Output is a sink that keeps the trajectory in a file. While the rollout runs
// it writes to a partial file beside the final one; Finish gives it its name.
// A run that dies therefore leaves no file that looks complete.
type Output interface {
	Sink
	// Sync makes everything written so far durable and returns what a later
	// process needs, beside the partial file, to continue from here.
	Sync() (state []byte, err error)
	// Finish completes the file under its final name.
	Finish() error
	// Close lets the partial file go; after Finish it does nothing.
	Close() error
	// held returns the bytes of memory that the output keeps.
	held() int64
}

// partialFile is a file whose every element has its place from the start: it
// is written where it belongs, in any order and as often as needed, and keeps
// a preliminary name until it is complete.
type partialFile struct {
	f    *os.File
	path string
	buf  []byte
}

// partial returns the name under which an output is written until it is
// complete.
func partial(path string) string { return path + ".partial" }

// open creates the partial file with a head and room for size bytes in all, or
// continues it. One that is to be continued has had its size from the start: what was
// cut off would be taken for zeros.
func (p *partialFile) open(head []byte, size int64, resume bool) error {
	if err := p.openFile(resume); err != nil {
		return err
	}
	is, err := p.f.Stat()
	if err == nil && resume && is.Size() != size {
		p.Close()
		return fmt.Errorf("%s: %d bytes: want %d, as the unfinished run left it, or --force to begin again", partial(p.path), is.Size(), size)
	}
	if err == nil {
		err = p.f.Truncate(size)
	}
	if err == nil {
		_, err = p.f.WriteAt(head, 0)
	}
	if err != nil {
		p.Close()
		return p.failed(err)
	}
	return nil
}

// openFile creates the partial file, empty, or opens it as it is, unless it is held
// already.
func (p *partialFile) openFile(resume bool) error {
	if p.f == nil {
		flags := os.O_CREATE
		if resume {
			flags = 0
			if _, err := os.Stat(partial(p.path)); err != nil {
				// Finished already by a process that died before the run was.
				os.Rename(p.path, partial(p.path))
			}
		}
		if err := p.hold(flags); err != nil {
			return err
		}
	}
	if !resume {
		if err := p.f.Truncate(0); err != nil {
			p.Close()
			return p.failed(err)
		}
	}
	return nil
}

// hold opens the partial file, which is this process's until it is closed: two that
// write one file would leave a mixture.
func (p *partialFile) hold(flags int) (err error) {
	if p.f, err = os.OpenFile(partial(p.path), os.O_RDWR|flags, 0o644); err != nil {
		p.f = nil
		return fmt.Errorf("%s: %w: want a place to write to", partial(p.path), fault.Cause(err))
	}
	if locked(p.f) || !p.current() {
		p.Close()
		return busy(p.path)
	}
	return nil
}

// current reports whether the partial file still has its name: a process that ended
// after it was opened here may have given it the final one.
func (p *partialFile) current() bool {
	is, err := p.f.Stat()
	named, e := os.Stat(partial(p.path))
	return err == nil && e == nil && os.SameFile(is, named)
}

func busy(path string) error {
	return fmt.Errorf("%s: another process writes it: want it to end, or another name", partial(path))
}

func (p *partialFile) failed(err error) error {
	return fmt.Errorf("%s: %w", partial(p.path), fault.Cause(err))
}

func (p *partialFile) write(b []byte, at int64) error {
	if _, err := p.f.WriteAt(b, at); err != nil {
		return p.failed(err)
	}
	return nil
}

// Sync implements [Output]; the file itself is all the state there is.
func (p *partialFile) Sync() ([]byte, error) {
	if err := p.f.Sync(); err != nil {
		return nil, p.failed(err)
	}
	return []byte("{}"), nil
}

// Finish implements [Output].
func (p *partialFile) Finish() error {
	if _, err := p.Sync(); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	return rename(partial(p.path), p.path)
}

// Close implements [Output].
func (p *partialFile) Close() error {
	if p.f == nil {
		return nil
	}
	err := p.f.Close()
	p.f = nil
	if err != nil {
		return p.failed(err)
	}
	return nil
}

func (p *partialFile) held() int64 { return int64(cap(p.buf)) }

// rename gives a complete file its name, durably.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("%s: %w", to, fault.Cause(err))
	}
	// A folder that cannot be opened or synced is no reason to fail: the file
	// is there.
	if d, err := os.Open(filepath.Dir(to)); err == nil {
		d.Sync()
		d.Close()
	}
	return nil
}

// Trajectory is the size of a whole rollout.
type Trajectory struct {
	M, T int
	Shape
}

func (s Trajectory) dims() []int { return []int{s.M, s.T, s.C, s.H, s.W} }

// flat is a file of the states and their diagnostics.
type flat struct {
	partialFile
	format  fp16.Format
	shape   Trajectory
	at      int64    // offset of the trajectory
	metrics [5]int64 // offsets of the diagnostics [M,T], F64
	bare    bool     // the file has no diagnostics
}

// newFlat lays a file out: a head, the diagnostics unless it is bare, the
// trajectory.
func newFlat(at partialFile, s Trajectory, f fp16.Format, head int, bare bool) *flat {
	o := &flat{partialFile: at, format: f, shape: s, at: int64(head), bare: bare}
	if !bare {
		for i := range o.metrics {
			o.metrics[i] = o.at
			o.at += 8 * int64(s.M) * int64(s.T)
		}
	}
	return o
}

// size returns the bytes of the whole file.
func (o *flat) size() int64 {
	s := o.shape
	return o.at + int64(s.M)*int64(s.T)*int64(s.Len())*int64(o.format.Bytes())
}

// begin creates the file, or continues it if state is not nil.
func (o *flat) begin(head, state []byte) (*flat, error) {
	return o, o.open(head, o.size(), state != nil)
}

// State implements [Sink].
func (o *flat) State(t, m int, x, prev []float64) error {
	o.buf = o.format.Append(o.buf[:0], x)
	i := int64(m)*int64(o.shape.T) + int64(t)
	if err := o.write(o.buf, o.at+i*int64(len(o.buf))); err != nil || o.bare {
		return err
	}
	for k, v := range Diagnose(x, prev).Values() {
		o.buf = fp16.Float64.Append(o.buf[:0], []float64{v})
		if err := o.write(o.buf, o.metrics[k]+8*i); err != nil {
			return err
		}
	}
	return nil
}

// layOutSafetensors lays out a safetensors output: trajectory [M,T,C,H,W] in the
// stored format, and each diagnostic as metrics.<name> [M,T] in F64.
func layOutSafetensors(at partialFile, s Trajectory, f fp16.Format, metadata map[string]string) (o *flat, head []byte, err error) {
	var all []*safetensors.Tensor
	for _, name := range DiagnosticNames {
		all = append(all, &safetensors.Tensor{Name: "metrics." + name, DType: safetensors.F64, Shape: []int{s.M, s.T}})
	}
	all = append(all, &safetensors.Tensor{Name: "trajectory", DType: safetensors.DTypeOf(f), Shape: s.dims()})
	if head, err = safetensors.Header(all, metadata); err != nil {
		return nil, nil, err
	}
	return newFlat(at, s, f, len(head), false), head, nil
}

// createSafetensors opens a safetensors output; with state it continues a
// partial file.
func createSafetensors(at partialFile, s Trajectory, f fp16.Format, metadata map[string]string, state []byte) (Output, error) {
	o, head, err := layOutSafetensors(at, s, f, metadata)
	if err != nil {
		return nil, err
	}
	return o.begin(head, state)
}
