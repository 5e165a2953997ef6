package randgraph

import (
	"strings"

	"github.com/refrun/refrun/pointwise"
)

// attributes are those of a node, by name.
type attributes = map[string]any

// makers choose the attributes and inputs of a node of each operation: of those here that are
// nil there is none, and another test holds them. A new operation has a row here.
var makers = map[string]func(b *builder) made{
	"noise": nil, // draws: see TestRun of package plan and the tests of operator

	"conv1d": convolution(1, false), "conv2d": convolution(2, false), "conv3d": convolution(3, false),
	"conv_transpose1d": convolution(1, true), "conv_transpose2d": convolution(2, true), "conv_transpose3d": convolution(3, true),
	"max_pool1d": pooling(1), "max_pool2d": pooling(2), "max_pool3d": pooling(3), "avg_pool1d": pooling(1), "avg_pool2d": pooling(2), "avg_pool3d": pooling(3),
	"lp_pool":             pooling(2),
	"adaptive_avg_pool1d": adaptive(1), "adaptive_avg_pool2d": adaptive(2), "adaptive_avg_pool3d": adaptive(3),
	"adaptive_max_pool1d": adaptive(1), "adaptive_max_pool2d": adaptive(2), "adaptive_max_pool3d": adaptive(3),
	"interpolate": interpolate,

	"matmul": product, "mm": product, "bmm": product, "linear": product, "addmm": product, "baddbmm": product, "gemm": product, "einsum": einsum,

	"batch_norm": channelNorm, "group_norm": channelNorm, "instance_norm": channelNorm, "layer_norm": rowNorm, "rms_norm": rowNorm,
	"mean_variance_normalization": overAxes("axes"), "scaled_dot_product_attention": attention,
	"minmax": state, "zscore": state,
	"cast": func(b *builder) made {
		v, _ := b.any()
		return made{attributes{"dtype": []string{"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "bool"}[b.IntN(8)]}, []int{v}}
	},
	"quantize_linear": func(b *builder) made {
		v, s := b.ranked(1, 2, 3, 4)
		a, in := quantized(b, s)
		a["dtype"] = []string{"int8", "uint8", "int4", "int16"}[b.IntN(4)]
		return made{a, append([]int{v}, in...)}
	},
	"dynamic_quantize_linear": func(b *builder) made {
		v, _ := b.ranked(1, 2, 3, 4)
		return made{nil, []int{v}}
	},
	"dequantize_linear": func(b *builder) made {
		s := b.shape(1 + b.IntN(4))
		a, in := quantized(b, s)
		return made{a, append([]int{b.whole(-128, 128, s...)}, in...)}
	},
	"glu": func(b *builder) made {
		s := b.shape(1 + b.IntN(4))
		a := b.IntN(len(s))
		s[a] *= 2
		return made{attributes{"dim": a}, []int{b.like(s...)}}
	},
	"softmax": along("dim"), "log_softmax": along("dim"), "cumsum": along("dim"), "sort": ordered, "topk": ordered,
	"argmax": oneAxis, "argmin": oneAxis, "max": oneAxis, "min": oneAxis,
	"all": reduction, "any": reduction, "amax": reduction, "amin": reduction, "mean": reduction, "prod": reduction, "sum": reduction, "logsumexp": reduction,
	"linalg_vector_norm": reduction, "std": reduction, "var": reduction,
	"fft_fft": fourier, "fft_ifft": fourier, "fft_rfft": fourier, "fft_irfft": fourier,
	"complex_mul": func(b *builder) made {
		s := append(b.shape(b.IntN(3)), 2)
		return made{nil, []int{b.like(s...), b.like(s...)}}
	},

	"cat": joined, "stack": joined, "where": chosen,
	"chunk": func(b *builder) made {
		v, s := b.any()
		return made{attributes{"chunks": 1 + b.IntN(4), "dim": b.axis(len(s))}, []int{v}}
	},
	"split": func(b *builder) made {
		v, s := b.any()
		a := b.axis(len(s))
		return made{attributes{"split_size": 1 + b.IntN(s[(a+len(s))%len(s)]), "dim": a}, []int{v}}
	},
	"unbind": along("dim"), "flip": overAxes("dims"), "squeeze": overAxes("dim"), "permute": permuted,
	"transpose": func(b *builder) made {
		v, s := b.any()
		return made{attributes{"dim0": b.axis(len(s)), "dim1": b.axis(len(s))}, []int{v}}
	},
	"unsqueeze": func(b *builder) made {
		v, s := b.any()
		return made{attributes{"dim": b.axis(len(s) + 1)}, []int{v}}
	},
	"flatten": func(b *builder) made {
		v, s := b.any()
		first := b.IntN(len(s))
		return made{attributes{"start_dim": first, "end_dim": first + b.IntN(len(s)-first)}, []int{v}}
	},
	"reshape": func(b *builder) made {
		v, s := b.any()
		i := b.IntN(len(s))
		return made{attributes{"shape": append(append(append([]int{}, s[i:]...), s[:i]...), 1)}, []int{v}}
	},
	"unflatten": func(b *builder) made {
		v, s := b.any()
		return made{attributes{"dim": b.IntN(len(s)), "sizes": []int{1 + b.IntN(4), -1}}, []int{v}}
	},
	"expand": func(b *builder) made {
		v, s := b.any()
		to := append([]int{1 + b.IntN(3)}, s...)
		for i := range s {
			if s[i] == 1 && b.flip() {
				to[i+1] = 1 + b.IntN(4)
			}
		}
		return made{attributes{"size": to}, []int{v}}
	},
	"repeat": func(b *builder) made {
		v, s := b.any()
		return made{attributes{"repeats": b.some(len(s), 1, 3)}, []int{v}}
	},
	"repeat_interleave": func(b *builder) made {
		v, s := b.any()
		return made{attributes{"repeats": 1 + b.IntN(3), "dim": b.axis(len(s))}, []int{v}}
	},
	"roll": func(b *builder) made {
		v, s := b.any()
		a := b.axes(len(s))
		return made{attributes{"shifts": b.some(len(a), -5, 6), "dims": a}, []int{v}}
	},
	"pad": func(b *builder) made {
		v, s := b.ranked(2, 3, 4)
		mode := []string{"constant", "reflect", "replicate", "circular"}[b.IntN(4)]
		return made{attributes{"before": b.some(len(s), 0, 3), "after": b.some(len(s), 0, 3), "mode": mode}, []int{v}}
	},
	"slice": func(b *builder) made {
		v, s := b.any()
		a := b.IntN(len(s))
		first := b.IntN(s[a])
		return made{attributes{"dim": []int{a}, "start": []int{first}, "end": []int{first + 1 + b.IntN(s[a])}, "step": []int{1 + b.IntN(3)}}, []int{v}}
	},
	"select": func(b *builder) made {
		v, s := b.any()
		a := b.IntN(len(s))
		return made{attributes{"dim": a, "index": b.IntN(2*s[a]) - s[a]}, []int{v}}
	},
	"tril": triangle, "triu": triangle,
	"pixel_shuffle": func(b *builder) made {
		f := 1 + b.IntN(3)
		return made{attributes{"upscale_factor": f}, []int{b.like(1+b.IntN(2), f*f*(1+b.IntN(3)), 1+b.IntN(4), 1+b.IntN(4))}}
	},
	"pixel_unshuffle": func(b *builder) made {
		f := 1 + b.IntN(3)
		return made{attributes{"downscale_factor": f}, []int{b.like(1+b.IntN(2), 1+b.IntN(3), f*(1+b.IntN(3)), f*(1+b.IntN(3)))}}
	},
	"depth_to_space": func(b *builder) made {
		f := 1 + b.IntN(3)
		return made{attributes{"blocksize": f, "mode": []string{"DCR", "CRD"}[b.IntN(2)]}, []int{b.like(1+b.IntN(2), f*f*(1+b.IntN(3)), 1+b.IntN(4), 1+b.IntN(4))}}
	},
	"space_to_depth": func(b *builder) made {
		f := 1 + b.IntN(3)
		return made{attributes{"blocksize": f}, []int{b.like(1+b.IntN(2), 1+b.IntN(3), f*(1+b.IntN(3)), f*(1+b.IntN(3)))}}
	},

	"one_hot": func(b *builder) made {
		return made{attributes{"num_classes": 5}, []int{b.whole(0, 5, b.shape(1+b.IntN(2))...)}}
	},
	"embedding": func(b *builder) made {
		return made{nil, []int{b.like(6, 1+b.IntN(5)), b.whole(0, 6, b.shape(1+b.IntN(2))...)}}
	},
	"embedding_bag": func(b *builder) made {
		mode := []string{"sum", "mean", "max"}[b.IntN(3)]
		return made{attributes{"mode": mode}, []int{b.like(6, 1+b.IntN(5)), b.whole(0, 6, 1+b.IntN(4), 1+b.IntN(4))}}
	},
	"index_select": func(b *builder) made {
		v, s := b.any()
		a := b.IntN(len(s))
		return made{attributes{"dim": a}, []int{v, b.whole(-s[a], s[a], 1+b.IntN(5))}}
	},
	"index": func(b *builder) made {
		v, s := b.ranked(1, 2, 3)
		n := 1 + b.IntN(4)
		in := []int{v}
		for _, d := range s[:1+b.IntN(len(s))] {
			in = append(in, b.whole(-d, d, n))
		}
		return made{nil, in}
	},
	"gather": func(b *builder) made {
		v, s := b.ranked(1, 2, 3)
		a := b.IntN(len(s))
		to := append([]int{}, s...)
		to[a] = 1 + b.IntN(6)
		return made{attributes{"dim": a}, []int{v, b.whole(0, s[a], to...)}}
	},
	"gather_nd": func(b *builder) made {
		v := b.like(5, 5, 5)
		return made{nil, []int{v, b.whole(0, 5, 1+b.IntN(4), 1+b.IntN(3))}}
	},
	"scatter": scattered, "scatter_add": scattered, "scatter_reduce": scattered,
	"scatter_nd": func(b *builder) made {
		n := 1 + b.IntN(4)
		reduce := []string{"none", "add", "mul", "max", "min"}[b.IntN(5)]
		return made{attributes{"reduce": reduce}, []int{b.like(5, 4), b.whole(0, 5, n, 1), b.like(n, 4)}}
	},
	"index_add": indexed, "index_reduce": indexed,
	"index_put": func(b *builder) made {
		n := 1 + b.IntN(4)
		return made{attributes{"accumulate": b.flip()}, []int{b.like(5, 4), b.whole(0, 5, n), b.whole(0, 4, n), b.like(n)}}
	},
}

func init() {
	for _, name := range append(pointwise.Names(), "clamp", "relu", "gelu", "silu", "tanh", "identity") {
		makers[name] = func(b *builder) made {
			v, _ := b.ranked(0, 1, 2, 3, 4, 4, 4)
			a := attributes{}
			switch name {
			case "clamp", "clip":
				a = attributes{"min": -0.5, "max": 1.25}
			case "gelu":
				a["approximate"] = []string{"none", "tanh"}[b.IntN(2)]
			case "leaky_relu":
				a["negative_slope"] = 0.1
			}
			return made{a, []int{v}}
		}
	}
	for _, name := range pointwise.OpNames() {
		makers[name] = func(b *builder) made { return two(b, name) }
	}
}

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
	return func(b *builder) made {
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
		a := attributes{"groups": groups, "stride": b.some(axes, 1, 3), "dilation": b.some(axes, 1, 3), "padding": b.some(axes, 0, 3)}
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
}

func pooling(axes int) func(b *builder) made {
	return func(b *builder) made {
		v, _ := b.ranked(axes + 2)
		return made{attributes{"kernel_size": b.some(axes, 1, 4), "stride": b.some(axes, 1, 4), "padding": b.some(axes, 0, 2), "ceil_mode": b.flip()}, []int{v}}
	}
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
		a["align_corners"] = b.flip()
	}
	return made{a, []int{v}}
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
