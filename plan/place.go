package plan

import (
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/internal/op/conv"
)

// place finds memory for all that lies between passes, and takes it if there is so much.
func (c *compiler) place() error {
	images, flats, slots := c.placeImages(), c.placeFlats(), c.placeSlots()
	if err := c.fitIn(
		memory.Sum(memory.Product(4, int64(images)), memory.Product(4, int64(flats)), memory.Product(8, int64(slots))),
	); err != nil {
		return err
	}
	c.takeImages(images)
	c.takeFlats(flats)
	c.takeSlots(slots)
	for i := range c.p.workers {
		c.p.workers[i] = newWorker(c.p.widest)
	}
	return nil
}

// impossible is the size of an image that no machine holds; some of those are beyond all numbers.
const impossible = 1 << 44

// placeImages finds places for the images: the lowest that is free as long as the image
// is in use, for one after the other. A sum that nobody reads an operand of any more
// takes the operand's place.
func (c *compiler) placeImages() (most int) {
	p := c.p
	for _, v := range c.images {
		v.span = span{first: len(p.passes)}
	}
	use := func(i int, images ...*virtual) {
		for _, v := range images {
			v.use(i)
		}
	}
	for i, x := range p.passes {
		switch x := x.(type) {
		case *inPass:
			use(i, x.dst)
		case *outPass:
			use(i, x.src)
		case *convPass:
			use(i, x.src, x.dst)
		case *maxPass:
			use(i, x.src, x.dst)
		case *packPass:
			use(i, x.dst)
		case *unpackPass:
			use(i, x.src)
		case *rowPass:
			use(i, x.src, x.dst)
			for _, s := range x.stages {
				if other := others(s); other != nil {
					use(i, other)
				}
			}
		}
	}
	for i, x := range p.passes {
		if r, ok := x.(*rowPass); ok {
			for _, s := range r.stages {
				// a norm may read its source again
				if a, ok := s.(pairStage); ok && a.other.last == i && r.dst.in == nil && (r.norm == nil || a.other != r.src) {
					r.dst.in = a.other
				}
			}
		}
	}
	for _, v := range c.images {
		root := v.root()
		root.frame, root.last = max(root.frame, v.frame), max(root.last, v.last)
	}
	var spans []*span
	for _, v := range c.images {
		v.frame = v.root().frame
		v.size = impossible
		if memory.Product(int64(v.n), int64(v.c), int64(v.h)+2*int64(v.frame), int64(v.w)+2*int64(v.frame)) < impossible {
			v.size = (conv.ImageSize(v.n, v.c, v.h, v.w, v.frame) + 15) / 16 * 16
		}
		if v.in == nil {
			spans = append(spans, &v.span)
		}
	}
	return arrange(spans)
}

func (c *compiler) takeImages(most int) {
	all := asm.Aligned[float32](most)
	for _, v := range c.images {
		v.at = v.root().at
		v.img = conv.NewImage(v.format, v.n, v.c, v.h, v.w, v.frame, all[v.at:v.at+v.size])
		c.p.widest = max(c.p.widest, v.w)
	}
	c.p.images = 4 * int64(most)
}

// bind makes what the passes run, and the description.
func (c *compiler) bind() {
	for _, x := range c.p.passes {
		switch x := x.(type) {
		case *inPass:
			x.bind()
		case *outPass:
			x.bind()
		case *rowPass:
			x.bind()
		case *maxPass:
			x.bind()
		case *otherPass:
			x.bind(c.p)
		case *flatPass:
			x.bind()
		}
	}
	described := map[pass][]*describer{}
	for _, d := range c.described {
		described[d.pass] = append(described[d.pass], d)
	}
	for k, x := range c.p.passes {
		of := described[x]
		if len(of) == 0 {
			continue
		}
		for _, d := range of {
			d.Pass = k
		}
		switch x := x.(type) {
		case *convPass:
			of[0].Bytes = 4 * int64(x.src.size+x.dst.size)
		case *maxPass:
			of[0].Bytes = 4 * int64(x.src.size+x.dst.size)
		case *rowPass:
			of[0].Bytes += 4 * int64(x.src.size)
			for _, s := range x.stages {
				if other := others(s); other != nil {
					of[len(of)-1].Bytes += 4 * int64(other.size)
				}
			}
			of[len(of)-1].Bytes += 4 * int64(x.dst.size)
		}
	}
	for _, d := range c.described {
		c.p.nodes = append(c.p.nodes, d.Node)
	}
}
