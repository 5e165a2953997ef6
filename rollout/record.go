package rollout

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/safetensors"
)

// Recorder writes every primitive draw of a rollout to a tape, F32, that
// noise.OpenTape reads. It is an [Output], of which a record is the draws of one step of
// an engine batch; put Stream between the engine and
// the stream it records.
type Recorder struct {
	partialFile
	ledger
	want  ledger // of the state that it was opened with
	ord   order
	table int64 // offset of the hashes of the steps
	size  int64 // of the file
	head  []byte
	step  hash.Hash // of the draws of the step at work
	kinds []noise.Kind
	dims  [][]int   // of each draw, without step and realization
	at    [][]int64 // offset of the array of engine batch k, draw i
	sizes []int     // realizations of engine batch k
}

// newRecorder creates the tape of a rollout of op, or continues one if state is
// not nil.
func newRecorder(
	at partialFile, op *operator.Operator, c Config, s Shape, metadata map[string]string, state []byte,
) (*Recorder, error) {
	if c.Timesteps < 2 {
		return nil, fmt.Errorf("%s: no steps: want at least one to record", at.path)
	}
	kinds, channels := op.Draws()
	if kinds == nil {
		return nil, errors.New("the operator has no noise: want one that has, to record it")
	}
	r := &Recorder{partialFile: at, kinds: kinds, ord: order{t: c.Timesteps - 1}, step: sha256.New()}
	for _, kind := range kinds {
		r.dims = append(r.dims, drawShape(kind, channels, s))
	}
	var all []*safetensors.Tensor
	var offset int64
	for k, b := range c.EngineBatches() {
		r.ord.batches = append(r.ord.batches, [2]int{k, k + 1})
		r.sizes = append(r.sizes, b[1]-b[0])
		r.at = append(r.at, nil)
		for i, kind := range kinds {
			name := fmt.Sprintf("batch%d", k)
			if len(kinds) > 1 {
				name += fmt.Sprintf(".draw%d.%v", i, kind)
			}
			shape := append([]int{c.Timesteps - 1, r.sizes[k]}, r.dims[i]...)
			all = append(all, &safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape})
			r.at[k] = append(r.at[k], offset)
			offset += int64(c.Timesteps-1) * int64(r.sizes[k]) * r.bytes(i)
		}
	}
	all = append(all, &safetensors.Tensor{
		Name: tableName, DType: safetensors.U8, Shape: []int{len(r.at), r.ord.t, sha256.Size},
	}, &safetensors.Tensor{Name: sealName, DType: safetensors.U8, Shape: []int{sha256.Size}})
	var err error
	if r.head, err = safetensors.Header(all, metadata); err != nil {
		return nil, err
	}
	for _, at := range r.at {
		for i := range at {
			at[i] += int64(len(r.head))
		}
	}
	r.table = int64(len(r.head)) + offset
	r.size = r.table + sha256.Size*(int64(len(r.at)*r.ord.t)+1)
	if state == nil {
		if err := r.open(r.size, false); err != nil {
			return nil, err
		}
		return r, r.back(0)
	}
	if err := json.Unmarshal(state, &r.want); err != nil || r.want.Records < 0 || r.want.Records > len(r.at)*r.ord.t {
		return nil, fmt.Errorf("%s: state of the tape: want the one that the unfinished run left", partial(r.path))
	}
	return r, r.open(r.size, true)
}

// drawShape returns the shape of one draw for one realization, as a tape holds it.
func drawShape(kind noise.Kind, channels int, s Shape) []int {
	switch kind {
	case noise.Bernoulli:
		return []int{channels, 1, 1}
	case noise.ComplexNormal:
		return []int{channels, s.H, s.W, 2}
	}
	return []int{channels, s.H, s.W}
}

// records says where the draws of each step of each engine batch are.
func (r *Recorder) records() *records {
	return &records{path: r.name(), file: r.f, count: [2]int{len(r.at), r.ord.t}, table: r.table,
		parts: func(i int) (all []extent) {
			k, t := i/r.ord.t, i%r.ord.t
			for d, at := range r.at[k] {
				n := r.bytes(d) * int64(r.sizes[k])
				all = append(all, extent{at + int64(t)*n, n})
			}
			return all
		}}
}

func (r *Recorder) order() order { return r.ord }

// verify implements [Output].
func (r *Recorder) verify() (good, all int, err error) {
	good, stale, err := r.records().verify(r.ord, r.want)
	if err == nil {
		err = r.reopen()
	}
	if stale && err == nil {
		err = r.relist(r.records(), r.ord, good)
	}
	return good, r.want.Records, err
}

// back implements [Output].
func (r *Recorder) back(n int) error {
	l, err := r.records().first(n, r.ord, r.want)
	if r.ledger = l; err != nil {
		return err
	}
	return r.write(r.head, 0)
}

// Sync implements [Output].
func (r *Recorder) Sync() ([]byte, error) {
	if err := r.sync(r.size); err != nil {
		return nil, err
	}
	return r.ledger.text()
}

// Finish implements [Output].
func (r *Recorder) Finish() error {
	return r.finish(r.records(), r.ord, r.ledger, r.head, int64(len(r.head)), r.size)
}

// bytes returns the size of draw i of one realization and step.
func (r *Recorder) bytes(i int) int64 {
	n := int64(4)
	for _, d := range r.dims[i] {
		n *= int64(d)
	}
	return n
}

// Stream returns a stream with the draws of s, recorded as they are made.
func (r *Recorder) Stream(s *Stream) *Stream {
	return &Stream{s.Name, s.Contents, func(k, lo, hi, t int) (noise.Draws, error) {
		d, err := s.at(k, lo, hi, t)
		if d == nil || err != nil {
			return d, err
		}
		return &recording{r: r, from: d, k: k, t: t}, nil
	}}
}

// State implements [Sink]: a tape has no states.
func (r *Recorder) State(int, int, []float64, []float64) error { return nil }

// recording records one application for a whole engine batch.
type recording struct {
	r          *Recorder
	from       noise.Draws
	k, t, next int
}

// Draw implements noise.Draws.
func (d *recording) Draw(kind noise.Kind, p float64, shape []int, dst []float64) error {
	if err := d.from.Draw(kind, p, shape, dst); err != nil {
		return err
	}
	r, i := d.r, d.next
	d.next++
	want := r.dims[min(i, len(r.dims)-1)]
	if kind == noise.ComplexNormal {
		want = want[:len(want)-1]
	}
	if i >= len(r.kinds) || kind != r.kinds[i] || shape[0] != r.sizes[d.k] || !slices.Equal(shape[1:], want) {
		panic("rollout: a draw that the recorder did not expect")
	}
	r.buf = appendAs(fp16.Float32, r.buf[:0], dst)
	if i == 0 {
		r.step.Reset()
	}
	r.step.Write(r.buf)
	r.push(len(r.buf))
	if err := r.write(r.buf, r.at[d.k][i]+int64(d.t-1)*int64(len(r.buf))); err != nil || d.next < len(r.kinds) {
		return err
	}
	var s sum
	r.step.Sum(s[:0])
	if at := d.k*r.ord.t + d.t - 1; at == r.Records { // not of a step that is taken again to see what went wrong
		r.add(s)
		return r.write(s[:], r.table+int64(at)*sha256.Size)
	}
	return nil
}
