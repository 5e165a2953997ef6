package grad

import (
	"slices"

	"github.com/refrun/refrun/graph"
)

// moves are the rules of what moves numbers to places that no number says: what comes from a
// number goes back to it.
func moves() map[string]rule {
	back := func(s *step) { s.give(0, s.reshape(s.d, s.shape(s.x))) }
	again := func(s *step) { s.give(0, s.apply(s.op, s.d)) } // its own transpose
	return map[string]rule{
		"reshape": back, "flatten": back, "unflatten": back, "squeeze": back, "unsqueeze": back,
		"transpose": again, "flip": again, "tril": again, "triu": again,
		"permute": permute,
		"expand":  func(s *step) { s.give(0, s.d) },
		"repeat":  repeat, "repeat_interleave": interleave,
		"roll": func(s *step) {
			o := s.op.(graph.Roll)
			o.Shifts = slices.Clone(o.Shifts)
			for i := range o.Shifts {
				o.Shifts[i] = -o.Shifts[i]
			}
			s.give(0, s.apply(o, s.d))
		},
		"cat": cat, "stack": stack,
		"split":  func(s *step) { s.joined(s.op.(graph.Split).Axis, false) },
		"chunk":  func(s *step) { s.joined(s.op.(graph.Chunk).Axis, false) },
		"unbind": func(s *step) { s.joined(s.op.(graph.Unbind).Axis, true) },
		"slice":  slice, "select": selected, "pad": pad,
	}
}

func permute(s *step) {
	rank := len(s.shape(s.x))
	back := make([]int, rank)
	given := s.op.(graph.Permute).Axes
	for a := range back {
		if len(given) == 0 {
			back[a] = rank - 1 - a
			continue
		}
		back[axesOf(given[a:a+1], rank)[0]] = a
	}
	if rank == 0 {
		s.give(0, s.d)
		return
	}
	s.give(0, s.move(s.d, back))
}

// repeat: the sum over all repetitions.
func repeat(s *step) {
	in, out := s.shape(s.x), s.shape(s.y)
	var shape, axes []int
	for a, d := range out {
		own := 1
		if i := a - len(out) + len(in); i >= 0 {
			own = in[i]
		}
		times := 1
		if own > 0 {
			times = d / own
		}
		axes = append(axes, len(shape))
		shape = append(shape, times, own)
	}
	s.give(0, s.reshape(s.sum(s.reshape(s.d, shape), axes), in))
}

func interleave(s *step) {
	o := s.op.(graph.RepeatInterleave)
	in, axis := s.shape(s.x), 0
	if o.Axis == nil {
		in = []int{elements(in)}
	} else {
		axis = axesOf([]int{*o.Axis}, len(in))[0]
	}
	shape := slices.Insert(slices.Clone(in), axis+1, o.Repeats)
	s.give(0, s.reshape(s.sum(s.reshape(s.d, shape), []int{axis + 1}), s.shape(s.x)))
}

// cut takes numbers from start to end along an axis.
func (t *tape) cut(v, axis, start, end int) int {
	return t.apply(graph.Slice{Axes: graph.Ints{axis}, Start: graph.Ints{start}, End: graph.Ints{end}}, v)
}

func cat(s *step) {
	axis, at := axesOf([]int{s.op.(graph.Cat).Axis}, len(s.shape(s.y)))[0], 0
	for k, v := range s.in {
		n := s.shape(v)[axis]
		if s.wants(k) {
			s.give(k, s.cut(s.d, axis, at, at+n))
		}
		at += n
	}
}

func stack(s *step) {
	for k := range s.in {
		if s.wants(k) {
			s.give(k, s.apply(graph.Select{Axis: s.op.(graph.Stack).Axis, Index: k}, s.d))
		}
	}
}

// joined gives the input the parts' gradients one after the other, zeros for those without.
func (s *step) joined(axis int, newAxis bool) {
	var parts []int
	for k, d := range s.g {
		if d == none {
			d = s.zeros(s.out[k])
		}
		parts = append(parts, d)
	}
	if newAxis {
		s.give(0, s.apply(graph.Stack{Axis: axis}, parts...))
		return
	}
	s.give(0, s.apply(graph.Cat{Axis: axis}, parts...))
}

// slice puts d among zeros: by a padding where the step is 1, else by an index along each axis.
func slice(s *step) {
	in := s.shape(s.x)
	start, step, size, err := s.op.(graph.Slice).Bounds(in)
	if err != nil {
		s.refuse(err.Error())
		return
	}
	if !slices.ContainsFunc(step, func(by int) bool { return by != 1 }) {
		s.padded(start)
		return
	}
	d := s.d
	for a := range in {
		places := make([]int, size[a])
		for i := range places {
			places[i] = start[a] + i*step[a]
		}
		shape := slices.Clone(s.shape(d))
		shape[a] = in[a]
		d = s.apply(graph.IndexAdd{Axis: a}, s.full(0, graph.Type{Shape: shape, Format: s.types[d].Format}),
			s.index(places), d)
	}
	s.give(0, d)
}

// padded gives d with zeros around it, so many before it along each axis.
func (s *step) padded(before []int) {
	after := make([]int, len(before))
	for a, n := range s.shape(s.x) {
		after[a] = n - before[a] - s.shape(s.d)[a]
	}
	if slices.Equal(s.shape(s.x), s.shape(s.d)) {
		s.give(0, s.d)
		return
	}
	s.give(0, s.apply(graph.Pad{Before: before, After: after, Mode: "constant"}, s.d))
}

func selected(s *step) {
	o := s.op.(graph.Select)
	axis := axesOf([]int{o.Axis}, len(s.shape(s.x)))[0]
	at := o.Index
	if at < 0 {
		at += s.shape(s.x)[axis]
	}
	before := make([]int, len(s.shape(s.x)))
	before[axis] = at
	s.d = s.apply(graph.Unsqueeze{Axes: graph.Ints{axis}}, s.d)
	if s.err == nil {
		s.padded(before)
	}
}

// pad cuts off what was put there.
func pad(s *step) {
	o := s.op.(graph.Pad)
	if o.Mode != "constant" {
		s.refuse("no rule for mode " + o.Mode)
		return
	}
	back := graph.Pad{Mode: "constant"}
	for i := range o.Before {
		back.Before, back.After = append(back.Before, -o.Before[i]), append(back.After, -o.After[i])
	}
	s.give(0, s.apply(back, s.d))
}
