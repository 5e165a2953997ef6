package diff

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
)

// Field says how far one channel of one step's states lies from the reference, in the figures
// that papers on neural operators use. NaNs and infinities follow the rule of [Diff].
type Field struct {
	Step    int `json:"step"`
	Channel int `json:"channel"`

	MaxAbs  Number `json:"max_abs"`  // greatest |got - want|
	MeanAbs Number `json:"mean_abs"` // mean of |got - want|, over all realizations

	// RelL2 is the relative L2 error |got - want|/|want| of a realization's plane, averaged over
	// the realizations (the LpLoss of Z. Li et al., "Fourier Neural Operator for Parametric
	// Partial Differential Equations", ICLR 2021, of one channel).
	RelL2 Number `json:"rel_l2"`
	// VRMSE is the root mean square of got - want over the standard deviation of want in a
	// realization's plane, averaged over the realizations (R. Ohana et al., "The Well", NeurIPS
	// 2024, without the 1e-7 that they add to the variance: of a constant plane it is 0 or infinite).
	VRMSE Number `json:"vrmse"`
}

// MeanFields returns the greatest MaxAbs and the means of the other figures of some fields, such
// as those of one step; its Step is the first one's, and its Channel -1.
func MeanFields(fields []Field) Field {
	all := Field{Channel: -1}
	n := Number(len(fields))
	for i, f := range fields {
		if i == 0 {
			all.Step = f.Step
		}
		all.MaxAbs = max(all.MaxAbs, f.MaxAbs)
		all.MeanAbs += f.MeanAbs / n
		all.RelL2 += f.RelL2 / n
		all.VRMSE += f.VRMSE / n
	}
	return all
}

// Fields forms a [Field] of every step and channel, from planes in any order.
type Fields struct {
	channels int
	sums     []fieldSums
}

// fieldSums are those of the planes of one step and channel.
type fieldSums struct {
	planes, count float64
	most          float64
	abs           total
	rel, vrmse    float64 // of planes
}

// NewFields returns one without planes.
func NewFields(steps, channels int) *Fields {
	return &Fields{channels, make([]fieldSums, steps*channels)}
}

// Add compares one realization's plane. It panics if the lengths differ.
func (f *Fields) Add(step, channel int, got, want []float64) {
	if len(got) != len(want) {
		panic("diff: got and want differ in length")
	}
	p := plane{}
	for pass := range stdPasses {
		p.std.add(pass, want)
	}
	p.add(got, want)
	f.put(step, channel, &p)
}

// AddState compares one realization's state, which has the planes of all channels one after
// another. It panics if the lengths differ or are no multiple of the channels.
func (f *Fields) AddState(step int, got, want []float64) {
	n := len(want) / f.channels
	if n*f.channels != len(want) || len(got) != len(want) {
		panic("diff: states are not of the channels' planes")
	}
	for c := range f.channels {
		f.Add(step, c, got[c*n:(c+1)*n], want[c*n:(c+1)*n])
	}
}

// Join adds the planes of another one's only step to those of a step. It panics if that has
// other channels or more steps.
func (f *Fields) Join(step int, of *Fields) {
	if of.channels != f.channels || len(of.sums) != f.channels {
		panic("diff: planes to join are not of one step and the same channels")
	}
	for c := range of.sums {
		f.sums[step*f.channels+c].join(&of.sums[c])
	}
}

func (s *fieldSums) join(of *fieldSums) {
	s.planes += of.planes
	s.count += of.count
	s.most = max(s.most, of.most)
	s.abs.low, s.abs.high = s.abs.low+of.abs.low, s.abs.high+of.abs.high
	s.rel += of.rel
	s.vrmse += of.vrmse
}

func (f *Fields) put(step, channel int, p *plane) {
	one := fieldSums{planes: 1, count: p.count, most: p.most, abs: p.abs}
	if p.count > 0 {
		rms := min(p.sq.rms(p.count), p.most)
		one.rel = ratio(rms, p.ref.rms(p.count))
		one.vrmse = ratio(rms, p.std.std())
	}
	f.sums[step*f.channels+channel].join(&one)
}

// All returns the figures, the channels of a step one after another. Of a step and channel
// without planes they are NaN.
func (f *Fields) All() []Field {
	all := make([]Field, len(f.sums))
	for i := range all {
		s := &f.sums[i]
		all[i] = Field{Step: i / f.channels, Channel: i % f.channels, MaxAbs: Number(s.most),
			RelL2: Number(s.rel / s.planes), VRMSE: Number(s.vrmse / s.planes)}
		switch {
		case s.planes == 0:
			all[i].MaxAbs, all[i].MeanAbs = Number(math.NaN()), Number(math.NaN())
		case s.count > 0:
			all[i].MeanAbs = Number(min(s.abs.mean(s.count), s.most))
		}
	}
	return all
}

// plane is what a comparison of two planes adds up.
type plane struct {
	std     deviation // of want
	count   float64   // of pairs that count
	most    float64
	abs     total
	sq, ref squares
}

func (p *plane) add(got, want []float64) {
	for i, w := range want {
		g := got[i]
		abs := math.Abs(g - w)
		if !finite(g) || !finite(w) {
			if g == w || g != g && w != w {
				continue
			}
			abs = math.Inf(1)
		}
		p.count++
		p.most = max(p.most, abs)
		p.abs.add(abs)
		p.sq.add(abs)
		if finite(w) {
			p.ref.add(w)
		}
	}
}

// CompareFields returns the figures of trajectories [M,T,C,H,W] by step and channel, in memory
// for one block of each: a plane of more than a block is read as often as its standard deviation
// needs, smaller ones once. It panics if the shape is not n numbers.
func CompareFields(got, want Stream, n int, shape [5]int) ([]Field, error) {
	m, steps, channels, size := shape[0], shape[1], shape[2], shape[3]*shape[4]
	if m*steps*channels*size != n {
		panic("diff: trajectory length does not match its shape")
	}
	r := planeReader{
		got: got, want: want, g: make([]float64, min(size, block)), w: make([]float64, min(size, block)), held: -1,
	}
	f := NewFields(steps, channels)
	for i := range m * steps * channels {
		p, err := r.plane(i*size, size)
		if err != nil {
			return nil, err
		}
		f.put(i/channels%steps, i%channels, p)
	}
	return f.All(), nil
}

// planeReader compares planes of streams, block by block.
type planeReader struct {
	got, want Stream
	g, w      []float64
	held      int // the index from which on w holds elements of want, -1 if none
}

func (r *planeReader) plane(at, size int) (*plane, error) {
	p := &plane{}
	for pass := range stdPasses + 1 {
		for lo := 0; lo < size; lo += len(r.w) {
			w := r.w[:min(len(r.w), size-lo)]
			if r.held != at+lo {
				if err := r.want.Read(w, at+lo); err != nil {
					return nil, err
				}
				r.held = at + lo
			}
			if pass < stdPasses {
				p.std.add(pass, w)
				continue
			}
			g := r.g[:len(w)]
			if err := r.got.Read(g, at+lo); err != nil {
				return nil, err
			}
			p.add(g, w)
		}
	}
	return p, nil
}

// WriteCSV writes the figures as a table with a line of names, "inf" and "nan" for what is
// not finite.
func WriteCSV(to io.Writer, fields []Field) error {
	w := csv.NewWriter(to)
	w.Write([]string{"step", "channel", "max_abs", "mean_abs", "rel_l2", "vrmse"})
	for _, f := range fields {
		line := []string{strconv.Itoa(f.Step), strconv.Itoa(f.Channel)}
		for _, x := range []Number{f.MaxAbs, f.MeanAbs, f.RelL2, f.VRMSE} {
			line = append(line, x.text())
		}
		w.Write(line)
	}
	w.Flush()
	return w.Error()
}
