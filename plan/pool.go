package plan

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/pool"
)

// maxPass takes the greatest numbers of windows of an image, as [pool.Max] does.
type maxPass struct {
	p          *Plan
	src, dst   *virtual
	rows, cols []pool.Window

	row func(worker, i int)
}

// max compiles a max pool of an image without indices, or reports that it is none.
func (c *compiler) max(i int, op graph.MaxPool, d *describer) (bool, error) {
	n := &c.g.Nodes[i]
	if op.Indices || !c.reads(n, 1) || !imageable(c.p.program.Type(n.Out[0])) {
		return false, nil
	}
	windows, err := op.Windows(c.values[n.In[0]].of.Shape)
	if err != nil || len(windows) != 2 {
		return false, err
	}
	x, to := c.imaged(n.In[0]), c.p.program.Type(n.Out[0])
	pass := &maxPass{p: c.p, src: x.virtual, dst: c.image(to.Format, x.n, x.c, to.Shape[2], to.Shape[3]), rows: windows[0].Of, cols: windows[1].Of}
	c.p.passes = append(c.p.passes, pass)
	d.Op, d.Kernel, d.pass = op.Name(), "rows, plain Go", pass
	c.described = append(c.described, d)
	c.values[n.Out[0]] = &value{virtual: pass.dst, id: n.Out[0], of: to}
	return true, nil
}

func (m *maxPass) bind() {
	dst := m.dst.img
	m.row = func(_, i int) {
		y, b, n := i%dst.H, i/dst.H%dst.Blocks(), i/dst.H/dst.Blocks()
		h, out := m.rows[y], dst.Row(n, b, y)
		for x, w := range m.cols {
			of := (*[8]float32)(out[8*x:])
			*of = lowest
			m.window(of, n, b, h, w, quick)
			for _, v := range of {
				if v == 0 || v != v {
					*of = lowest
					m.window(of, n, b, h, w, greatest)
					break
				}
			}
		}
		m.p.look(out)
	}
}

var lowest = func() (of [8]float32) {
	for i := range of {
		of[i] = float32(math.Inf(-1))
	}
	return of
}()

// window takes the pixels of a window.
func (m *maxPass) window(best *[8]float32, n, b int, h, w pool.Window, take func(best, of *[8]float32)) {
	for k := range h.Count {
		line := m.src.img.Row(n, b, h.First+k*h.Step)
		for at := w.First; at < w.First+w.Count*w.Step; at += w.Step {
			take(best, (*[8]float32)(line[8*at:]))
		}
	}
}

// greatest takes what is more than the best so far, or NaN: of zeros the first.
func greatest(best, of *[8]float32) {
	for i, v := range of {
		if v > best[i] || v != v {
			best[i] = v
		}
	}
}

// quick is greatest without a branch, but for zeros and NaN.
func quick(best, of *[8]float32) {
	for i, v := range of {
		best[i] = max(best[i], v)
	}
}

func (m *maxPass) run(p *Plan) { p.each(m.dst.n*m.dst.img.Blocks()*m.dst.h, m.row) }
