package index

import "github.com/refrun/refrun/tensor"

// Cat sets dst to the sources one after the other along an axis. In all other axes they
// have dst's sizes.
func Cat(dst *tensor.Tensor, axis int, src ...*tensor.Tensor) {
	outer, inner := around(dst.Shape, axis)
	at := 0
	for _, s := range src {
		if len(s.Shape) != len(dst.Shape) {
			panic("index: sources of another rank than the destination's")
		}
		for a, d := range dst.Shape {
			if a != axis && s.Shape[a] != d {
				panic("index: sources of other sizes than the destination's")
			}
		}
		at += s.Shape[axis]
	}
	if at != dst.Shape[axis] {
		panic("index: sources that do not fill the destination")
	}
	line, at := dst.Shape[axis]*inner, 0
	for _, s := range src {
		if len(s.Data) == 0 {
			continue
		}
		n := s.Shape[axis] * inner
		pieces(outer, n, func(lo, hi int) {
			for o := lo; o < hi; o++ {
				to := dst.Data[o*line+at:][:n]
				copy(to, s.Data[o*n:])
				round(dst.Format, s.Format, to)
			}
		})
		at += n
	}
}
