package graph

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/internal/op/conv"
)

// convolution are the attributes of convolutions, named as PyTorch names them.
type convolution struct {
	Stride        Ints   `json:"stride"`
	Padding       pads   `json:"padding"`
	Dilation      Ints   `json:"dilation"`
	Groups        int    `json:"groups"`
	Mode          string `json:"padding_mode"`
	OutputPadding Ints   `json:"output_padding"` // of transposed ones
}

// pads is a padding: one number, one for each axis, or first of all beginnings and then of
// all ends, as ONNX has them; or "same" or "valid".
type pads struct {
	Ints
	same bool
}

// UnmarshalJSON reads numbers, a name or null.
func (v *pads) UnmarshalJSON(b []byte) error {
	*v = pads{}
	if len(b) == 0 || b[0] != '"' {
		return v.Ints.UnmarshalJSON(b)
	}
	var name string
	if err := json.Unmarshal(b, &name); err != nil {
		return err
	}
	if v.same = name == "same"; !v.same && name != "valid" {
		return fmt.Errorf("padding: %.60q: want numbers, same or valid", name)
	}
	return nil
}

// axes are the attributes of a convolution for each of its axes.
type axes struct {
	stride, dilation, before, after, extra []int
	groups                                 int
	same                                   bool
	padding                                conv.Padding
}

// along returns the attributes for that many axes, or an error that names what is wrong.
func (c *convolution) along(n int) (a axes, err error) {
	a.groups, a.same = c.Groups, c.Padding.same
	if a.stride, err = c.Stride.each("stride", n, 1); err != nil {
		return a, err
	}
	if a.dilation, err = c.Dilation.each("dilation", n, 1); err != nil {
		return a, err
	}
	if a.extra, err = c.OutputPadding.each("output_padding", n, 0); err != nil {
		return a, err
	}
	before, after := c.Padding.Ints, c.Padding.Ints
	if len(before) == 2*n {
		before, after = before[:n], after[n:]
	}
	if a.before, err = before.each("padding", n, 0); err != nil {
		return a, fmt.Errorf("padding: %d numbers: want 1, %d, one for each axis, or %d, also of the ends",
			len(before), n, 2*n)
	}
	a.after, _ = after.each("padding", n, 0)
	for _, k := range []struct {
		name  string
		of    []int
		least int
	}{
		{"stride", a.stride, 1},
		{"dilation", a.dilation, 1},
		{"padding", slices.Concat(a.before, a.after), 0},
		{"output_padding", a.extra, 0},
		{"groups", []int{a.groups}, 1},
	} {
		for _, v := range k.of {
			if v < k.least || v > mostStep {
				return a, fmt.Errorf("%s: %d: want %d to 2^30", k.name, v, k.least)
			}
		}
	}
	if a.padding, err = conv.ParsePadding(c.Mode); err != nil {
		return a, fmt.Errorf("padding_mode: %.60q: want zeros, circular, reflect or replicate", c.Mode)
	}
	return a, nil
}

// plane returns the geometry of the last axis, or the last two: a line is an image of one
// row. A dilation of 1 is written as none, as [conv.Square] does.
func (a *axes) plane() conv.Params {
	p := conv.Square(1, 0, a.padding)
	n := len(a.stride)
	for i := max(0, n-2); i < n; i++ {
		at := 2 - n + i
		p.Stride[at], p.Dilation[at], p.Pad[at], p.Pad[at+2] = a.stride[i], a.dilation[i], a.before[i], a.after[i]
		if a.dilation[i] == 1 {
			p.Dilation[at] = 0
		}
	}
	return p
}

// extras returns the output padding of the geometry's rows and columns.
func (a *axes) extras() (e [2]int) {
	n := len(a.extra)
	for i := max(0, n-2); i < n; i++ {
		e[2-n+i] = a.extra[i]
	}
	return e
}

// readConvolution returns the attributes of a convolution of that many axes.
func readConvolution(attributes []byte, n int, transposed bool) (a axes, err error) {
	c := convolution{Groups: 1, Mode: conv.Zeros.String()}
	if err := attr.Read(attributes, &c); err != nil {
		return a, err
	}
	switch {
	case !transposed && c.OutputPadding != nil:
		return a, fmt.Errorf("output_padding: %v: want it of a transposed convolution", c.OutputPadding)
	case transposed && c.Padding.same:
		return a, fmt.Errorf("padding: same: want numbers, of a transposed convolution")
	case transposed && c.Mode != conv.Zeros.String():
		return a, fmt.Errorf("padding_mode: %.60q: want zeros, of a transposed convolution", c.Mode)
	}
	return c.along(n)
}

func bindConv(attributes []byte) (Op, error) {
	a, err := readConvolution(attributes, 2, false)
	if err != nil {
		return nil, err
	}
	return Conv{Params: a.plane(), Groups: a.groups, Same: a.same}, nil
}

func bindConvTranspose(attributes []byte) (Op, error) {
	a, err := readConvolution(attributes, 2, true)
	if err != nil {
		return nil, err
	}
	return ConvTranspose{Params: a.plane(), Groups: a.groups, OutputPadding: a.extras()}, nil
}
