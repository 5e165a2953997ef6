package conv

// An axis maps each coordinate of the image that the kernel slides over, along
// one direction, to the coordinate of the source it reads there, or to -1
// where there is nothing to read. Padding, stride and transposition are all in
// these tables: output o meets tap k at coordinate o*stride+k.
type axis []int

// paddedAxis is the axis of n pixels with pad more on either side.
func paddedAxis(n, pad int, padding Padding) axis {
	switch {
	case padding == Circular && pad > n:
		panic("conv: circular padding greater than the image")
	case padding == Reflect && pad >= n:
		panic("conv: reflect padding not less than the image")
	case padding > Replicate:
		panic("conv: unknown padding")
	}
	a := make(axis, n+2*pad)
	for v := range a {
		i := v - pad
		if i < 0 || i >= n {
			switch padding {
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
		a[v] = i
	}
	return a
}

// dilatedAxis is the axis of a transposed convolution: source pixel i is at
// coordinate i*stride + k-1-pad, and nothing is in between. It is as long as a
// kernel of size k with stride 1 needs for (n-1)*stride - 2*pad + k outputs.
func dilatedAxis(n, k, stride, pad int) axis {
	a := make(axis, max(0, (n-1)*stride-2*pad+2*k-1))
	for v := range a {
		a[v] = -1
		if i := v - (k - 1 - pad); i >= 0 && i%stride == 0 && i/stride < n {
			a[v] = i / stride
		}
	}
	return a
}
