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

// slid returns the axis of out outputs of a kernel of size k, where at has the source's
// coordinates. Where steps leave out more than kernels share, each output has coordinates of
// its own: an axis takes no more memory than what is read, however large the steps are.
func slid(out, k, stride, dilation int, at func(v int) int) axis {
	if out == 1 {
		stride = min(stride, k) // it takes none
	}
	a := axis{stride: stride, dilation: dilation}
	if n := a.reach(out, k); n <= out*k {
		a.at = make([]int, n)
		for v := range a.at {
			a.at[v] = at(v)
		}
		return a
	}
	a = axis{at: make([]int, out*k), stride: k, dilation: 1}
	for o := range out {
		for i := range k {
			a.at[o*k+i] = at(o*stride + i*dilation)
		}
	}
	return a
}

// paddedAxis is the axis of n pixels with padding on either side, in direction d, rows 0 or
// columns 1, for out outputs of a kernel of size k.
func paddedAxis(n, k, out int, p *Params, d int) axis {
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
	stride, dilation := p.steps(d)
	return slid(out, k, stride, dilation, func(v int) int {
		i := v - before
		if 0 <= i && i < n {
			return i
		}
		switch p.Padding {
		case Circular:
			return (i + n) % n
		case Reflect:
			return max(-i, min(i, 2*(n-1)-i))
		case Replicate:
			return min(max(i, 0), n-1)
		}
		return -1
	})
}

// straightAxis is the axis of n pixels, each of them an output.
func straightAxis(n int) axis { return paddedAxis(n, 1, n, &Params{}, 0) }

// dilatedAxis is the axis of a transposed convolution of n pixels with kernels of size
// k to out outputs: source pixel i is at coordinate i*stride + dilation (k-1) - padding
// before it, and nothing is in between.
func dilatedAxis(n, k, out int, p *Params, d int) axis {
	stride, dilation := p.steps(d)
	first := dilation*(k-1) - p.Pad[d]
	return slid(out, k, 1, dilation, func(v int) int {
		if i := v - first; i >= 0 && i%stride == 0 && i/stride < n {
			return i / stride
		}
		return -1
	})
}
