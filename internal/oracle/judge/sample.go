package judge

import (
	endian "encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// Sample says which rows of an output were judged, where it was not all of them: the first and the last of each 64, and
// in each 16 one that was drawn. So a wrong tile of 16 rows or more, from a multiple of 16 on, has a row among them, in
// all of its columns. Of a judgement that was ended at its time, those that it came to.
type Sample struct {
	Rows int `json:"rows"` // that were judged
	Of   int `json:"of"`
	// Tiles are how many tiles of 16 rows there are, and Missed how many have no row that was judged.
	Tiles  int `json:"tiles"`
	Missed int `json:"tiles_missed"`
	// MissedRow is the chance that a row which alone is wrong is not among those that were judged.
	MissedRow float64 `json:"single_row_missed"`
	// Ended is set if it was ended at its time.
	Ended bool `json:"ended,omitempty"`
}

// String says it in words.
func (s *Sample) String() string {
	text := fmt.Sprintf("judged: %d of %d rows", s.Rows, s.Of)
	if s.Ended {
		text += ", which were judged in that time"
	}
	if s.Missed == 0 {
		text += "; each tile of 16 rows has one of them"
	} else {
		missed := float64(s.Missed) / float64(s.Tiles)
		text += fmt.Sprintf("; a wrong tile of 16 rows is missed with a chance of %.2g", missed)
	}
	return text + fmt.Sprintf(", and a row that alone is wrong is missed with a chance of %.2g", s.MissedRow)
}

// largeFrom is mostWhole; tests take less.
var largeFrom = mostWhole

// sampled is the question about some rows of a large one, or all of them in the order of a sample where a time is set;
// q itself where there are no rows that could be judged by themselves.
func (q *Question) sampled(types []graph.Type) *Question {
	shape := q.Output.Shape
	if len(shape) < 2 || !q.Sample && q.Until.IsZero() {
		return q
	}
	rows, n := q.rows(types), shape[0]
	large := q.Sample && n*q.perRow(types) >= largeFrom
	if rows == nil || n <= sampleTile || !large && q.Until.IsZero() {
		return q
	}
	at := q.drawn(n)
	if !large {
		at = append(at, besidesOf(at, n)...)
	}
	p := *q
	p.at = at
	p.Inputs = slices.Clone(q.Inputs)
	for k, is := range rows {
		if is {
			p.Inputs[k] = gathered(q.Inputs[k], at)
		}
	}
	p.Output = gathered(q.Output, at)
	return &p
}

// drawn are the rows of a sample, in their order, or in one that is drawn where a time is set. What is drawn follows
// from the output, so that no kernel knows it before.
func (q *Question) drawn(n int) (all []int) {
	of, number := fnv.New64a(), [8]byte{}
	for _, v := range q.Output.Data {
		endian.LittleEndian.PutUint64(number[:], math.Float64bits(v))
		of.Write(number[:])
	}
	r := rand.New(rand.NewPCG(of.Sum64(), uint64(n)))
	taken := make([]bool, n)
	take := func(i int) {
		if !taken[i] {
			taken[i], all = true, append(all, i)
		}
	}
	for i := 0; i < n; i += sampleTile {
		take(i + r.IntN(min(sampleTile, n-i)))
	}
	for i := 0; i < n; i += sampleCorners {
		take(i)
		take(min(n, i+sampleCorners) - 1)
	}
	if slices.Sort(all); !q.Until.IsZero() {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return all
}

// besidesOf are the other rows, in an order that looks like none.
func besidesOf(rows []int, n int) (all []int) {
	taken := make([]bool, n)
	for _, i := range rows {
		taken[i] = true
	}
	for i, is := range taken {
		if !is {
			all = append(all, i)
		}
	}
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(rows))))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// gathered are some rows of a tensor.
func gathered(t *tensor.Tensor, rows []int) *tensor.Tensor {
	inner := len(t.Data) / t.Shape[0]
	out := tensor.New(t.Format, append([]int{len(rows)}, t.Shape[1:]...)...)
	for k, i := range rows {
		copy(out.Data[k*inner:(k+1)*inner], t.Data[i*inner:(i+1)*inner])
	}
	return out
}

// place is where a row of what is judged stands in the output.
func (q *Question) place(row int) int {
	if q.at == nil {
		return row
	}
	return q.at[row]
}

// index is that of an element of what is judged in the output.
func (q *Question) index(i int) []int {
	at := tensor.Index(q.offset+i, q.whole)
	if q.at != nil {
		at[0] = q.at[at[0]]
	}
	return at
}

// between are the first and the last row of the output among some of what is judged.
func (q *Question) between(from, to int) (first, last int) {
	if q.at == nil {
		return from, to - 1
	}
	return slices.Min(q.at[from:to]), slices.Max(q.at[from:to])
}

// late reports whether the time is over.
func (q *Question) late() bool { return !q.Until.IsZero() && time.Now().After(q.Until) }

// sample is what was judged of n rows: so many of those that were drawn, in their order; nil if that is all.
func (q *Question) sample(judged []int, n int) *Sample {
	if len(judged) == n {
		return nil
	}
	seen := make([]bool, (n+sampleTile-1)/sampleTile)
	for _, i := range judged {
		seen[i/sampleTile] = true
	}
	s := &Sample{Rows: len(judged), Of: n, Tiles: len(seen), Ended: len(judged) < len(q.at)}
	s.MissedRow = 1 - float64(len(judged))/float64(n)
	for _, is := range seen {
		if !is {
			s.Missed++
		}
	}
	return s
}
