package rollout

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// saved is the metadata of a checkpoint file.
type saved struct {
	Version  int
	Identity [][2]string
	Batch    int
	Step     int
	Digest   string                     `json:",omitempty"` // of the states in the mode's format, as far as they go
	Stored   string                     `json:",omitempty"` // of the states as they are stored, if that is another one
	Outputs  map[string]json.RawMessage // what each left, by what it is
}

const checkpointVersion = 2

// The outputs by what they are.
const (
	ofTape   = "tape"
	ofStates = "trajectory"
)

// hashName is the last tensor of a checkpoint: the SHA-256 of all bytes before it.
const hashName = "sha256"

// readCheckpoint reads the checkpoint that an unfinished run of the same identity left.
func (j *Job) readCheckpoint(path string) (*Checkpoint, *saved, error) {
	data, err := readRegular(path)
	if err != nil {
		return nil, nil, err
	}
	wrong := func(what string) (*Checkpoint, *saved, error) {
		return nil, nil,
			fmt.Errorf("%s: %s: want the file that the unfinished run left, or --force to begin again", path, what)
	}
	if n := len(data) - sha256.Size; n < 0 || sum(sha256.Sum256(data[:n])) != sum(data[n:]) {
		return wrong("its bytes are not those that its hash is of")
	}
	f, err := safetensors.Parse(path, data)
	if err != nil {
		return nil, nil, err
	}
	s := new(saved)
	if err := json.Unmarshal([]byte(f.Metadata["refrun"]), s); err != nil || s.Version != checkpointVersion {
		return wrong("not a checkpoint of this version")
	}
	if d := differ("unfinished", s.Identity, j.Identity); d != "" {
		return nil, nil, fmt.Errorf("%s: %s: want the same run to resume it", path, d)
	}
	if _, taped := s.Outputs[ofTape]; taped != (j.Record != "") {
		return wrong(map[bool]string{
			true: "--record: the unfinished run had it", false: "--record: the unfinished run did not have it",
		}[taped])
	}
	t, err := f.Tensor("state")
	if err != nil {
		return nil, nil, err
	}
	b := j.Config.EngineBatches()
	if s.Batch < 0 || s.Batch >= len(b) || s.Step < 0 || s.Step >= j.Config.Timesteps {
		return wrong(fmt.Sprintf("position %d/%d", s.Batch, s.Step))
	}
	dims := []int{b[s.Batch][1] - b[s.Batch][0], j.Shape.C, j.Shape.H, j.Shape.W}
	if j.Graph != nil {
		dims = []int{1, 1, 1, j.Graph.packed()}
		x, err := t.Float64s()
		if err != nil || !slices.Equal(t.Shape, dims) {
			return nil, nil, fmt.Errorf("%s: state: shape %v: want %v", path, t.Shape, dims)
		}
		return &Checkpoint{s.Batch, s.Step, tensor.Of(fp16.Float64, x, dims...)}, s, nil
	}
	x, err := t.Float64s()
	if err != nil || !slices.Equal(t.Shape, dims) {
		return nil, nil, fmt.Errorf("%s: state: shape %v: want %v", path, t.Shape, dims)
	}
	return &Checkpoint{s.Batch, s.Step, j.tensorAt(s.Step, x, dims[0])}, s, nil
}

// tensorAt returns the states of n realizations at a step.
func (j *Job) tensorAt(step int, x []float64, n int) *tensor.Tensor {
	format := j.Config.StartFormat(j.Mode)
	if step > 0 {
		format = j.Config.StateFormat(j.Operator.Output(j.Mode))
	}
	return tensor.Of(format, x, n, j.Shape.C, j.Shape.H, j.Shape.W)
}

// save makes the output durable and then, in one rename, the checkpoint that
// speaks of it.
func (j *Job) save(path string, p *Checkpoint, d digests, outputs []Output) error {
	s := saved{Version: checkpointVersion, Identity: j.Identity, Batch: p.Batch, Step: p.Step,
		Outputs: map[string]json.RawMessage{}}
	for _, o := range outputs {
		state, err := o.Sync()
		if err != nil {
			return err
		}
		s.Outputs[kindOf(o)] = state
	}
	for of, to := range d.texts(&s) {
		text, err := of.MarshalText()
		if err != nil {
			return err
		}
		*to = string(text)
	}
	meta, err := json.Marshal(s)
	if err != nil {
		return err
	}
	x := p.State
	t, err := safetensors.OfFloat64s("state", safetensors.F64, x.Shape, x.Data)
	if err != nil {
		return err
	}
	room, err := safetensors.New(hashName, safetensors.U8, []int{sha256.Size}, make([]byte, sha256.Size))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, []*safetensors.Tensor{t, room},
		map[string]string{"refrun": string(meta)}); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	before := b.Bytes()[:b.Len()-sha256.Size]
	own := sha256.Sum256(before)
	if err := disk.WriteFile(path, append(before, own[:]...), 0o644); err != nil {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}

func kindOf(o Output) string {
	if _, ok := o.(*Recorder); ok {
		return ofTape
	}
	return ofStates
}

// readRegular reads a regular file.
func readRegular(path string) ([]byte, error) {
	f, size, err := fault.OpenRegular(path)
	if err == nil {
		defer f.Close()
		data := make([]byte, size)
		if _, err = io.ReadFull(f, data); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: want a file that can be read", path, fault.Cause(err))
}
