package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// Job is a rollout whose output survives the process that makes it. Beside the
// output it keeps a checkpoint, PATH.resume; a later process with the same
// identity continues from there to the same bytes.
type Job struct {
	*Engine
	Path  string      // of the output; its extension says the format. "" for none
	Store fp16.Format // of the states in the file
	// Identity lists what decides the bytes of the output, as name and value.
	// Resuming the checkpoint or the complete output of another identity is an
	// error that names the first difference.
	Identity [][2]string
	Metadata map[string]string // written into formats that can hold it, with the identity
	Resume   bool              // continue what an earlier process left
	Force    bool              // overwrite it; otherwise it is an error. Not with Resume
	Gzip     int               // level of compression of HDF5 files, 1 to 9, or [Huffman]; 0 for 4, Spinlock's
	Every    time.Duration     // between checkpoints; 0 after every step
	Record   string            // write the draws to this tape as well; needs Path. "" for none
	// StoredOnly leaves the digest of the states in the mode's format out where the file
	// stores another one: it takes as long as hashing the file does.
	StoredOnly bool

	// Measured, if not nil, is given the diagnostics of all states in the end, and the states
	// are not kept. Path names the files that there are until then: PATH.partial, which is
	// empty, and PATH.resume.
	Measured func(*Measures) error

	held map[string]disk.File   // partial files that were there when the job began, by output
	over map[string]fs.FileInfo // outputs that were there then

	lockless bool // where they are, no lock keeps another process off
}

// Result is what a job leaves.
type Result struct {
	// Digest is that of the states in the format of the mode; of a complete output that
	// stores another format, and of a job with StoredOnly, it is not known, and "".
	Digest string
	// Stored is the digest of the states as the file holds them, in StoredFormat.
	Stored       string
	StoredFormat fp16.Format
	// Seal is that of a .safetensors or an HDF5 file, by which [Verify] knows every byte of it;
	// of others "".
	Seal string
	// Complete says that there was nothing to do: the output was there, finished by an
	// earlier process, and every byte of it is as it was written.
	Complete bool
	Resumed  bool // the job continued from a checkpoint
	// Note says what a partial file held that was not as it was written, and from where
	// the job went on; "" if all was well.
	Note   string
	Memory Memory
	// Overflow is the first float16 overflow of the steps that this process
	// took, if there was one.
	Overflow *Overflow
}

// Run does the job, or what is left of it. An error while the output is being
// written, and the end of ctx, leave the checkpoint of the last completed
// interval.
func (j *Job) Run(ctx context.Context) (*Result, error) {
	c := j.Config
	shape := Trajectory{c.Realizations, c.Timesteps, j.stateShape(), j.parts()}
	if j.Path == "" {
		digest := NewDigest(j.Mode.Wide(), shape.M, shape.T, shape.State...)
		e := *j.Engine
		e.Sinks = append(slices.Clone(e.Sinks), digest)
		if err := e.Run(ctx, nil); err != nil {
			return nil, err
		}
		return &Result{Digest: digest.Hex(), Overflow: e.Overflowed, Memory: j.memory([]*Digest{digest}, nil)}, nil
	}
	ck := j.Path + ".resume"
	defer j.release()
	from, s, done, err := j.find(ck)
	if err != nil {
		return nil, err
	}
	format := storedFormat(j.Path, j.Store)
	if done {
		r := &Result{Complete: true, StoredFormat: format}
		if r.Stored, r.Seal, err = j.complete(shape); err != nil {
			return nil, err
		}
		if j.Store == j.Mode.Wide() {
			r.Digest = r.Stored
		}
		return r, j.clear(ck)
	}
	if err := j.room(shape, from); err != nil {
		return nil, err
	}
	_, gone := disk.Lstat(ck)
	orphan := j.Resume && gone == nil && !exists(partial(j.Path))
	if from == nil { // it speaks of a partial file that is no more, or will not be
		if err := remove(ck); err != nil {
			return nil, err
		}
	}
	d := j.digests(shape)
	e := *j.Engine
	outputs, err := j.outputs(&e, shape, s)
	for _, o := range outputs {
		defer o.Close()
	}
	if err != nil {
		return nil, err
	}
	from, note, err := j.settle(from, s, outputs, d)
	if err != nil {
		return nil, err
	}
	if orphan {
		note = fmt.Sprintf("%s: missing, though its checkpoint is there, so the run began again", partial(j.Path))
	}
	out := outputs[len(outputs)-1].(trajectory)
	out.sealing(d.stored)
	e.Sinks = slices.Clone(e.Sinks)
	if d.wide != nil && d.wide != d.stored { // which the output forms
		e.Sinks = append(e.Sinks, d.wide)
	}
	for _, o := range outputs {
		e.Sinks = append(e.Sinks, o)
	}
	last := time.Now()
	e.due = func() bool { return time.Since(last) >= j.Every || ctx.Err() != nil }
	e.Checkpoint = func(p *Checkpoint) error {
		err := j.save(ck, p, d, outputs)
		last = time.Now()
		return err
	}
	if err := e.Run(ctx, from); err != nil {
		return nil, err
	}
	for _, o := range outputs {
		if err := o.Finish(); err != nil {
			return nil, err
		}
	}
	r := &Result{Stored: d.stored.Hex(), StoredFormat: format, Seal: out.sealText(), Resumed: s != nil, Note: note,
		Overflow: e.Overflowed, Memory: j.memory(d.all(), outputs)}
	if d.wide != nil {
		r.Digest = d.wide.Hex()
	}
	return r, j.clear(ck)
}

// digests are those of a job with an output.
type digests struct {
	wide   *Digest // of the states in the mode's format; nil for none
	stored *Digest // as the file holds them; the same one where that is the same
}

func (j *Job) digests(s Trajectory) digests {
	of := func(f fp16.Format) *Digest { return NewDigest(f, s.M, s.T, s.State...) }
	var d digests
	if !j.StoredOnly || j.Store == j.Mode.Wide() {
		d.wide = of(j.Mode.Wide())
	}
	if d.stored = d.wide; j.Store != j.Mode.Wide() {
		d.stored = of(storedFormat(j.Path, j.Store))
	}
	return d
}

// all lists them, each once.
func (d digests) all() []*Digest {
	if d.wide == nil || d.wide == d.stored {
		return []*Digest{d.stored}
	}
	return []*Digest{d.wide, d.stored}
}

// texts returns what a checkpoint says of each: of one that is both the first holds.
func (d digests) texts(s *saved) map[*Digest]*string {
	all := map[*Digest]*string{d.stored: &s.Stored}
	if d.wide != nil {
		all[d.wide] = &s.Digest
	}
	return all
}

// outputs opens what the job writes, or what it continues from a checkpoint: the tape,
// if there is one, then the trajectory, whose final name says that all is done.
func (j *Job) outputs(e *Engine, shape Trajectory, s *saved) (all []Output, err error) {
	state := func(kind string) []byte {
		if s == nil {
			return nil
		}
		return append([]byte{}, s.Outputs[kind]...) // never nil
	}
	metadata, err := j.metadata()
	if err != nil {
		return nil, err
	}
	if j.Record != "" {
		r, err := newRecorder(j.at(j.Record), j.Operator, j.Config, j.Shape, metadata, state(ofTape))
		if r != nil {
			all = append(all, r)
		}
		if err != nil {
			return all, err
		}
		e.Stream = r.Stream(e.Stream)
	}
	out, err := j.create(shape, metadata, state(ofStates))
	if out != nil { // an error may leave it open
		all = append(all, out)
	}
	return all, err
}

// hold makes the partial file of an output this process's, if there is one, before
// anything is read that speaks of it.
func (j *Job) hold(path string) error {
	p := partialFile{path: path}
	if j.held == nil {
		j.over, j.held = map[string]fs.FileInfo{}, map[string]disk.File{}
	}
	info, err := disk.Lstat(path)
	switch {
	case err == nil:
		j.over[path] = info
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: want a place to write to", path, fault.Cause(err))
	}
	err = p.hold(0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		j.held[path], j.lockless = p.f, p.lockless
	}
	return err
}

// at returns the partial file of an output, open if it is held.
func (j *Job) at(path string) partialFile {
	return partialFile{path: path, f: j.held[path], over: j.over[path]}
}

// release lets go of partial files, of which outputs have closed their own.
func (j *Job) release() {
	for _, f := range j.held {
		f.Close()
	}
	j.held = nil
}

// find looks for what an earlier process left, and holds it. done says that there is a
// complete output and no other.
func (j *Job) find(ck string) (from *Checkpoint, s *saved, done bool, err error) {
	if err := j.vacant(ck); err != nil {
		return nil, nil, false, err
	}
	switch {
	case !j.Resume:
		return nil, nil, false, nil
	case !exists(partial(j.Path)):
		return nil, nil, exists(j.Path), nil // complete, or not yet begun
	case !exists(ck):
		return nil, nil, false, nil // died before its first checkpoint
	case j.lockless && slices.Contains([]string{".h5", ".hdf5"}, filepath.Ext(j.Path)):
		// To go on with an HDF5 file cuts it off, also if another process has finished it by
		// now; the others are written where all is the same already.
		return nil, nil, false, nil
	}
	from, s, err = j.readCheckpoint(ck)
	return from, s, false, err
}

// Left reports whether the job has left a partial file, which a job with Resume
// continues, or begins again if it has no checkpoint.
func (j *Job) Left() bool {
	info, err := disk.Lstat(partial(j.Path))
	return err == nil && info.Mode().IsRegular()
}

// clear removes the checkpoint of a run that is done, and the beginnings of others that
// a kill left.
func (j *Job) clear(ck string) error {
	disk.Sweep(ck)
	disk.Sweep(sumsPath(j.Path))
	return remove(ck)
}

func remove(path string) error {
	if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}

// create opens the trajectory's file, by its extension, or continues it from a
// state.
func (j *Job) create(s Trajectory, metadata map[string]string, state []byte) (Output, error) {
	at, c, f := j.at(j.Path), j.Config, j.Store
	if ext := filepath.Ext(j.Path); s.parts != nil && ext != ".safetensors" {
		return nil, fmt.Errorf("%s: file type %q: want .safetensors for %d named states", j.Path, ext, len(s.parts))
	}
	if j.Measured != nil {
		return newMeasured(at, s, c, j.Measured, state)
	}
	switch filepath.Ext(j.Path) {
	case ".safetensors":
		o, err := layOutSafetensors(at, s, c, f, metadata)
		if err != nil {
			return nil, err
		}
		return o, o.begin(state)
	case ".npy":
		return createNpy(at, s, c, f, metadata, state)
	case ".npz":
		return createNpz(at, s, c, f, metadata, state)
	case ".h5", ".hdf5":
		return createHDF5(at, s, c, f, cmp.Or(j.Gzip, gzipLevel), metadata, state)
	}
	return nil, j.badType()
}

var extensions = []string{".safetensors", ".npy", ".npz", ".h5", ".hdf5"}

func (j *Job) badType() error {
	return fmt.Errorf("%s: file type %q: want .safetensors, .npy, .npz or .h5", j.Path, filepath.Ext(j.Path))
}
