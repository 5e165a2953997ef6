package conv

import (
	"sync"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/exact/whole"
	"github.com/refrun/refrun/internal/ground/par"
)

// wholePixels is the memory of a worker: what some pixels read, and the sums.
type wholePixels struct {
	windows whole.Panels
	sums    whole.Sums
	taps    []wholeTap
}

// wholeTap is where the pixels of a panel read a channel with a tap: -1 for nowhere. If those that are somewhere lie
// side by side, as if all did from the first one on, they are side by side.
type wholeTap struct {
	places     [asm.WholeColumns]int
	first      int
	there      int // that are somewhere
	sideBySide bool
}

var wholePool = sync.Pool{New: func() any { return new(wholePixels) }}

// wholes convolves in float64 if weights and pixels are small whole numbers, and reports whether it did. Their sums are
// exact in any order: see package whole. What the pixels of a panel read is laid side by side, term by term.
func (j *job) wholes() bool {
	if j.dst.Format != fp16.Float64 || !whole.Runs() || !j.k.finiteBias {
		return false
	}
	weights := j.k.whole()
	if weights == nil {
		return false
	}
	numbers := grown(&j.memory.whole, len(j.src.Data))
	most, ok := whole.Narrow(numbers, j.src.Data)
	if !ok || !whole.FitMost(weights, most) {
		return false
	}
	asm.RanHere("convolution of whole numbers", true)
	area := j.dst.H() * j.dst.W()
	panels := (area + asm.WholeColumns - 1) / asm.WholeColumns
	par.For(j.dst.N()*panels, func(i int) {
		w := wholePool.Get().(*wholePixels)
		defer wholePool.Put(w)
		n, first := i/panels, i%panels*asm.WholeColumns
		w.windows.Make(min(asm.WholeColumns, area-first), j.k.taps())
		size := len(numbers) / j.src.N()
		j.gather(w, numbers[n*size:][:size], first, min(asm.WholeColumns, area-first))
		whole.Multiply(j.dst.Data[n*j.k.oc*area+first:], area, 1, weights, &w.windows, 0, j.k.bias, &w.sums)
	})
	return true
}

// gather lays out what pixels from the first one on read of a sample: tap by tap of a channel. A tap reads the same
// places in all channels.
func (j *job) gather(w *wholePixels, sample []int16, first, pixels int) {
	k, plane, window := j.k, j.src.H()*j.src.W(), j.k.kh*j.k.kw
	if cap(w.taps) < window {
		w.taps = make([]wholeTap, window)
	}
	w.taps = w.taps[:window]
	for i := range w.taps {
		t := &w.taps[i]
		j.places(t.places[:pixels], i, first)
		t.look(pixels)
	}
	terms := k.ic * window
	for at := 0; at < terms; at += 2 {
		some := min(2, terms-at)
		var lines [2][]int16
		for i := range some {
			channel, tap := (at+i)/window, &w.taps[(at+i)%window]
			if from := channel*plane + tap.first; tap.sideBySide && from >= 0 && from+asm.WholeColumns <= len(sample) {
				lines[i] = sample[from:]
			}
		}
		if lines[0] != nil && lines[1] != nil {
			w.windows.SetPair(at/2, lines[0], lines[1])
		}
		for i := range some {
			channel, tap, to := sample[(at+i)/window*plane:][:plane], &w.taps[(at+i)%window], w.windows.Term(at+i)
			tap.fill(to, channel, pixels, lines[0] != nil && lines[1] != nil)
		}
	}
}

// look finds first and sideBySide.
func (t *wholeTap) look(pixels int) {
	t.there, t.sideBySide = 0, pixels == asm.WholeColumns
	for i, at := range t.places[:pixels] {
		if at < 0 {
			continue
		}
		if t.there == 0 {
			t.first = at - i
		}
		t.there++
		t.sideBySide = t.sideBySide && at-i == t.first
	}
	t.sideBySide = t.sideBySide && t.there > 0
}

// fill sets a term of pixels to what they read of a channel, or if that is there, to 0 where they read nothing.
func (t *wholeTap) fill(to, channel []int16, pixels int, there bool) {
	if there && t.there == pixels {
		return
	}
	for i, at := range t.places[:pixels] {
		switch {
		case at < 0:
			to[2*i] = 0
		case !there:
			to[2*i] = channel[at]
		}
	}
}

// places sets to to where pixels from the first one on read a channel with a tap, -1 for nowhere.
func (j *job) places(to []int, tap, first int) {
	y, x := first/j.dst.W(), first%j.dst.W()
	for i := range to {
		row, col := j.rows.tap(y, tap/j.k.kw), j.cols.tap(x, tap%j.k.kw)
		if to[i] = row*j.src.W() + col; row < 0 || col < 0 {
			to[i] = -1
		}
		if x++; x == j.dst.W() {
			x, y = 0, y+1
		}
	}
}

// whole returns the weights as whole numbers, nil if they are none.
func (k *Kernel) whole() *whole.Lines {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.lookedAt {
		k.lookedAt = true
		taps := k.taps()
		weights := make([]float64, k.oc*taps)
		for i := range weights {
			weights[i] = k.packed[k.at(i/taps, i%taps)]
		}
		if l := new(whole.Lines); l.Set(weights, k.oc, taps, taps, 1) {
			k.asWhole = l
		}
	}
	return k.asWhole
}
