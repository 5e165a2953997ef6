package judge

import (
	"fmt"
	"slices"
)

// Contract is how a kernel computes.
type Contract struct {
	Form
	// Round are the steps whose results are rounded to the inputs' format, by name.
	Round []string `json:"round,omitempty"`
}

// String says it in words.
func (c Contract) String() string {
	steps := "float32 steps, "
	if c.Double {
		steps = "float64 steps, "
	}
	s := steps + "one rounding at the end"
	if len(c.Round) > 0 {
		s = steps + "rounded: "
		for i, r := range c.Round {
			if i > 0 {
				s += ", "
			}
			s += r
		}
	}
	switch {
	case c.OnePass:
		s += "; one-pass variance"
	case c.Affine:
		s += "; a norm as x*scale + shift"
	}
	if c.Parts != "" {
		s += "; " + c.Parts
	}
	if c.Winograd > 0 {
		s += fmt.Sprintf("; convolutions by Winograd's F(%dx%d,3x3)", c.Winograd, c.Winograd)
	}
	if c.Powers != "" {
		s += "; powers " + c.Powers
	}
	if c.Quotients != "" {
		s += "; whole quotients " + c.Quotients
	}
	if c.Operands != "" {
		s += "; operands of products in " + c.Operands
	}
	if c.Singles != "" {
		s += ", but " + c.Singles
	}
	if c.Scaled != "" {
		s += "; " + c.Scaled + " scaled before the product"
	}
	if c.Scalars != "" {
		s += "; scalars in " + c.Scalars
	}
	switch {
	case c.Reciprocal && c.Scalars != "":
		s += ", whose reciprocal is multiplied by"
	case c.Reciprocal:
		s += "; a reciprocal is multiplied by"
	}
	if c.Weights != "" {
		s += "; weights in " + c.Weights
	}
	if c.Sampled != "" {
		s += "; a grid sampler in " + c.Sampled
	}
	if c.Positions != "" {
		s += "; positions by a " + c.Positions
	}
	if c.Atomic != "" {
		s += "; each addition rounded to " + c.Atomic
	}
	if c.Accumulate != "" {
		s += "; sums kept in " + c.Accumulate
	}
	for _, form := range []struct {
		is    bool
		words string
	}{{c.Composed, "operations in elementary ones"}, {c.Expanded, "expm1 by exp and tanh"},
		{c.Symmetric, "a function whose errors are not smaller where it is"},
		{c.StoredMean, "variances about the stored mean"},
		{c.ByGreater, "a norm of two numbers by the greater"},
		{c.BiasAfter, "the bias added to the stored product"},
		{c.Taps, "tap by tap"},
		{c.Backwards, "from the last tap"}, {c.Copied, "copies along axes of the same or twice the size"},
		{c.Sized, "corners of whole sizes"}} {
		if form.is {
			s += "; " + form.words
		}
	}
	if c.CoarseExp {
		s += "; exp by a cubic polynomial"
		if c.Lanes > 0 {
			s += fmt.Sprintf(", of %d at a time", c.Lanes)
		}
	}
	if c.Online {
		s += "; sums divided by after the product"
		if c.BlockKeys > 0 {
			s += fmt.Sprintf(", %d keys at a time", c.BlockKeys)
		}
	}
	return s
}

// equal reports whether two contracts are the same.
func (c Contract) equal(o Contract) bool { return c.Form == o.Form && slices.Equal(c.Round, o.Round) }
