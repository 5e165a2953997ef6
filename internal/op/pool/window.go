package pool

import (
	"fmt"
	"math/bits"
)

// Window is the part of a window along one axis that lies in the source: Count numbers
// from First on, Step apart.
type Window struct {
	First, Count, Step int
	Padded             int // numbers and padding: at least Count
}

// Windows are the windows along an axis of In numbers, one for each number of the
// result.
type Windows struct {
	In int
	Of []Window
}

// Geometry is how a window slides along an axis. None of the first three may be left 0.
type Geometry struct {
	Kernel   int // numbers of a window, 1 or more
	Stride   int // from one window to the next, 1 or more
	Dilation int // from one number of a window to the next, 1 or more
	Before   int // padding before the first number, less than a window is long
	After    int // padding after the last, the same
	// Ceil adds a last window that reaches beyond the padding, unless it would
	// begin behind the last number: PyTorch's ceil_mode, and ONNX's.
	Ceil bool
}

// extent bounds every number of a Geometry, so that none of their products overflows.
const extent = 1 << 30

// Fault says why the geometry has no windows along an axis of that size, in the words of
// PyTorch's arguments. "" if it has. Padding must be less than a window is long, as in
// ONNX; PyTorch wants at most half.
func (g Geometry) Fault(in int) string {
	for _, a := range []struct {
		name         string
		value, least int
	}{
		{"kernel_size", g.Kernel, 1},
		{"stride", g.Stride, 1},
		{"dilation", g.Dilation, 1},
		{"padding", g.Before, 0},
		{"padding", g.After, 0},
	} {
		if a.value < a.least || a.value > extent {
			return fmt.Sprintf("%s: %d: want %d to 2^30", a.name, a.value, a.least)
		}
	}
	switch {
	case max(g.Before, g.After) >= g.reach():
		return fmt.Sprintf("padding: %d: want less than the window, %d", max(g.Before, g.After), g.reach())
	case in < 1 || in > 1<<60:
		return fmt.Sprintf("input is %d long: want one that is not empty", in)
	case g.size(in) < 1:
		return fmt.Sprintf("kernel_size: %d: want a window of at most %d, which fits the input and its padding",
			g.Kernel, in+g.Before+g.After)
	}
	return ""
}

// reach is the length of a window, dilation included.
func (g Geometry) reach() int { return (g.Kernel-1)*g.Dilation + 1 }

func (g Geometry) size(in int) int {
	free := in + g.Before + g.After - g.reach()
	if g.Ceil {
		free += g.Stride - 1
	}
	if free < 0 {
		return 0
	}
	n := free/g.Stride + 1
	if g.Ceil && (n-1)*g.Stride >= in+g.Before {
		n--
	}
	return n
}

// Size returns the number of windows along an axis of that size. It panics if there is a
// [Geometry.Fault].
func (g Geometry) Size(in int) int {
	if f := g.Fault(in); f != "" {
		panic("pool: " + f)
	}
	return g.size(in)
}

// Sliding returns the windows of a geometry along an axis of that size. It panics if
// there is a [Geometry.Fault].
func Sliding(in int, g Geometry) Windows {
	w := Windows{In: in, Of: make([]Window, g.Size(in))}
	for i := range w.Of {
		start := i*g.Stride - g.Before
		// The numbers are those at start + j Dilation, from j = first on.
		first := 0
		if start < 0 {
			first = (-start + g.Dilation - 1) / g.Dilation
		}
		at := start + first*g.Dilation
		w.Of[i] = Window{at, min(fit(in-at, g.Dilation), g.Kernel-first), g.Dilation,
			min(fit(in+g.After-start, g.Dilation), g.Kernel)}
		if w.Of[i].Count <= 0 {
			w.Of[i].First, w.Of[i].Count = 0, 0
		}
	}
	return w
}

// fit returns how many numbers that far apart have room.
func fit(room, apart int) int {
	if room <= 0 {
		return 0
	}
	return (room-1)/apart + 1
}

// Adaptive returns PyTorch's windows of an adaptive pooling to a size: window i is from
// floor(i in/out) to ceil((i+1) in/out).
func Adaptive(in, out int) Windows {
	if in < 1 || out < 0 {
		panic("pool: no windows of an empty axis, or fewer than none")
	}
	w := Windows{In: in, Of: make([]Window, out)}
	for i := range w.Of {
		first, _ := quotient(i, in, out)
		end, rest := quotient(i+1, in, out)
		if rest > 0 {
			end++
		}
		w.Of[i] = Window{first, end - first, 1, end - first}
	}
	return w
}

// quotient returns the quotient and the remainder of a b/c, which is at most b.
func quotient(a, b, c int) (q, r int) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	uq, ur := bits.Div64(hi, lo, uint64(c))
	return int(uq), int(ur)
}

// Blocks returns windows side by side, without padding: what fills none is left out. It
// panics if there is none.
func Blocks(in, size int) Windows {
	return Sliding(in, Geometry{Kernel: size, Stride: size, Dilation: 1})
}
