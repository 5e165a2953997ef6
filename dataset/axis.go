package dataset

import (
	"encoding/json"
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/ground/strict"
)

// kind says how an axis of the space maps a number u of [0,1) to a value.
type kind uint8

const (
	integer kind = iota // each integer of [lo,hi] as often as any other
	rounded             // lo + u (hi-lo) to the nearest integer, as Spinlock does: the ends half as often
	linear              // lo + u (hi-lo)
	logs                // lo (hi/lo)^u
	choice              // the first of which the sum of weights so far exceeds u
	truth               // u > 1/2
)

// Axis is one dimension of a space: a field of the operator, the rollout or the initial
// condition, and the values that it takes.
type Axis struct {
	Field string // such as "operator.noise_scale"; a number names an element of a list
	// Apart says that the axis takes its numbers from the counter stream, and is no
	// dimension of the points.
	Apart bool

	kind    kind
	lo, hi  float64
	choices []json.RawMessage
	sums    []float64 // of the weights up to each choice
}

// value returns the value for u as JSON.
func (a *Axis) value(u float64) json.RawMessage {
	var v any
	switch a.kind {
	case integer:
		v = int64(min(math.Floor(a.lo+float64(u*(a.hi-a.lo+1))), a.hi))
	case rounded:
		v = int64(math.RoundToEven(a.lo + float64(u*(a.hi-a.lo))))
	case linear:
		v = a.clamp(a.lo + float64(u*(a.hi-a.lo)))
	case logs:
		v = a.clamp(elem.Exp(elem.Log(a.lo) + float64(u*(elem.Log(a.hi)-elem.Log(a.lo)))))
	case choice:
		i := 0
		for i < len(a.sums)-1 && !(a.sums[i] > u) {
			i++
		}
		return a.choices[i]
	case truth:
		v = u > 0.5
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of finite numbers
	}
	return b
}

// clamp keeps what rounding took beyond an end.
func (a *Axis) clamp(v float64) float64 { return min(max(v, a.lo), a.hi) }

// readAxis reads one axis of a space, an object such as {"log": [0.001, 1]}.
func readAxis(o *strict.Object, field string) *Axis {
	a := &Axis{Field: field}
	given := 0
	for _, k := range []struct {
		key  string
		kind kind
	}{{"integer", integer}, {"real", linear}, {"log", logs}} {
		if o.Has(k.key) {
			given++
			a.kind = k.kind
			a.bounds(o, k.key)
		}
	}
	if o.Has("choice") {
		given++
		a.kind = choice
		a.choose(o, "choice")
	} else if o.Has("weights") {
		o.Fail("weights", "given: want it beside choice only")
	}
	if o.Has("boolean") {
		given++
		a.kind = truth
		if !o.Bool("boolean", true) {
			o.Fail("boolean", "false: want true, or a value of the field itself")
		}
	}
	if given != 1 {
		o.Fail("", "%d ranges: want one of integer, real, log, choice, boolean", given)
	}
	return a
}

// bounds reads the ends of a range.
func (a *Axis) bounds(o *strict.Object, key string) {
	b := o.Floats(key)
	const most = 1 << 53
	switch {
	case len(b) != 2 || !(b[0] <= b[1]):
		o.Fail(key, "%v: want two numbers, the lower one first", b)
		return
	case a.kind == logs && !(b[0] > 0):
		o.Fail(key, "%v: want numbers greater than 0", b)
	case (a.kind == integer || a.kind == rounded) &&
		(b[0] != math.Trunc(b[0]) || b[1] != math.Trunc(b[1]) || math.Abs(b[0]) > most || math.Abs(b[1]) > most):
		o.Fail(key, "%v: want two integers", b)
	case !strict.Finite(b[1] - b[0]):
		o.Fail(key, "%v: want a range within float64", b)
	}
	a.lo, a.hi = b[0], b[1]
}

// mostChoices bounds a list of choices.
const mostChoices = 4096

// choose reads the choices at key and their weights.
func (a *Axis) choose(o *strict.Object, key string) {
	a.choices = o.List(key)
	if len(a.choices) == 0 || len(a.choices) > mostChoices {
		o.Fail(key, "%d values: want 1 to %d", len(a.choices), mostChoices)
		return
	}
	weights := o.Floats("weights")
	if weights == nil {
		weights = make([]float64, len(a.choices))
		for i := range weights {
			weights[i] = 1
		}
	}
	if len(weights) != len(a.choices) {
		o.Fail("weights", "%d numbers: want %d, one for each choice", len(weights), len(a.choices))
		return
	}
	if !a.weigh(weights) {
		o.Fail("weights", "%v: want numbers of 0 or more, not all 0", weights)
	}
}

// weigh sets the sums of weights, of which all together are 1.
func (a *Axis) weigh(weights []float64) bool {
	all := 0.0
	for _, w := range weights {
		if !(w >= 0) {
			return false
		}
		all += w
	}
	if !(all > 0) || !strict.Finite(all) {
		return false
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
		a.sums = append(a.sums, sum/all)
	}
	// A choice without weight at the end is not taken for rounding's sake.
	for i := len(weights) - 1; weights[i] == 0; i-- {
		a.sums, a.choices = a.sums[:i], a.choices[:i]
	}
	return true
}
