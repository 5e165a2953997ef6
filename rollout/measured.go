package rollout

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/refrun/refrun/fp16"
)

// Measures are the diagnostics of a rollout in the order of [DiagnosticNames], each [M,T].
type Measures [len(DiagnosticNames)][]float64

// measured is an output that keeps the diagnostics of states, and not the states. They are
// held in memory and go into every checkpoint, which its own hash protects. The partial file
// is empty: it says that a run is under way, and whose it is.
type measured struct {
	partialFile
	records int
	values  Measures
	shape   Trajectory
	ord     order
	digest  *Digest
	seen    diagnoser
	done    func(*Measures) error
}

// measuredState is what a later process needs.
type measuredState struct {
	Records int
	Values  []byte // of all measures, float64
}

// newMeasured begins, or continues from a state.
func newMeasured(at partialFile, s Trajectory, c Config, done func(*Measures) error, state []byte) (*measured, error) {
	o := &measured{partialFile: at, shape: s, ord: orderOf(c), done: done}
	n := int(s.states())
	for k := range o.values {
		o.values[k] = make([]float64, n)
	}
	if state != nil {
		var was measuredState
		if err := json.Unmarshal(state, &was); err != nil || len(was.Values) != 8*n*len(o.values) || was.Records < 0 ||
			was.Records > n {
			return o, fmt.Errorf("%s.resume: state of the output: want the one that the unfinished run left", o.path)
		}
		o.records = was.Records
		for k, v := range o.values {
			fp16.Float64.Decode(v, was.Values[8*n*k:])
		}
	}
	return o, o.open(0, state != nil)
}

// ahead implements [pairwise].
func (o *measured) ahead(t, m int, x, prev [2][]float64) { o.seen.take(2, t, m, x, prev) }

// State implements [Sink].
func (o *measured) State(t, m int, x, prev []float64) error {
	for k, v := range o.seen.values(t, m, x, prev) {
		o.values[k][m*o.shape.T+t] = v
	}
	o.digest.Add(m, x)
	o.records++
	return nil
}

// Sync implements [Output].
func (o *measured) Sync() ([]byte, error) {
	if err := o.kept(0); err != nil {
		return nil, err
	}
	s := measuredState{Records: o.records}
	for _, v := range o.values {
		s.Values = fp16.Float64.Append(s.Values, v)
	}
	return json.Marshal(s)
}

// Finish implements [Output]. What was measured is given away; then the partial file goes.
func (o *measured) Finish() error {
	if err := o.kept(0); err != nil {
		return err
	}
	if err := o.done(&o.values); err != nil {
		return err
	}
	if err := remove(partial(o.path)); err != nil {
		return err
	}
	return o.Close()
}

func (o *measured) verify() (good, all int, err error) { return o.records, o.records, nil }

func (o *measured) back(records int) error {
	o.records = records
	return nil
}

func (o *measured) order() order { return o.ord }

// state implements [trajectory]. Nobody asks: verify never finds a record that is wrong.
func (o *measured) state(m, t int, x []float64) error {
	return errors.New(o.path + ": its states are not kept")
}

func (o *measured) sealing(d *Digest) { o.digest = d }

func (o *measured) held() int64 { return 8 * int64(len(o.values)) * o.shape.states() }
