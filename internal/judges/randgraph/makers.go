package randgraph

import "github.com/refrun/refrun/internal/op/pointwise"

// attributes are those of a node, by name.
type attributes = map[string]any

// makers choose the attributes and inputs of a node of each operation: of those here that are
// nil there is none, and another test holds them. A new operation has a row here.
var makers = map[string]func(b *builder) made{
	"noise": nil, // draws: see TestRun of package plan and the tests of operator

	"conv1d": convolution(1, false), "conv2d": convolution(2, false), "conv3d": convolution(3, false),
	"conv_transpose1d": convolution(1, true), "conv_transpose2d": convolution(2, true),
	"conv_transpose3d": convolution(3, true),
	"max_pool1d":       pooling(1), "max_pool2d": pooling(2), "max_pool3d": pooling(3), "avg_pool1d": pooling(1),
	"avg_pool2d": pooling(2), "avg_pool3d": pooling(3),
	"lp_pool":             pooling(2),
	"adaptive_avg_pool1d": adaptive(1), "adaptive_avg_pool2d": adaptive(2), "adaptive_avg_pool3d": adaptive(3),
	"adaptive_max_pool1d": adaptive(1), "adaptive_max_pool2d": adaptive(2), "adaptive_max_pool3d": adaptive(3),
	"interpolate": interpolate, "grid_sampler": gridSampler,

	"matmul": product, "mm": product, "bmm": product, "linear": product, "addmm": product, "baddbmm": product,
	"gemm": product, "einsum": einsum,

	"batch_norm": channelNorm, "group_norm": channelNorm, "instance_norm": channelNorm, "layer_norm": rowNorm,
	"rms_norm":    rowNorm,
	"inverse_std": reduction, "log_sum": reduction, "sum_squares": reduction, "running_mean": running,
	"running_var": running, "lp_normalize": along("dim"),
	"mean_variance_normalization": overAxes("axes"), "scaled_dot_product_attention": attention,
	"minmax": state, "zscore": state,
	"cast": func(b *builder) made {
		v, _ := b.any()
		return made{attributes{
			"dtype": []string{"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "bool"}[b.IntN(8)],
		}, []int{v}}
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
	"all": reduction, "any": reduction, "amax": reduction, "amin": reduction, "mean": reduction, "prod": reduction,
	"sum": reduction, "logsumexp": reduction,
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
		return made{attributes{"dim": []int{a}, "start": []int{first}, "end": []int{first + 1 + b.IntN(s[a])},
			"step": []int{1 + b.IntN(3)}}, []int{v}}
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
		return made{attributes{"downscale_factor": f},
			[]int{b.like(1+b.IntN(2), 1+b.IntN(3), f*(1+b.IntN(3)), f*(1+b.IntN(3)))}}
	},
	"depth_to_space": func(b *builder) made {
		f := 1 + b.IntN(3)
		return made{attributes{"blocksize": f, "mode": []string{"DCR", "CRD"}[b.IntN(2)]},
			[]int{b.like(1+b.IntN(2), f*f*(1+b.IntN(3)), 1+b.IntN(4), 1+b.IntN(4))}}
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
		return made{attributes{"dim": a, "from_end": true}, []int{v, b.whole(-s[a], s[a], 1+b.IntN(5))}}
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
