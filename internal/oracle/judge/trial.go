package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
)

// trial is an output under one contract.
type trial struct {
	Contract
	b      *builder
	round  rounded
	y, r   []float64    // of the output
	ends   [2][]float64 // the least and the greatest numbers of right kernels where they jump; nil for y - r and y + r
	sigma  []float64    // the deviation that the last step's own errors have; nil is none
	stored []float64    // y, rounded
	right  [][]float64  // outputs of simulated right kernels
	wide   [][]float64  // squares of their errors before they are stored, by kind; nil where slips are not looked for
	// flushed is the output of a kernel that flushes subnormal numbers, nil if there are none
	flushed []float64
	e       []float64 // expected squares of errors
	// edges are squares of the errors of a kernel whose roundings go to the other side wherever they may; nil if none may.
	edges []float64
	tally
	ways
	excess float64 // how far the worst statistic is above its limit; above 1 it fails
	region string
	along  *direction // the fault whose direction the errors have
	cause  *cause
	blind  []string
	// untried are the steps of which it was not asked whether they alone are rounded
	untried int
	off     float64 // see Report
	zero    float64 // how plainly zeros would be seen, over the limit
	turns   []flip  // that the output is judged less of
	// level, if not nil, is applied to expected squares, and grain is the least that an error is counted in.
	level func(e []float64)
	grain float64
	// single is set of an output of few operations, whose errors are single roundings: what is expected of them is then
	// scaled by how many there are, and not by their squares, of which the largest numbers have most.
	single bool
}

// passes reports whether the output is right under the contract.
func (t *trial) passes() bool { return t.violations == 0 && t.excess <= 1 && t.along == nil }

// values returns the values of those names.
func (b *builder) values(names []string) ([]int, error) {
	all := map[string][]int{}
	for _, p := range b.points {
		all[p.name] = append(all[p.name], p.value)
	}
	var of []int
	for _, n := range names {
		if all[n] == nil {
			var known []string
			for _, p := range b.points {
				known = append(known, p.name)
			}
			return nil, fmt.Errorf("round: %.60q: want a step of %v", n, known)
		}
		of = append(of, all[n]...)
	}
	return of, nil
}

// try judges the output under a contract, and looks for faults in it or not. Where a few simulated kernels make it
// unlikely, and not by far, it is compared with more.
func (q *Question) try(types []graph.Type, c Contract, faults bool) (*trial, error) {
	kernels := leastKernels
	if faults || q.built.id != "" {
		kernels = q.simulations()
	}
	if q.Brief && faults && kernels > leastKernels { // most contracts are far off, which few kernels show
		if t, err := q.compared(types, c, leastKernels); err != nil || t.excess >= mostDoubt {
			return t, err
		}
	}
	t, err := q.compared(types, c, kernels)
	if err == nil && t.violations == 0 && t.excess > 1 && t.excess < mostDoubt && len(t.right) < doubtKernels &&
		q.fits(doubtKernels) == nil {
		t, err = q.compared(types, c, doubtKernels)
	}
	if err == nil && faults && !(q.Brief && !t.passes()) {
		err = q.faults(types, t)
	}
	return t, err
}

// compared judges the output by so many simulated kernels of a contract.
func (q *Question) compared(types []graph.Type, c Contract, kernels int) (*trial, error) {
	c = q.in(c)
	t := &trial{Contract: c, b: expand(q.Graph, types, c.Form, q.built)}
	values, err := t.b.values(c.Round)
	if err != nil {
		return nil, err
	}
	t.round = t.b.rounds(values, q.Narrow)
	t.b.cores = c.Accumulate == "" && (q.Narrow.Half() || c.Operands != "")
	f := q.Output.Format
	if t.fine(f) && !t.b.multiplies() { // where elements share an error, as those of a row do whose mean is off
		kernels = max(kernels, leastCompared)
	}
	flips := t.fine(f) && len(t.round) > 0 || t.b.jumps() // a coarser store hides those of roundings
	if err := q.withEdges(types, t, kernels, flips); err != nil {
		return nil, err
	}
	if t.grain = t.usualFlip(f); q.integers {
		t.grain = max(t.grain, 1)
	}
	t.expect(f)
	q.statistics(t)
	if err := q.scales(types, t); err != nil {
		return nil, err
	}
	t.excess, t.region = t.ways.excess()
	q.count(t)
	t.off = distanceOf(q.coarser(), q.Output.Data, t.y).Mean
	return t, nil
}

// withEdges simulates right kernels, and one whose roundings go to the other side where they may, if that is asked for.
func (q *Question) withEdges(types []graph.Type, t *trial, kernels int, flips bool) error {
	if err := q.simulated(types, t, kernels, flips); err != nil || !flips {
		return err
	}
	t.edges, t.right = t.right[kernels], t.right[:kernels]
	for i, v := range t.edges {
		t.edges[i] = 0
		if d := v - t.stored[i]; d-d == 0 {
			t.edges[i] = d * d
		}
	}
	return nil
}

// simulated simulates right kernels, without flushes where the output shows that there are none.
func (q *Question) simulated(types []graph.Type, t *trial, kernels int, flips bool) error {
	for {
		if err := q.simulate(types, t, kernels, flips); err != nil {
			return err
		}
		t.stored = make([]float64, len(t.y))
		if t.store(q.Output.Format, t.stored, t.y); !q.keeps(t) {
			return nil
		}
		t.b.keeps = true
	}
}

// simulations is how many right kernels are simulated, of which a long graph takes more time.
func (q *Question) simulations() int {
	switch elements := len(q.Output.Data) * max(1, len(q.Graph.Nodes)/fewNodes); {
	case elements <= smallOutput:
		return mostKernels
	case elements <= middleOutput:
		return manyKernels
	case elements <= largeOutput:
		return someKernels
	}
	return leastKernels
}

// interval is where right kernels may be.
func (t *trial) interval(f fp16.Format, i int) (lo, hi float64) {
	y, r := t.y[i], t.r[i]
	if math.IsInf(r, 1) {
		return math.Inf(-1), math.Inf(1)
	}
	var ends [2]float64
	least, greatest := y-r, y+r
	if t.ends[0] != nil && t.ends[1] != nil {
		least, greatest = max(least, t.ends[0][i]), min(greatest, t.ends[1][i])
	}
	t.store(f, ends[:], []float64{least, greatest})
	return ends[0], ends[1]
}

// store rounds results as they are stored.
func (t *trial) store(f fp16.Format, dst, src []float64) {
	if t.b.truncates {
		truncate(f, dst, src)
		return
	}
	f.RoundSlice(dst, src)
}

// admitted is whether a right kernel returns a number.
type admitted int

const (
	no admitted = iota
	yes
	unknown
)

// admits says whether a right kernel may return got as element i. Where the interval is unbounded the
// statistics speak of finite numbers, and of others, which have no part in them, the simulated kernels. Where
// the steps of a kernel come to no number, as 0 times infinity does, another way to compute it may have one.
func (t *trial) admits(f fp16.Format, i int, got float64) admitted {
	bounded, finite, wanted := !math.IsInf(t.r[i], 1), got-got == 0, t.y[i]-t.y[i] == 0
	equal := func(v float64) bool { return v == got || v != v && got != got }
	lo, hi := t.interval(f, i)
	switch {
	case got >= lo && got <= hi && (bounded || finite && wanted), equal(t.stored[i]):
		return yes
	case bounded:
		return no
	case slices.ContainsFunc(t.right, func(k []float64) bool { return equal(k[i]) }):
		return yes
	case finite && !wanted:
		return unknown
	}
	return no
}

// expect sets the expected squares of errors: half from the simulations, element by element, those of the
// kind of kernel that has the larger ones, and half from the bound, scaled to them, which is smoother. They
// are no less than those of a kernel that flushes, if there is one.
func (t *trial) expect(f fp16.Format) {
	e, kinds := make([]float64, len(t.y)), t.kinds()
	var all, most float64
	for i := range e {
		for kind := range kinds {
			mean, n := 0.0, t.ofKind(kind)
			for m := kind; m < len(t.right); m += kinds {
				if d := t.right[m][i] - t.stored[i]; d-d == 0 {
					mean += d * d / float64(n)
				}
			}
			e[i] = max(e[i], mean)
		}
		if s := t.model(f, i, 1); s-s == 0 {
			all += e[i]
			most += s
		}
	}
	part, scale := 1.0, all/most
	if t.single {
		part, scale = t.part(f, e), 1
	}
	for i := range e {
		if s := t.model(f, i, part); s-s == 0 && most > 0 {
			e[i] = e[i]/2 + s*scale/2
		}
		if t.flushed != nil {
			if d := t.flushed[i] - t.stored[i]; d-d == 0 {
				e[i] = max(e[i], d*d)
			}
		}
	}
	if t.level != nil {
		t.level(e)
	}
	t.e = e
}

// multiplies reports whether there are products, whose errors are each element's own.
func (b *builder) multiplies() bool {
	return slices.ContainsFunc(b.Nodes, func(n graph.Node) bool { return products[n.Op.Name()] })
}

// kinds are one for units that truncate and blocks of pixels, which every second kernel has, and one for others; and
// one for each order of sums that are kept in a half type.
func (t *trial) kinds() int {
	switch {
	case t.b.cores, t.b.blocks:
		return 2
	case t.Accumulate != "", t.Atomic != "":
		return orders
	}
	return 1
}

// ofKind is how many simulated kernels are of a kind.
func (t *trial) ofKind(kind int) int { return (len(t.right) - kind + t.kinds() - 1) / t.kinds() }

// model is what an element's squared error is in proportion to, where errors are a part of their bound: of errors
// far below the distance of stored numbers their chance to change one, and of others the error's square.
func (t *trial) model(f fp16.Format, i int, part float64) float64 {
	r := t.r[i] * part
	return r * (r + f.Ulp(t.stored[i]))
}

// part is what part of their bounds errors are, so that there are as many quanta of them as are expected.
func (t *trial) part(f fp16.Format, expected []float64) float64 {
	least, most := lastBits, 1.0
	for range mostHalved {
		part, over := math.Sqrt(least*most), 0.0
		for i, e := range expected {
			if m := t.model(f, i, part); m-m == 0 {
				over += (m - e) / t.quantumOf(f, i, m)
			}
		}
		if over > 0 {
			most = part
		} else {
			least = part
		}
	}
	return most
}
