package plan

import (
	"math"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/exact/rows"
	"github.com/refrun/refrun/internal/op/pool"
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
	pass := &maxPass{p: c.p, src: x.virtual, dst: c.image(to.Format, x.n, x.c, to.Shape[2], to.Shape[3]),
		rows: windows[0].Of, cols: windows[1].Of}
	c.p.passes = append(c.p.passes, pass)
	d.Op, d.Kernel, d.pass = op.Name(), kernelName("rows"), pass
	c.described = append(c.described, d)
	c.values[n.Out[0]] = &value{virtual: pass.dst, id: n.Out[0], of: to}
	return true, nil
}

// bind makes what the passes run. The windows of most outputs of a line are whole and lie
// equally far apart: they are taken tap by tap, all of them at once.
func (m *maxPass) bind() {
	dst := m.dst.img
	lo, hi, step := alike(m.cols)
	m.row = func(_, i int) {
		y, b, n := i%dst.H, i/dst.H%dst.Blocks(), i/dst.H/dst.Blocks()
		h, out := m.rows[y], dst.Row(n, b, y)
		for j := range out {
			out[j] = lowest
		}
		for k := range h.Count {
			line := m.src.img.Row(n, b, h.First+k*h.Step)
			for x, w := range m.cols {
				if x >= lo && x < hi {
					continue
				}
				for j := range w.Count {
					rows.Greatest(out[8*x:], line[8*(w.First+j*w.Step):], 1, 1)
				}
			}
			if lo < hi {
				for j, w := 0, m.cols[lo]; j < w.Count; j++ {
					rows.Greatest(out[8*lo:], line[8*(w.First+j*w.Step):], hi-lo, step)
				}
			}
		}
		m.p.look(out)
	}
}

var lowest = float32(math.Inf(-1))

// alike returns the longest run of windows, lo to hi-1, of as many numbers each, that begin
// step apart.
func alike(of []pool.Window) (lo, hi, step int) {
	for from := 0; from < len(of); {
		to, by := from+1, 1
		if to < len(of) {
			by = of[to].First - of[from].First
		}
		for to < len(of) && by > 0 && of[to].Count == of[from].Count && of[to].Step == of[from].Step &&
			of[to].First-of[to-1].First == by {
			to++
		}
		if of[from].Count > 0 && to-from > hi-lo {
			lo, hi, step = from, to, max(by, 1)
		}
		from = to
	}
	return lo, hi, step
}

func (m *maxPass) run(p *Plan) { p.each(m.dst.n*m.dst.img.Blocks()*m.dst.h, m.row) }
