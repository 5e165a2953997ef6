package rollout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/safetensors"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
)

// Recorder writes every primitive draw of a rollout to a tape, F32, that
// noise.OpenTape reads. It is an [Output]; put Stream between the engine and
// the stream it records.
type Recorder struct {
	partialFile
	kinds []noise.Kind
	dims  [][]int   // of each draw, without step and realization
	at    [][]int64 // offset of the array of engine batch k, draw i
	sizes []int     // realizations of engine batch k
}

// newRecorder creates the tape of a rollout of op, or continues one if state is
// not nil.
func newRecorder(at partialFile, op *operator.Operator, c Config, s Shape, state []byte) (*Recorder, error) {
	if c.Timesteps < 2 {
		return nil, fmt.Errorf("%s: no steps: want at least one to record", at.path)
	}
	kinds, channels := op.Draws()
	if kinds == nil {
		return nil, errors.New("the operator has no noise: want one that has, to record it")
	}
	r := &Recorder{partialFile: at, kinds: kinds}
	for _, kind := range kinds {
		d := []int{channels, s.H, s.W}
		switch kind {
		case noise.Bernoulli:
			d = []int{channels, 1, 1}
		case noise.ComplexNormal:
			d = append(d, 2)
		}
		r.dims = append(r.dims, d)
	}
	var all []*safetensors.Tensor
	var offset int64
	for k, b := range c.EngineBatches() {
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
	head, err := safetensors.Header(all, nil)
	if err != nil {
		return nil, err
	}
	for _, at := range r.at {
		for i := range at {
			at[i] += int64(len(head))
		}
	}
	return r, r.open(head, int64(len(head))+offset, state != nil)
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
	return &Stream{s.Name, func(k, lo, hi, t int) (noise.Draws, error) {
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
	r.buf = fp16.Float32.Append(r.buf[:0], dst)
	return r.write(r.buf, r.at[d.k][i]+int64(d.t-1)*int64(len(r.buf)))
}
