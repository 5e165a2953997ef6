package conv

// An axis maps each coordinate of the image that the kernel slides over, along
// one direction, to the coordinate of the source it reads there, or to -1
// where there is nothing to read. Padding, stride, dilation and transposition are all
// in it: output o meets tap k at coordinate o*stride + k*dilation.
type axis struct {
	at               []int
	stride, dilation int
}

// tap returns the source's coordinate that output o reads with tap k, or -1.
func (a *axis) tap(o, k int) int { return a.at[o*a.stride+k*a.dilation] }

// reach returns how many coordinates k taps and the outputs up to o need.
func (a *axis) reach(o, k int) int { return (o-1)*a.stride + (k-1)*a.dilation + 1 }

// plain reports whether outputs and taps are next to each other.
func (a *axis) plain() bool { return a.stride == 1 && a.dilation == 1 }

// same reports whether the coordinates are those of n pixels of the source, each at its
// own. (A transposed convolution may have as many, and read most of them nowhere.)
func (a *axis) same(n int) bool {
	if len(a.at) != n {
		return false
	}
	for i, v := range a.at {
		if v != i {
			return false
		}
	}
	return true
}

// paddedAxis is the axis of n pixels with padding on either side, in direction d:
// rows 0, columns 1.
func paddedAxis(n int, p *Params, d int) axis {
	before, after := p.Pad[d], p.Pad[d+2]
	most := max(before, after)
	switch {
	case p.Padding == Circular && most > n:
		panic("conv: circular padding greater than the image")
	case p.Padding == Reflect && most >= n:
		panic("conv: reflect padding not less than the image")
	case p.Padding > Replicate:
		panic("conv: unknown padding")
	}
	a := axis{at: make([]int, n+before+after)}
	a.stride, a.dilation = p.steps(d)
	for v := range a.at {
		i := v - before
		if i < 0 || i >= n {
			switch p.Padding {
			case Zeros:
				i = -1
			case Circular:
				i = (i + n) % n
			case Reflect:
				i = max(-i, min(i, 2*(n-1)-i))
			case Replicate:
				i = min(max(i, 0), n-1)
			}
		}
		a.at[v] = i
	}
	return a
}

// straightAxis is the axis of n pixels, each of them an output.
func straightAxis(n int) axis { return paddedAxis(n, &Params{}, 0) }

// dilatedAxis is the axis of a transposed convolution of n pixels with kernels of size
// k to out outputs: source pixel i is at coordinate i*stride + dilation (k-1) - padding
// before it, and nothing is in between.
func dilatedAxis(n, k, out int, p *Params, d int) axis {
	stride, dilation := p.steps(d)
	a := axis{at: make([]int, out+dilation*(k-1)), stride: 1, dilation: dilation}
	first := dilation*(k-1) - p.Pad[d]
	for v := range a.at {
		a.at[v] = -1
		if i := v - first; i >= 0 && i%stride == 0 && i/stride < n {
			a.at[v] = i / stride
		}
	}
	return a
}
