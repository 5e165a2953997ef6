package rollout

import (
	"fmt"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// settle compares what the partial files hold with what the checkpoint says of them,
// and returns from where the run goes on: from the checkpoint, or, where a file is not
// what was written, from the last position before that from which it can go on
// exactly; nil means the beginning. note says so.
func (j *Job) settle(from *Checkpoint, s *saved, outputs []Output, d digests) (at *Checkpoint, note string, err error) {
	if from == nil {
		return nil, "", nil
	}
	pos, all, note, err := j.verified(from, outputs)
	if err != nil {
		return nil, "", err
	}
	if note == "" {
		for of, text := range d.texts(s) {
			if err := of.UnmarshalText([]byte(*text)); err != nil {
				return nil, "", fmt.Errorf("%s.resume: %w", j.Path, err)
			}
		}
		for i, o := range outputs {
			if err := o.back(all[i]); err != nil {
				return nil, "", err
			}
		}
		return from, "", nil
	}
	// The file must hold the very states, and all that a step reads: rounded ones lead elsewhere.
	if j.Graph != nil || !contains(j.Store, j.Mode.Wide()) {
		pos = Checkpoint{Step: -1}
	}
	if pos == (Checkpoint{Step: -1}) {
		note += ", so the run began again"
	} else {
		note += fmt.Sprintf(", so the run went on from state %d of engine batch %d", pos.Step, pos.Batch)
		if pos.Step < 0 {
			note = fmt.Sprintf("%s, so the run went on from the beginning of engine batch %d",
				note[:strings.LastIndex(note, ",")], pos.Batch)
		}
	}
	if err := j.reread(&pos, outputs, d.all()); err != nil {
		return nil, "", err
	}
	for _, o := range outputs {
		step := pos.Step
		if kindOf(o) == ofTape {
			step = max(step, 0) - 1
		}
		if err := o.back(o.order().until(pos.Batch, step)); err != nil {
			return nil, "", err
		}
	}
	if pos.Batch == 0 && pos.Step < 0 {
		return nil, note, nil
	}
	return &pos, note, nil
}

// verified is how far the outputs hold what was written, the records of each, and what is wrong if one of them falls
// short of the checkpoint.
func (j *Job) verified(from *Checkpoint, outputs []Output) (pos Checkpoint, all []int, note string, err error) {
	pos = *from
	all = make([]int, len(outputs)) // records of each
	for i, o := range outputs {
		good, n, err := o.verify()
		if err != nil {
			return pos, nil, "", err
		}
		if all[i] = n; good == n {
			continue
		}
		k, t, m := o.order().place(good)
		what, p := fmt.Sprintf("realization %d, state %d", o.order().batches[k][0]+m, t), Checkpoint{Batch: k, Step: t - 1}
		if kindOf(o) == ofTape { // its first step leads to state 1
			what, p = fmt.Sprintf("engine batch %d, step %d", k, t+1), Checkpoint{Batch: k, Step: t}
		}
		if p.Batch < pos.Batch || p.Batch == pos.Batch && p.Step < pos.Step {
			note = fmt.Sprintf("%s: %s: not the bytes that were written", partial(j.pathOf(o)), what)
			pos = p
		}
	}
	return pos, all, note, nil
}

// reread forms the digests up to a position from the states in the file, and takes its
// states from there.
func (j *Job) reread(pos *Checkpoint, outputs []Output, digests []*Digest) error {
	out := outputs[len(outputs)-1].(trajectory)
	x := make([]float64, j.Shape.Len())
	for k, b := range j.Config.EngineBatches()[:pos.Batch+1] {
		last := j.Config.Timesteps - 1
		if k == pos.Batch {
			last = pos.Step
		}
		var states []float64
		for m := b[0]; m < b[1]; m++ {
			for t := range last + 1 {
				if err := out.state(m, t, x); err != nil {
					return err
				}
				for _, d := range digests {
					d.Add(m, x)
				}
				if k == pos.Batch && t == last {
					states = append(states, x...)
				}
			}
		}
		if k == pos.Batch && last >= 0 {
			pos.State = j.tensorAt(last, states, b[1]-b[0])
		}
	}
	return nil
}

func (j *Job) pathOf(o Output) string {
	if kindOf(o) == ofTape {
		return j.Record
	}
	return j.Path
}

// contains reports whether format f holds all numbers of g.
func contains(f, g fp16.Format) bool {
	return f == g || f == fp16.Float64 || f == fp16.Float32 && g != fp16.Float64
}
