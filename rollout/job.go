package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/internal/safetensors"
	"github.com/refrun/refrun/tensor"
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
	// error that names the first difference. A .npy or .npz file holds no
	// identity: of a complete one, shape and type are compared.
	Identity [][2]string
	Metadata map[string]string // written into formats that can hold it, with the identity
	Resume   bool              // continue what an earlier process left
	Force    bool              // overwrite it; otherwise it is an error. Not with Resume
	Every    time.Duration     // between checkpoints; 0 after every step
	Record   string            // write the draws to this tape as well; needs Path. "" for none

	held map[string]*os.File // partial files that were there when the job began, by output
}

// Result is what a job leaves.
type Result struct {
	Digest string // of the states in the format of the mode
	// Complete says that there was nothing to do: the output was there,
	// finished by an earlier process. The digest is not formed again then.
	Complete bool
	// Unidentified says that the complete output holds no identity, as .npy and .npz:
	// nothing says that this job made it.
	Unidentified bool
	Resumed      bool // the job continued from a checkpoint
	Memory       Memory
	// Overflow is the first float16 overflow of the steps that this process
	// took, if there was one.
	Overflow *Overflow
}

// checkpointJSON is the metadata of a checkpoint file.
type checkpointJSON struct {
	Version  int
	Identity [][2]string
	Batch    int
	Step     int
	Digest   string
	Outputs  []json.RawMessage // what each left, the recorder first if there is one
}

// Run does the job, or what is left of it. An error while the output is being
// written, and the end of ctx, leave the checkpoint of the last completed
// interval.
func (j *Job) Run(ctx context.Context) (*Result, error) {
	c := j.Config
	shape := Trajectory{c.Realizations, c.Timesteps, j.Shape}
	digest := NewDigest(j.Mode.Wide(), shape.M, shape.T, shape.C, shape.H, shape.W)
	if j.Path == "" {
		e := *j.Engine
		e.Sinks = append(slices.Clone(e.Sinks), digest)
		if err := e.Run(ctx, nil); err != nil {
			return nil, err
		}
		return &Result{Digest: digest.Hex(), Overflow: e.Overflowed, Memory: j.memory(digest, nil)}, nil
	}
	ck := j.Path + ".resume"
	defer j.release()
	from, saved, done, err := j.find(ck, shape)
	if err != nil || done {
		ext := filepath.Ext(j.Path)
		return &Result{Complete: done, Unidentified: done && (ext == ".npy" || ext == ".npz")}, err
	}
	e := *j.Engine
	var states []json.RawMessage
	if from != nil {
		if err := digest.UnmarshalText([]byte(saved.Digest)); err != nil {
			return nil, fmt.Errorf("%s: %w", ck, err)
		}
		states = saved.Outputs
	}
	outputs, err := j.outputs(&e, shape, states)
	for _, o := range outputs {
		defer o.Close()
	}
	if err != nil {
		return nil, err
	}
	e.Sinks = append(slices.Clone(e.Sinks), digest)
	for _, o := range outputs {
		e.Sinks = append(e.Sinks, o)
	}
	last := time.Now()
	e.Checkpoint = func(p *Checkpoint) error {
		if time.Since(last) < j.Every && ctx.Err() == nil {
			return nil
		}
		err := j.save(ck, p, digest, outputs)
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
	if err := os.Remove(ck); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", ck, fault.Cause(err))
	}
	// A kill while a checkpoint was being written leaves its beginning.
	if torn, _ := filepath.Glob(ck + ".*.tmp"); torn != nil {
		for _, f := range torn {
			os.Remove(f)
		}
	}
	return &Result{Digest: digest.Hex(), Resumed: from != nil, Overflow: e.Overflowed, Memory: j.memory(digest, outputs)}, nil
}

// outputs opens what the job writes, or continues it from the states of a
// checkpoint: the tape, if there is one, then the trajectory, whose final name
// says that all is done.
func (j *Job) outputs(e *Engine, shape Trajectory, states []json.RawMessage) (all []Output, err error) {
	next := func() []byte {
		if len(states) == 0 {
			return nil
		}
		s := states[0]
		states = states[1:]
		return s
	}
	if j.Record != "" {
		r, err := newRecorder(j.at(j.Record), j.Operator, j.Config, j.Shape, next())
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		e.Stream = r.Stream(e.Stream)
	}
	out, err := j.create(shape, next())
	if err == nil {
		all = append(all, out)
	}
	return all, err
}

// hold makes the partial file of an output this process's, if there is one, before
// anything is read that speaks of it.
func (j *Job) hold(path string) error {
	p := partialFile{path: path}
	err := p.hold(0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		if j.held == nil {
			j.held = map[string]*os.File{}
		}
		j.held[path] = p.f
	}
	return err
}

// at returns the partial file of an output, open if it is held.
func (j *Job) at(path string) partialFile { return partialFile{path: path, f: j.held[path]} }

// release lets go of partial files, of which outputs have closed their own.
func (j *Job) release() {
	for _, f := range j.held {
		f.Close()
	}
	j.held = nil
}

// find looks for what an earlier process left, and holds it.
func (j *Job) find(ck string, shape Trajectory) (from *Checkpoint, saved *checkpointJSON, done bool, err error) {
	if err := j.vacant(ck); err != nil {
		return nil, nil, false, err
	}
	if !j.Resume || !exists(partial(j.Path)) {
		// Complete, not yet begun, or to be overwritten. A checkpoint that is
		// left speaks of a partial file that is no more, and must not be taken
		// for the next one's. (A process that died between the last two steps
		// of finishing left one too.)
		if err := os.Remove(ck); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, false, fmt.Errorf("%s: %w", ck, fault.Cause(err))
		}
		if !j.Resume || !exists(j.Path) {
			return nil, nil, false, nil
		}
		err := j.check(shape)
		if c := fault.Cause(err); c != err { // the system's words begin with what was tried
			err = fmt.Errorf("%s: %w: want a file that can be read", j.Path, c)
		}
		return nil, nil, true, err
	}
	if !exists(ck) {
		return nil, nil, false, nil // died before its first checkpoint
	}
	f, err := safetensors.Open(ck)
	if err != nil {
		return nil, nil, false, err
	}
	saved = new(checkpointJSON)
	if err := json.Unmarshal([]byte(f.Metadata["refrun"]), saved); err != nil || saved.Version != 1 {
		return nil, nil, false, fmt.Errorf("%s: not a checkpoint of this version: want the file that the unfinished run left", ck)
	}
	if d := differ("unfinished", saved.Identity, j.Identity); d != "" {
		return nil, nil, false, fmt.Errorf("%s: %s: want the same run to resume it", ck, d)
	}
	t, err := f.Tensor("state")
	if err != nil {
		return nil, nil, false, err
	}
	b := j.Config.EngineBatches()
	if saved.Batch < 0 || saved.Batch >= len(b) || saved.Step < 0 || saved.Step >= j.Config.Timesteps {
		return nil, nil, false, fmt.Errorf("%s: position %d/%d: want one inside the run", ck, saved.Batch, saved.Step)
	}
	dims := []int{b[saved.Batch][1] - b[saved.Batch][0], j.Shape.C, j.Shape.H, j.Shape.W}
	data, err := t.Float64s()
	if err != nil || !slices.Equal(t.Shape, dims) {
		return nil, nil, false, fmt.Errorf("%s: state: shape %v: want %v", ck, t.Shape, dims)
	}
	format := j.Mode.Wide()
	if saved.Step > 0 {
		format = j.Config.StateFormat(j.Operator.Output(j.Mode))
	}
	x := tensor.Of(format, data, dims[0], dims[1], dims[2], dims[3])
	return &Checkpoint{saved.Batch, saved.Step, x}, saved, false, nil
}

// save makes the output durable and then, in one rename, the checkpoint that
// speaks of it.
func (j *Job) save(path string, p *Checkpoint, digest *Digest, outputs []Output) error {
	var states []json.RawMessage
	for _, o := range outputs {
		s, err := o.Sync()
		if err != nil {
			return err
		}
		states = append(states, s)
	}
	d, err := digest.MarshalText()
	if err != nil {
		return err
	}
	meta, err := json.Marshal(checkpointJSON{1, j.Identity, p.Batch, p.Step, string(d), states})
	if err != nil {
		return err
	}
	x := p.State
	t, err := safetensors.OfFloat64s("state", safetensors.F64, []int{x.N(), x.C(), x.H(), x.W()}, x.Data)
	if err != nil {
		return err
	}
	if err := safetensors.WriteFile(path, []*safetensors.Tensor{t}, map[string]string{"refrun": string(meta)}); err != nil {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}

// create opens the trajectory's file, by its extension, or continues it from a
// state.
func (j *Job) create(s Trajectory, state []byte) (Output, error) {
	at, f := j.at(j.Path), j.Store
	metadata, err := j.metadata()
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(j.Path) {
	case ".safetensors":
		return createSafetensors(at, s, f, metadata, state)
	case ".npy":
		return createNpy(at, s, f, state)
	case ".npz":
		return createNpz(at, s, f, state)
	case ".h5", ".hdf5":
		return createHDF5(at, s, f, j.Config, metadata, state)
	}
	return nil, j.badType()
}

var extensions = []string{".safetensors", ".npy", ".npz", ".h5", ".hdf5"}

func (j *Job) badType() error {
	return fmt.Errorf("%s: file type %q: want .safetensors, .npy, .npz or .h5", j.Path, filepath.Ext(j.Path))
}
