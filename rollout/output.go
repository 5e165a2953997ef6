package rollout

import (
	"fmt"
	"os"

	"github.com/refrun/refrun/fp16"
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
}

// flat is a file whose every element has its place from the start: states and
// diagnostics are written where they belong, in any order and as often as
// needed.
type flat struct {
	f          *os.File
	path, part string
	format     fp16.Format
	shape      Trajectory
	at         int64    // offset of the trajectory
	metrics    [5]int64 // offsets of the diagnostics [M,T], F64
	buf        []byte
}

// Trajectory is the size of a whole rollout.
type Trajectory struct {
	M, T int
	Shape
}

func (s Trajectory) dims() []int { return []int{s.M, s.T, s.C, s.H, s.W} }

// partial returns the name under which an output is written until it is
// complete.
func partial(path string) string { return path + ".partial" }

// createSafetensors opens a safetensors output: trajectory [M,T,C,H,W] in the
// stored format, and each diagnostic as metrics.<name> [M,T] in F64. With
// state it continues a partial file.
func createSafetensors(path string, s Trajectory, f fp16.Format, metadata map[string]string, state []byte) (Output, error) {
	dtype := safetensors.DTypeOf(f)
	var all []*safetensors.Tensor
	for _, name := range DiagnosticNames {
		all = append(all, &safetensors.Tensor{Name: "metrics." + name, DType: safetensors.F64, Shape: []int{s.M, s.T}})
	}
	all = append(all, &safetensors.Tensor{Name: "trajectory", DType: dtype, Shape: s.dims()})
	head, err := safetensors.Header(all, metadata)
	if err != nil {
		return nil, err
	}
	o := &flat{path: path, part: partial(path), format: f, shape: s}
	at := int64(len(head))
	for i := range o.metrics {
		o.metrics[i] = at
		at += 8 * int64(s.M) * int64(s.T)
	}
	o.at = at
	return o, o.open(head, state != nil)
}

// open creates the partial file, or continues it.
func (o *flat) open(head []byte, resume bool) error {
	flags := os.O_RDWR | os.O_CREATE | os.O_TRUNC
	if resume {
		flags = os.O_RDWR
	}
	var err error
	if o.f, err = os.OpenFile(o.part, flags, 0o644); err != nil {
		return fmt.Errorf("%s: %w: want a place to write to", o.part, cause(err))
	}
	size := o.at + int64(o.shape.M)*int64(o.shape.T)*int64(o.shape.Len())*int64(o.format.Bytes())
	if err = o.f.Truncate(size); err == nil {
		_, err = o.f.WriteAt(head, 0)
	}
	if err != nil {
		o.f.Close()
		return o.failed(err)
	}
	return nil
}

func (o *flat) failed(err error) error { return fmt.Errorf("%s: %w", o.part, cause(err)) }

// State implements [Sink].
func (o *flat) State(t, m int, x, prev []float64) error {
	o.buf = o.format.Append(o.buf[:0], x)
	i := int64(m)*int64(o.shape.T) + int64(t)
	if _, err := o.f.WriteAt(o.buf, o.at+i*int64(len(o.buf))); err != nil {
		return o.failed(err)
	}
	for k, v := range Diagnose(x, prev).Values() {
		o.buf = fp16.Float64.Append(o.buf[:0], []float64{v})
		if _, err := o.f.WriteAt(o.buf, o.metrics[k]+8*i); err != nil {
			return o.failed(err)
		}
	}
	return nil
}

// Sync implements [Output]; the file itself is all the state there is.
func (o *flat) Sync() ([]byte, error) {
	if err := o.f.Sync(); err != nil {
		return nil, o.failed(err)
	}
	return []byte("{}"), nil
}

// Finish implements [Output].
func (o *flat) Finish() error {
	if _, err := o.Sync(); err != nil {
		return err
	}
	if err := o.Close(); err != nil {
		return err
	}
	return rename(o.part, o.path)
}

// Close implements [Output].
func (o *flat) Close() error {
	if o.f == nil {
		return nil
	}
	err := o.f.Close()
	o.f = nil
	if err != nil {
		return o.failed(err)
	}
	return nil
}

func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("%s: %w", to, cause(err))
	}
	return nil
}
