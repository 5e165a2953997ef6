package plan

import (
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
)

// virtual is an image of a plan, in memory that it shares with others which are
// not in use while it is.
type virtual struct {
	format     fp16.Format
	n, c, h, w int
	frame      int
	span                // from the pass that writes it to the last one that reads it
	in         *virtual // whose place it takes, nil if it has its own
	img        *conv.Image

	padding conv.Padding // that the frame holds
	framed  bool         // a convolution reads the frame
	mixed   bool         // several do, and want other paddings: each fills the frame itself
}

// frames notes that a convolution reads the frame of an image.
func (v *virtual) frames(width int, p conv.Padding) {
	if width == 0 {
		return
	}
	v.mixed = v.mixed || v.framed && v.padding != p
	v.frame, v.padding, v.framed = max(v.frame, width), p, true
}

// root returns the image whose place it has.
func (v *virtual) root() *virtual {
	for v.in != nil {
		v = v.in
	}
	return v
}

// value is a tensor of the graph: as an image, or as a tensor, or both.
type value struct {
	*virtual
	pass  *rowPass // that ends with it, nil for others
	casts map[fp16.Format]*virtual

	id     int // in the graph
	of     graph.Type
	tensor *slot
	from   pass       // that makes the tensor
	open   *otherPass // the same, where the tensor may still be worked on while it is made
	packed bool       // the image was made of the tensor
	seen   *seen      // in the memory of another tensor, in place of one
	flat   *flat      // of float32 numbers, in place of the tensor or made of it
	lines  *flatPass  // that makes the flat tensor, where it may still be worked on
	input  *int       // which input it is, nil for others
	stage  *inPass
}
