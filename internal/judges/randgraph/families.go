package randgraph

import "strings"

// The makers of operations that are alike.

// two is an operation on two values, whose shapes are spread, or on one and a number.
func two(b *builder, name string) made {
	v, s := b.ranked(0, 1, 2, 3, 4, 4)
	a := attributes{}
	if (name == "add" || name == "sub") && b.IntN(4) == 0 {
		a["alpha"] = 0.3
	}
	switch b.IntN(4) {
	case 0:
		a[[]string{"self", "other"}[b.IntN(2)]] = []float64{0.7, -1, 2, 3}[b.IntN(4)]
		return made{a, []int{v}}
	case 1:
		to := append([]int{}, s...)
		for i := range to {
			if b.flip() {
				to[i] = 1
			}
		}
		in := []int{v, b.like(to[b.IntN(len(to)+1):]...)}
		if b.flip() {
			in[0], in[1] = in[1], in[0]
		}
		return made{a, in}
	}
	return made{a, []int{v, b.like(s...)}}
}

func convolution(axes int, transposed bool) func(b *builder) made {
	return func(b *builder) made { return b.convolution(axes, transposed) }
}

func (b *builder) convolution(axes int, transposed bool) made {
	groups := []int{1, 1, 1, 2, 3}[b.IntN(5)]
	ic, oc := groups*(1+b.IntN(4)), groups*(1+b.IntN(4))
	if b.IntN(4) == 0 {
		ic, oc = 8*groups, 8*groups
	}
	kernel, size := b.some(axes, 1, 4), b.some(axes, 2, 9)
	if side := []int{1, 3, 5}[b.IntN(3)]; b.flip() {
		for i := range kernel {
			kernel[i] = side
		}
	}
	a := attributes{
		"groups": groups, "stride": b.some(axes, 1, 3), "dilation": b.some(axes, 1, 3), "padding": b.some(axes, 0, 3),
	}
	if b.flip() {
		delete(a, "dilation")
		a["padding"] = kernel[0] / 2
	}
	if !transposed {
		a["padding_mode"] = []string{"zeros", "zeros", "circular", "reflect", "replicate"}[b.IntN(5)]
	}
	weight := append([]int{oc, ic / groups}, kernel...)
	if transposed {
		weight = append([]int{ic, oc / groups}, kernel...)
	}
	w, shape, again := b.weight(axes + 2)
	if again && !transposed && shape[0]%groups == 0 { // the weight of another node, perhaps in other groups
		oc, ic = shape[0], groups*shape[1]
	} else {
		w = b.parameter(weight...)
	}
	in := []int{b.like(append([]int{1 + b.IntN(2), ic}, size...)...), w}
	if b.flip() {
		in = append(in, b.parameter(oc))
	}
	return made{a, in}
}

func pooling(axes int) func(b *builder) made {
	return func(b *builder) made { return b.pooling(axes) }
}

func (b *builder) pooling(axes int) made {
	v, _ := b.ranked(axes + 2)
	return made{attributes{"kernel_size": b.some(axes, 1, 4), "stride": b.some(axes, 1, 4),
		"padding": b.some(axes, 0, 2), "ceil_mode": b.flip()}, []int{v}}
}

func adaptive(axes int) func(b *builder) made {
	return func(b *builder) made {
		v, _ := b.ranked(axes+1, axes+2)
		return made{attributes{"output_size": b.some(axes, 1, 5)}, []int{v}}
	}
}

func interpolate(b *builder) made {
	v, s := b.ranked(3, 4, 4, 5)
	mode := []string{"nearest", "nearest-exact", "area", []string{"linear", "bilinear", "trilinear"}[len(s)-3]}[b.IntN(4)]
	if len(s) == 4 && b.IntN(4) == 0 {
		mode = "bicubic"
	}
	a := attributes{"mode": mode, "size": b.some(len(s)-2, 1, 8)}
	if strings.Contains(mode, "linear") || mode == "bicubic" {
		a["align_corners"], a["antialias"] = b.flip(), b.flip()
	}
	return made{a, []int{v}}
}

func gridSampler(b *builder) made {
	v, s := b.ranked(4, 4, 5)
	axes := len(s) - 2
	mode := []string{"bilinear", "nearest", "bicubic"}[b.IntN(7-len(s))]
	grid := append(append([]int{s[0]}, b.some(axes, 1, 6)...), axes)
	return made{attributes{"mode": mode, "padding_mode": []string{"zeros", "border", "reflection"}[b.IntN(3)],
		"align_corners": b.flip(), "round_first": b.flip()}, []int{v, b.like(grid...)}}
}

// running are statistics of channels.
func running(b *builder) made {
	v, s := b.ranked(2, 3, 4)
	return made{attributes{"momentum": []float64{0, 0.5, 0.9, 1}[b.IntN(4)]}, []int{v, b.like(s[1])}}
}

// product is any of the products of matrices: which shapes fit, inference knows.
func product(b *builder) made {
	n, m, k, batch := 1+b.IntN(9), 1+b.IntN(9), 1+b.IntN(30), 1+b.IntN(3)
	switch b.IntN(6) {
	case 0:
		return made{nil, []int{b.like(n, k), b.parameter(k, m)}}
	case 1:
		return made{nil, []int{b.like(batch, n, k), b.like(batch, k, m)}}
	case 2:
		return made{nil, []int{b.like(batch, n, k), b.parameter(m, k), b.parameter(m)}}
	case 3:
		return made{attributes{"alpha": 0.5, "beta": 2}, []int{b.like(n, m), b.like(n, k), b.like(k, m)}}
	case 4:
		return made{attributes{"alpha": 0.5, "beta": 2}, []int{b.like(batch, n, m), b.like(batch, n, k), b.like(batch, k, m)}}
	}
	return made{attributes{"transA": true, "transB": true}, []int{b.like(k, n), b.like(m, k), b.like(m)}}
}

func attention(b *builder) made {
	batch, n, m, k, v := b.shape(1+b.IntN(2)), 1+b.IntN(6), 1+b.IntN(6), 1+b.IntN(9), 1+b.IntN(5)
	of := func(last ...int) []int { return append(append([]int{}, batch...), last...) }
	a, in := attributes{}, []int{b.like(of(n, k)...), b.like(of(m, k)...), b.like(of(m, v)...)}
	switch b.IntN(4) {
	case 0:
		a["is_causal"] = true
	case 1:
		in = append(in, b.like(n, m))
	case 2:
		in = append(in, b.whole(0, 2, n, m))
	}
	if b.flip() {
		a["scale"] = 0.5
	}
	return made{a, in}
}

func einsum(b *builder) made {
	n, m, k := 1+b.IntN(5), 1+b.IntN(5), 1+b.IntN(8)
	switch b.IntN(3) {
	case 0:
		return made{attributes{"equation": "ik,kj->ij"}, []int{b.like(n, k), b.like(k, m)}}
	case 1:
		return made{attributes{"equation": "bik,bjk->bij"}, []int{b.like(2, n, k), b.like(2, m, k)}}
	}
	return made{attributes{"equation": "ij->ji"}, []int{b.like(n, m)}}
}

func channelNorm(b *builder) made {
	v, s := b.ranked(2, 3, 4, 4, 4)
	c := s[1]
	a, in := attributes{}, []int{v}
	switch b.IntN(4) {
	case 0: // of a group norm or an instance norm
		a["num_groups"] = []int{1, c}[b.IntN(2)]
	case 1:
	case 2:
		a["training"] = true
	case 3: // of a batch norm
		return made{a, []int{v, b.parameter(c), b.parameter(c), b.parameter(c), b.parameter(c)}}
	}
	if b.flip() {
		in = append(in, b.parameter(c), b.parameter(c))
	}
	return made{a, in}
}

func rowNorm(b *builder) made {
	v, s := b.ranked(1, 2, 3, 4)
	last := s[len(s)-1-b.IntN(len(s)):]
	in := []int{v}
	for range b.IntN(3) {
		in = append(in, b.parameter(last...))
	}
	return made{attributes{"normalized_shape": last}, in}
}

func along(name string) func(b *builder) made {
	return func(b *builder) made {
		v, s := b.ranked(1, 2, 3, 4)
		return made{attributes{name: b.axis(len(s))}, []int{v}}
	}
}

// quantized returns a scale and a zero point for an input of shape s, and what they belong to.
func quantized(b *builder, s []int) (attributes, []int) {
	a, of, axis := attributes{}, []int{}, b.axis(len(s))
	switch at := (axis + len(s)) % len(s); b.IntN(3) {
	case 0:
		of = append(of, s[at])
	case 1:
		size := 1 + b.IntN(3)
		of = append(of, s...)
		of[at] = (s[at] + size - 1) / size
		a["block_size"] = size
	}
	if len(of) > 0 {
		a["axis"] = axis
	}
	in := []int{b.constant(of...)}
	if b.flip() {
		in = append(in, b.whole(0, 100, of...))
	}
	return a, in
}

func state(b *builder) made {
	v, s := b.any()
	return made{attributes{"start_dim": b.IntN(len(s) + 1)}, []int{v}}
}

func overAxes(name string) func(b *builder) made {
	return func(b *builder) made {
		v, s := b.any()
		return made{attributes{name: b.axes(len(s))}, []int{v}}
	}
}

func ordered(b *builder) made {
	v, s := b.ranked(1, 2, 3)
	a := attributes{"dim": b.axis(len(s))}
	if b.flip() {
		a["k"] = 1 + b.IntN(3)
	} else {
		a["descending"] = b.flip()
	}
	return made{a, []int{v}}
}

func oneAxis(b *builder) made {
	v, s := b.ranked(1, 2, 3, 4)
	return made{attributes{"dim": b.axis(len(s)), "keepdim": b.flip()}, []int{v}}
}

func reduction(b *builder) made {
	v, s := b.ranked(1, 2, 3, 4)
	return made{attributes{"dim": b.axes(len(s)), "keepdim": b.flip()}, []int{v}}
}

func fourier(b *builder) made {
	v, s := b.ranked(1, 2, 3)
	a := attributes{"norm": []string{"backward", "forward", "ortho"}[b.IntN(3)], "dim": b.IntN(len(s))}
	if b.flip() { // complex numbers are pairs
		s = append(b.shape(1+b.IntN(2)), 2)
		v = b.like(s...)
		a["dim"] = b.IntN(len(s) - 1)
	}
	return made{a, []int{v}}
}

func joined(b *builder) made {
	v, s := b.ranked(1, 2, 3, 4)
	in := []int{v}
	for range b.IntN(3) {
		in = append(in, b.like(s...))
	}
	return made{attributes{"dim": b.axis(len(s))}, in}
}

func chosen(b *builder) made {
	v, s := b.ranked(1, 2, 3, 4)
	return made{nil, []int{b.whole(0, 2, s...), v, b.like(s...)}}
}

func permuted(b *builder) made {
	v, s := b.any()
	return made{attributes{"dims": b.Perm(len(s))}, []int{v}}
}

func triangle(b *builder) made {
	v, _ := b.ranked(2, 3)
	return made{attributes{"diagonal": b.IntN(7) - 3}, []int{v}}
}

func scattered(b *builder) made {
	v, s := b.ranked(1, 2, 3)
	a := b.IntN(len(s))
	to := append([]int{}, s...)
	to[a] = 1 + b.IntN(4)
	at := attributes{"dim": a}
	if b.flip() { // of scatter_reduce
		at["reduce"] = []string{"sum", "prod", "mean", "amax", "amin"}[b.IntN(5)]
		at["include_self"] = b.flip()
	}
	return made{at, []int{v, b.whole(0, s[a], to...), b.like(to...)}}
}

func indexed(b *builder) made {
	v, s := b.ranked(1, 2, 3)
	a, n := b.IntN(len(s)), 1+b.IntN(5)
	to := append([]int{}, s...)
	to[a] = n
	at := attributes{"dim": a}
	if b.flip() { // of index_reduce
		at["reduce"] = []string{"prod", "mean", "amax", "amin"}[b.IntN(4)]
	}
	return made{at, []int{v, b.whole(0, s[a], n), b.like(to...)}}
}
