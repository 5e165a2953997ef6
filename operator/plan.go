package operator

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/plan"
	"github.com/refrun/refrun/tensor"
)

// Compiled is an operator compiled for one mode and one shape of input: see package plan. It
// computes what [Operator.Forward] does, to the same bits.
//
// Not all is compiled: float64 mode, and inputs that Forward refuses or PyTorch's
// autocast does, go the way of Forward, which is also the one that reports features.
//
// A Compiled serves one application at a time: Forward panics if another goroutine is in
// it. (An Operator serves any number.)
type Compiled struct {
	op      *Operator
	mode    graph.Mode
	input   fp16.Format // of the inputs that it is compiled for
	output  fp16.Format // of the operator
	n, h, w int
	isa     string
	workers int
	general string // why nothing is compiled, "" if it is
	refused error  // why nothing is evaluated
	plan    *plan.Plan
	result  *tensor.Tensor
	in, out [1]*tensor.Tensor

	// Where more than convolutions read the input, its format decides about others:
	// direct is set, and an input of another format than the mode's wide one goes
	// through a plan of its own. used is the one of the last application.
	direct bool
	narrow *Compiled
	used   *Compiled

	busy atomic.Bool // it is in an application

	// Watch asks for Nonfinite.
	Watch bool
}

// Compile prepares the operator for inputs [n,input_channels,h,w]. It panics if a
// dimension is not positive.
func (op *Operator) Compile(mode graph.Mode, n, h, w int) *Compiled {
	return op.plan(mode, mode.Wide(), n, h, w, par.Workers())
}

func (op *Operator) plan(mode graph.Mode, input fp16.Format, n, h, w, workers int) *Compiled {
	if op.Config.InputChannels == 0 {
		panic("operator: an operator is made by Init, Load and their like")
	}
	if min(n, h, w) < 1 {
		panic("operator: a plan of nothing")
	}
	// panics if that is too much
	tensor.Size([]int{n, max(op.Config.InputChannels, op.Config.OutputChannels, op.Config.BaseChannels, 8), h, w})
	p := &Compiled{
		op: op, mode: mode, input: input, output: op.Output(mode), n: n, h: h, w: w, isa: asm.ISA(), workers: workers,
	}
	p.used = p
	b := op.graph(false, h, w)
	if b.err != nil {
		p.general = b.err.Error()
		return p
	}
	g := b.Graph
	p.direct = slices.ContainsFunc(g.Nodes, func(n graph.Node) bool {
		_, convolution := n.Op.(graph.Conv)
		return !convolution && slices.Contains(n.In, g.Inputs[0])
	})
	var err error
	p.plan, err = plan.NewFor(workers, g, mode, graph.Type{Shape: []int{n, op.Config.InputChannels, h, w}, Format: input})
	switch {
	case errors.As(err, new(*memory.Error)):
		p.general, p.refused = err.Error(), err
	case err != nil:
		p.general = err.Error()
	case p.plan.Type(0).Format != p.output:
		p.general = fmt.Sprintf("output of %v numbers", p.plan.Type(0).Format)
	}
	return p
}

// Compiled reports whether the plan is compiled, and otherwise why it is not.
func (p *Compiled) Compiled() (ok bool, why string) { return p.general == "", p.general }

// Nodes returns the operations in the order of [Operator.Nodes]; nil if the plan is
// not compiled.
func (p *Compiled) Nodes() []plan.Node {
	if p.general != "" {
		return nil
	}
	return p.plan.Nodes()
}

// FLOPs returns the multiplications and additions with weights of one application.
func (p *Compiled) FLOPs() int64 { return 2 * p.op.MACs(p.h, p.w) * int64(p.n) }

// Arena returns the bytes of the images, and of the draws that applications have
// kept so far, which a counter's are not.
func (p *Compiled) Arena() int64 { return p.sum((*plan.Plan).Arena) }

// Build returns how long it took to compile, weights included.
func (p *Compiled) Build() time.Duration {
	if p.plan == nil {
		return 0
	}
	return p.plan.Build()
}

// Bytes returns the memory of the plan besides the operator's weights, including
// scratch memory that applications have needed so far.
func (p *Compiled) Bytes() int64 { return p.sum((*plan.Plan).Bytes) }

// sum adds up what the compiled plans take.
func (p *Compiled) sum(bytes func(*plan.Plan) int64) (n int64) {
	for ; p != nil; p = p.narrow {
		if p.plan != nil {
			n += bytes(p.plan)
		}
	}
	return n
}

// Refused returns the error of every Forward, of a plan that takes more memory than there is.
func (p *Compiled) Refused() error { return p.refused }

// Forward sets dst [n,output_channels,h,w], of the format of the mode's output, to
// the operator's output for x [n,input_channels,h,w], with the noise of draws (nil
// for none) at that time. It panics if dst is not of that shape and format.
func (p *Compiled) Forward(dst, x *tensor.Tensor, draws noise.Draws, at noise.Time) error {
	if p.op == nil {
		panic("operator: a plan is made by Operator.Compile")
	}
	if !p.busy.CompareAndSwap(false, true) {
		panic("operator: a plan serves one application at a time, and is in use")
	}
	defer p.busy.Store(false)
	tensor.Require("operator", 4, dst)
	if f := x.Fault(4); f != "" {
		return errors.New("operator: input: " + f)
	}
	if dst.N() != p.n || dst.C() != p.op.Config.OutputChannels || dst.H() != p.h || dst.W() != p.w ||
		dst.Format != p.output {
		panic("operator: destination of another shape or format than the plan's")
	}
	if p.refused != nil {
		return p.refused
	}
	if p.general != "" {
		y, err := p.op.Forward(&Pass{Mode: p.mode, Draws: draws, Time: at}, x)
		if err == nil {
			copy(dst.Data, y.Data)
		}
		return err
	}
	switch {
	case x.Format == fp16.Float64:
		return fmt.Errorf("operator: input of float64 numbers: want %v numbers, or the float64 mode", p.mode.Wide())
	case x.C() != p.op.Config.InputChannels:
		return fmt.Errorf("operator: input has %d channels: want %d", x.C(), p.op.Config.InputChannels)
	case x.N() != p.n || x.H() != p.h || x.W() != p.w:
		return fmt.Errorf("operator: input is %s: want [%d,%d,%d,%d], for which the plan is made", x.Dims(), p.n,
			x.C(), p.h, p.w)
	}
	if p.used = p; p.direct && x.Format != p.input {
		if p.narrow == nil || p.narrow.input != x.Format {
			p.narrow = p.op.plan(p.mode, x.Format, p.n, p.h, p.w, p.workers)
		}
		p.used, p.narrow.Watch = p.narrow, p.Watch
		return p.narrow.Forward(dst, x, draws, at)
	}
	p.plan.Watch = p.Watch
	p.in[0], p.out[0] = x, dst
	err := p.plan.Run(draws, at, p.out[:], p.in[:])
	p.in[0], p.out[0] = nil, nil
	return err
}

// Result returns a tensor of the plan's for Forward to write to.
func (p *Compiled) Result() *tensor.Tensor {
	if p.result == nil {
		p.result = tensor.New(p.output, p.n, p.op.Config.OutputChannels, p.h, p.w)
	}
	return p.result
}

// Nonfinite reports whether the last application met a NaN or an infinity anywhere;
// only if Watch is set and the plan is compiled.
func (p *Compiled) Nonfinite() bool { return p.used.plan != nil && p.used.plan.Nonfinite() }

// Again returns the draws of the last application once more, for the same one by
// Operator.Forward; nil if it had none.
func (p *Compiled) Again() noise.Draws {
	if p.used.plan == nil {
		return nil
	}
	return p.used.plan.Again()
}
