package judge

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// tap is what one place of a convolution's kernel gives.
type tap struct {
	graph.Op
	at int
}

// Eval implements [graph.Op].
func (o tap) Eval(c *graph.Call) error {
	x, w, y := c.In(0), c.In(1), c.Out[0]
	g := convolved(o.Op, x.Shape, w.Shape, y.Shape)
	from, err := g.read(o.Op, o.at)
	if err != nil {
		return err
	}
	clear(y.Data)
	for channel := range g.inner {
		g.add(y, x, w, from[0], channel, o.at)
	}
	return nil
}

// taps adds up what each place of a kernel gives, in their order or from the last to the first.
func (b *builder) taps(op graph.Op, in []int, weight []int) int {
	sum, n := -1, tensor.Size(weight[2:])
	for k := range n {
		if b.form.Backwards {
			k = n - 1 - k
		}
		y := b.product("tap", tap{op, k}, in[0], in[1])
		b.together("taps", y)
		if sum < 0 {
			sum = y
			continue
		}
		sum = b.step("tap_sum", plus, sum, y)
		b.together("taps", sum)
	}
	return sum
}

// reading is what a convolution's kernel reads: each of its groups inner channels, for outer results.
type reading struct {
	in, weight                         []int // shapes
	taps, groups, inner, outer, result int
	transposed                         bool
}

func convolved(op graph.Op, in, weight, out []int) reading {
	k := reading{in: in, weight: weight, taps: tensor.Size(weight[2:]), transposed: isTransposed(op), result: out[1]}
	if k.transposed {
		k.groups = out[1] / max(1, weight[1])
	} else {
		k.groups = in[1] / max(1, weight[1])
	}
	k.groups = max(1, k.groups)
	k.inner, k.outer = in[1]/k.groups, out[1]/k.groups
	return k
}

// read says of some taps which place of a channel each result reads, from 1 on, or 0: what the operation makes of the
// places themselves.
func (k reading) read(op graph.Op, taps ...int) ([][]float64, error) {
	places := fresh(fp16.Float64, append([]int{1, k.groups}, k.in[2:]...)...)
	for i := range places.Data {
		places.Data[i] = float64(i%(len(places.Data)/k.groups) + 1)
	}
	shape, n := []int{k.groups * len(taps), 1}, len(taps)
	if k.transposed {
		shape = []int{k.groups, n}
	}
	w := fresh(fp16.Float64, append(shape, k.weight[2:]...)...)
	for i := range k.groups * n {
		w.Data[i*k.taps+taps[i%n]] = 1
	}
	defer release(places, w)
	y, err := one(op, places, w)
	if err != nil {
		return nil, err
	}
	from, plane := make([][]float64, n), len(y.Data)/(k.groups*n)
	for i := range from { // all groups read alike
		from[i] = y.Data[i*plane:][:plane]
	}
	return from, nil
}

// add adds a tap's products of one channel of each group.
func (k reading) add(y, x, w *tensor.Tensor, from []float64, channel, tap int) {
	image, plane := tensor.Size(k.in[2:]), len(from)
	for row := range len(y.Data) / max(1, plane) { // a channel of an item
		o := row % k.result
		c := o/k.outer*k.inner + channel
		weight := w.Data
		if k.transposed {
			weight = weight[(c*k.outer+o%k.outer)*k.taps:]
		} else {
			weight = weight[(o*k.inner+channel)*k.taps:]
		}
		read, to := x.Data[(row/k.result*k.in[1]+c)*image:][:image], y.Data[row*plane:][:plane]
		for i, at := range from {
			if at > 0 {
				to[i] += float64(read[int(at)-1] * weight[tap])
			}
		}
	}
}
