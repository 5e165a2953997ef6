package graph

import (
	"fmt"
	"math"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/matmul"
	"github.com/refrun/refrun/tensor"
)

// MatMul is matmul, and mm and bmm, of inputs of two and of three dimensions only. See
// [matmul.Shape]. Products of whole numbers by whole numbers are whole, and at most 2^53 in size.
type MatMul struct{ rank int }

// Linear is linear: of an input [...,K], a weight [N,K] and, as a third input, a bias [N]
// or none. The bias is part of the sum, which is rounded once in every mode: ATen's linear
// is addmm (Linear.cpp), of which cuBLAS adds the bias to its float32 sum. (Of inputs that
// do not lie in one piece it is a product and an addition.)
type Linear struct{}

// AddMM is addmm and baddbmm: beta times an input, spread to the result, and alpha times
// the product of two more. With a beta of 0 the input is not looked at, as in ATen.
type AddMM struct {
	rank  int
	Beta  float64 `json:"beta"`
	Alpha float64 `json:"alpha"`
}

// Gemm is ONNX's: alpha A B + beta C, of matrices A and B, transposed or not, and a C or
// none, spread to the result. With a beta of 0 C is not looked at.
type Gemm struct {
	Alpha  float64 `json:"alpha"`
	Beta   float64 `json:"beta"`
	TransA bool    `json:"transA"`
	TransB bool    `json:"transB"`
}

// Einsum is einsum, of any number of inputs. More than two are a chain of products, each
// rounded. See [matmul.Einsum].
type Einsum struct {
	Equation string `json:"equation"`
	// Wide leaves operands as they are under autocast, which casts none that stand for complex numbers.
	Wide bool `json:"wide"`
}

// Name implements [Op].
func (o MatMul) Name() string {
	return map[int]string{0: "matmul", 2: "mm", 3: "bmm"}[o.rank]
}

// Name implements [Op].
func (Linear) Name() string { return "linear" }

// Name implements [Op].
func (o AddMM) Name() string {
	return map[int]string{2: "addmm", 3: "baddbmm"}[o.rank]
}

// Name implements [Op].
func (Gemm) Name() string { return "gemm" }

// Name implements [Op].
func (Einsum) Name() string { return "einsum" }

// multiplied returns the types of an operation of products with a result of that shape.
// In TF32 an input that is added, -1 for none, is not rounded.
func multiplied(m Mode, op string, in []Type, added int, shape []int) (Inference, error) {
	formats := make([]fp16.Format, len(in))
	for i, t := range in {
		formats[i] = t.Format
	}
	if _, err := m.Result(op, formats...); err != nil {
		return Inference{}, err
	}
	operands, out := m.Product(op, widest(formats))
	of := make([]fp16.Format, len(in))
	for i, f := range formats {
		of[i] = operands
		if i == added && operands == fp16.TF32 {
			of[i] = f
		}
	}
	return Inference{Operands: of, Out: []Type{{shape, out}}}, nil
}

// dimensions returns an error unless the inputs have that many dimensions.
func dimensions(in []Type, rank int) error {
	for k, t := range in {
		if len(t.Shape) != rank {
			return fmt.Errorf("input %d: shape %v: want %d dimensions", k, t.Shape, rank)
		}
	}
	return nil
}

// productShape returns the shape of a product, to which an input that is added must be
// spread.
func productShape(a, b Type, p matmul.Params, added ...Type) ([]int, error) {
	shape, err := matmul.Shape(a.Shape, b.Shape, p)
	if err == nil && len(added) > 0 {
		p.C = &tensor.Tensor{Shape: added[0].Shape}
		_, err = matmul.Shape(a.Shape, b.Shape, p)
	}
	if err != nil {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "matmul: "))
	}
	return shape, nil
}

// Infer implements [Op].
func (o MatMul) Infer(m Mode, in []Type) (Inference, error) {
	err := arity(in, 2, 2)
	whole := err == nil && in[0].Format == fp16.Int64 && in[1].Format == fp16.Int64
	if err == nil && !whole {
		err = real(in)
	}
	if err == nil && o.rank != 0 {
		err = dimensions(in, o.rank)
	}
	if err == nil && o.rank == 3 && in[0].Shape[0] != in[1].Shape[0] {
		err = fmt.Errorf("shapes: %v and %v: want as many matrices", in[0].Shape, in[1].Shape)
	}
	if err != nil {
		return Inference{}, err
	}
	shape, err := productShape(in[0], in[1], matmul.Params{})
	if err != nil {
		return Inference{}, err
	}
	if whole {
		return Inference{Out: []Type{{shape, fp16.Int64}}}, nil
	}
	return multiplied(m, o.Name(), in, -1, shape)
}

// Infer implements [Op].
func (o Linear) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 2, 3); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	x, w := in[0].Shape, in[1].Shape
	switch {
	case len(w) != 2:
		return Inference{}, fmt.Errorf("weight of shape %v: want [N,K]", w)
	case len(x) == 0 || x[len(x)-1] != w[1]:
		return Inference{}, fmt.Errorf("input of shape %v: want %d numbers along the last dimension", x, w[1])
	case len(in) == 3 && (len(in[2].Shape) != 1 || in[2].Shape[0] != w[0]):
		return Inference{}, fmt.Errorf("bias of shape %v: want [%d]", in[2].Shape, w[0])
	}
	return multiplied(m, o.Name(), in, 2, append(x[:len(x)-1:len(x)-1], w[0]))
}

// Infer implements [Op].
func (o AddMM) Infer(m Mode, in []Type) (Inference, error) {
	err := arity(in, 3, 3)
	if err == nil {
		err = real(in)
	}
	if err == nil {
		err = dimensions(in[1:], o.rank)
	}
	if err == nil && o.rank == 3 && in[1].Shape[0] != in[2].Shape[0] {
		err = fmt.Errorf("shapes: %v and %v: want as many matrices", in[1].Shape, in[2].Shape)
	}
	if err != nil {
		return Inference{}, err
	}
	shape, err := productShape(in[1], in[2], matmul.Params{}, in[0])
	if err != nil {
		return Inference{}, err
	}
	return multiplied(m, o.Name(), in, 0, shape)
}

// Infer implements [Op].
func (o Gemm) Infer(m Mode, in []Type) (Inference, error) {
	err := arity(in, 2, 3)
	if err == nil {
		err = real(in)
	}
	if err == nil {
		err = dimensions(in[:2], 2)
	}
	if err != nil {
		return Inference{}, err
	}
	shape, err := productShape(in[0], in[1], matmul.Params{TransA: o.TransA, TransB: o.TransB}, in[2:]...)
	if err != nil {
		return Inference{}, err
	}
	return multiplied(m, o.Name(), in, 2, shape)
}

// Infer implements [Op].
func (o Einsum) Infer(m Mode, in []Type) (Inference, error) {
	if err := arity(in, 1, len(in)); err != nil {
		return Inference{}, err
	}
	if err := real(in); err != nil {
		return Inference{}, err
	}
	shapes := make([][]int, len(in))
	for i, t := range in {
		shapes[i] = t.Shape
	}
	shape, err := matmul.EinsumShape(o.Equation, shapes...)
	if err != nil {
		return Inference{}, fmt.Errorf("equation: %s", strings.TrimPrefix(err.Error(), "einsum: "))
	}
	if numbers, _ := matmul.EinsumCost(o.Equation, shapes...); numbers > mostElements {
		return Inference{}, fmt.Errorf("equation: %.60q: makes %.3g numbers on the way: want at most 2^40",
			o.Equation, numbers)
	}
	if o.Wide {
		m = Mode{Precision: m.Wide()}
	}
	return multiplied(m, o.Name(), in, -1, shape)
}

// multiplication is the inputs that an operation multiplies, with one that is added, or -1.
type multiplication struct {
	a, b, added int
	matmul.Params
}

func (o MatMul) operands(*Call) multiplication { return multiplication{0, 1, -1, matmul.Params{}} }

func (o Linear) operands(c *Call) multiplication {
	bias := 2
	if c.Inputs() == 2 {
		bias = -1
	}
	return multiplication{0, 1, bias, matmul.Params{TransB: true}}
}

func (o AddMM) operands(*Call) multiplication {
	return multiplication{1, 2, addend(0, o.Beta), matmul.Params{Alpha: &o.Alpha, Beta: &o.Beta}}
}

func (o Gemm) operands(c *Call) multiplication {
	added := -1
	if c.Inputs() == 3 {
		added = addend(2, o.Beta)
	}
	return multiplication{0, 1, added, matmul.Params{TransA: o.TransA, TransB: o.TransB, Alpha: &o.Alpha, Beta: &o.Beta}}
}

// Eval implements [Op].
func (o MatMul) Eval(c *Call) error {
	if c.Out[0].Format == fp16.Int64 {
		return wholeProduct(c.Out[0], c.In(0), c.In(1))
	}
	multiply(c, o.operands(c))
	return nil
}

// wholeProduct multiplies in float64, in which sums of at most 2^53 in size are exact in any order. The terms' sizes
// add up to no more, or nobody knows.
func wholeProduct(dst, a, b *tensor.Tensor) error {
	in := [2]*tensor.Tensor{a, b}
	var sizes [2]*tensor.Tensor
	for k, t := range in {
		in[k], sizes[k] = tensor.Of(fp16.Float64, t.Data, t.Shape...), tensor.New(fp16.Float64, t.Shape...)
		for i, v := range t.Data {
			sizes[k].Data[i] = math.Abs(v)
		}
	}
	y := tensor.Of(fp16.Float64, dst.Data, dst.Shape...)
	matmul.Forward(y, sizes[0], sizes[1], matmul.Params{})
	for _, v := range y.Data {
		if v > 1<<53 {
			return fmt.Errorf("sum: %.0f: want whole numbers of at most 2^53 in size", v)
		}
	}
	matmul.Forward(y, in[0], in[1], matmul.Params{})
	return nil
}

// Eval implements [Op].
func (o Linear) Eval(c *Call) error {
	multiply(c, o.operands(c))
	return nil
}

// Eval implements [Op].
func (o AddMM) Eval(c *Call) error {
	multiply(c, o.operands(c))
	return nil
}

// Eval implements [Op].
func (o Gemm) Eval(c *Call) error {
	multiply(c, o.operands(c))
	return nil
}

// addend returns the input that is added with a factor, -1 for none.
func addend(input int, beta float64) int {
	if beta == 0 {
		return -1
	}
	return input
}

// Eval implements [Op].
func (o Einsum) Eval(c *Call) error {
	operands := make([]*tensor.Tensor, c.Inputs())
	for i := range operands {
		operands[i] = c.In(i)
	}
	of := c.program.Operand(c.node, 0)
	return matmul.EinsumChain(c.Out[0], o.Equation,
		func(t *tensor.Tensor) *tensor.Tensor { return c.Mode.cast(t, of) }, operands...)
}

// multiply sets the output to a product. A constant matrix b is packed once, with a constant
// vector that is added.
func multiply(c *Call, of multiplication) {
	a := c.In(of.a)
	if k := packed(c, of.b, of.added, of.Params); k != nil {
		k.ForwardThen(c.Out[0], a, c.then())
		return
	}
	b := c.In(of.b)
	if _, is := c.program.graph.Nodes[c.node].Op.(MatMul); is && c.Mode.Fast &&
		fastProduct(typeOf(c.Out[0]), typeOf(a), typeOf(b)) {
		matmul.ForwardFast(c.Out[0], a, b, c.then())
		return
	}
	p := of.Params
	p.Then = c.then()
	if of.added >= 0 {
		p.C = c.In(of.added)
	}
	matmul.Forward(c.Out[0], a, b, p)
}

func typeOf(t *tensor.Tensor) Type { return Type{t.Shape, t.Format} }

// fastProduct reports whether fast arithmetic has products of matrices of those types.
func fastProduct(out, a, b Type) bool {
	for _, t := range []Type{out, a, b} {
		if t.Format != fp16.Float32 || len(t.Shape) < 2 {
			return false
		}
	}
	return a.Shape[len(a.Shape)-1] > 0
}

// packedKey is what, beside the matrix, decides a packed operand.
type packedKey struct {
	operands fp16.Format
	tf32     fp16.Rounding
	trans    bool
	fast     bool
	patches  int // of a convolution, of so many pixels
	stride   int // of these, if there are several
	bias     *tensor.Tensor
}

// packed returns a constant right operand as it is kept, nil where it is none.
func packed(c *Call, b, added int, p matmul.Params) *matmul.Kernel {
	one := func(v *float64) bool { return v == nil || *v == 1 }
	if c.constantOf(b) == nil || len(c.constantOf(b).Shape) != 2 || p.TransA || !one(p.Alpha) {
		return nil
	}
	key, inputs := packedKey{
		operands: c.program.Operand(c.node, b), tf32: c.Mode.TF32, trans: p.TransB, fast: c.Mode.Fast,
	}, []int{b}
	if added >= 0 {
		columns := c.in[b].Shape[1]
		if p.TransB {
			columns = c.in[b].Shape[0]
		}
		if s := c.in[added].Shape; c.constantOf(added) == nil || !one(p.Beta) || len(s) != 1 || s[0] != columns {
			return nil
		}
		key.bias = c.constantOf(added)
		inputs = append(inputs, added)
	}
	return c.Keep(key, inputs, func() any {
		var bias []float64
		if added >= 0 {
			bias = c.In(added).Data
		}
		k := matmul.NewKernel(c.In(b), p.TransB, bias)
		if c.Mode.Fast {
			k = k.Fast()
		}
		return k
	}).(*matmul.Kernel)
}

func init() {
	all := casts{half, half, half, half}
	register(MatMul{}, all)
	register(MatMul{rank: 2}, since2(half, half))
	register(MatMul{rank: 3}, since2(half, half))
	register(Linear{}, all)
	register(AddMM{rank: 2, Beta: 1, Alpha: 1}, since2(half, half))
	register(AddMM{rank: 3, Beta: 1, Alpha: 1}, since2(half, half))
	register(Gemm{Beta: 1, Alpha: 1}, since2(half, half))
	register(Einsum{}, all)
}

// products of a product: each number of the result is a sum of as many as the right
// operand has rows.
func (MatMul) products(in, out []Type) int64 {
	s := in[0].Shape
	return out[0].elements() * int64(s[len(s)-1])
}

// products of a linear layer.
func (Linear) products(in, out []Type) int64 { return out[0].elements() * int64(in[1].Shape[1]) }

// products of addmm and baddbmm.
func (o AddMM) products(in, out []Type) int64 { return MatMul{}.products(in[1:], out) }

// products of a Gemm.
func (o Gemm) products(in, out []Type) int64 {
	inner := in[0].Shape[1]
	if o.TransA {
		inner = in[0].Shape[0]
	}
	return out[0].elements() * int64(inner)
}

// products of an einsum, of all products of the chain.
func (o Einsum) products(in, _ []Type) int64 {
	shapes := make([][]int, len(in))
	for i, t := range in {
		shapes[i] = t.Shape
	}
	_, products := matmul.EinsumCost(o.Equation, shapes...)
	return int64(min(products, 1<<62))
}
