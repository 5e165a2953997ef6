package plan

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/asm"
	"github.com/refrun/refrun/internal/ground/par"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// Plan is a graph compiled for one mode, inputs of given types, the instruction set in
// use, and as many goroutines at most as GOMAXPROCS says when it is made: a later change
// of GOMAXPROCS, at any moment, changes no bit. It serves one application at a time: Run
// panics if another goroutine is in it.
type Plan struct {
	graph   *graph.Graph
	program *graph.Program // of what is evaluated by definition
	mode    graph.Mode
	isa     string

	passes []pass
	nodes  []Node
	given  []*tensor.Tensor // the inputs and outputs of an application
	wanted []*tensor.Tensor
	noise  *noise.Rows // nil if there is none
	site   string      // the node that draws it
	images int64       // bytes, those of tensors between them too
	needs  int64       // bytes, in all
	widest int         // of the rows of all images
	build  time.Duration

	space   conv.Space
	exact   norm.Exact
	workers []*worker // all there will be
	run     graph.Run
	err     error // of what is evaluated by definition, in an application

	busy atomic.Bool // it is in an application

	// Watch asks for Nonfinite.
	Watch     bool
	nonfinite atomic.Bool
	fault     fault
}

// Node is how a plan does one operation.
type Node struct {
	Name   string `json:"name"`   // of its first output
	Op     string `json:"op"`     // conv, norm, act, add or noise, and what of it, or a registered operation's name
	Pass   int    `json:"pass"`   // operations of one pass are done row by row together
	Kernel string `json:"kernel"` // what runs
	FLOPs  int64  `json:"flops"`  // of a convolution, multiplications and additions of its definition
	// that the first operation of a pass reads and the last one writes: 4 of a number of an image or a flat tensor, 8
	// of a tensor, none of weights
	Bytes int64 `json:"bytes"`
}

// pass is one sweep over images.
type pass interface{ run(p *Plan) }

// New compiles a graph for inputs of those types. It is an error if types cannot be
// inferred, and in float64 mode, which no kernel has.
func New(g *graph.Graph, mode graph.Mode, in ...graph.Type) (*Plan, error) {
	return NewFor(par.Workers(), g, mode, in...)
}

// NewFor is New for that many goroutines at most.
func NewFor(workers int, g *graph.Graph, mode graph.Mode, in ...graph.Type) (*Plan, error) {
	began := time.Now()
	if mode.Precision == fp16.Float64 {
		return nil, errors.New("float64 mode")
	}
	if err := mode.Check(); err != nil {
		return nil, err
	}
	program, err := g.Infer(mode, in...)
	if err != nil {
		return nil, err
	}
	if of := settled(g, program, mode); of != g {
		if program, err = of.Infer(mode, in...); err != nil {
			return nil, err
		}
		g = of
	}
	p := &Plan{graph: g, program: program, mode: mode, isa: asm.ISA(), workers: make([]*worker, workers),
		given: make([]*tensor.Tensor, len(g.Inputs)), wanted: make([]*tensor.Tensor, len(g.Outputs))}
	p.space.Workers = workers
	if err := p.compile(); err != nil {
		return nil, err
	}
	p.build = time.Since(began)
	return p, nil
}

// Nodes returns the operations in the order of the graph.
func (p *Plan) Nodes() []Node { return p.nodes }

// Type returns the type of output i.
func (p *Plan) Type(i int) graph.Type { return p.program.Type(p.graph.Outputs[i]) }

// ISA returns the instruction set that the plan is made for.
func (p *Plan) ISA() string { return p.isa }

// Arena returns the bytes of images and of tensors between them, and of the draws that
// applications have kept so far, which a counter's are not.
func (p *Plan) Arena() int64 {
	b := p.images
	if p.noise != nil {
		b += p.noise.Bytes()
	}
	return b
}

// Needs returns the bytes that an application holds at once, as they are known before any are
// taken: inputs, outputs, constants, what lies between nodes, and what operations set aside.
func (p *Plan) Needs() int64 { return p.needs }

// Build returns how long it took to compile, weights included.
func (p *Plan) Build() time.Duration { return p.build }

// Bytes returns the memory of the plan besides the graph's constants, including
// scratch memory that applications have needed so far.
func (p *Plan) Bytes() int64 {
	b := p.Arena() + p.exact.Bytes() + sizeOf(&p.space)
	for _, x := range p.passes {
		if r, ok := x.(*rowPass); ok && r.norm != nil {
			b += r.norm.Bytes()
		}
	}
	return b + int64(len(p.workers))*workerBytes(p.widest)
}

// Run sets out, of the inferred types, to the outputs for those inputs, with the noise
// of draws (nil for none) at that time. An input may be of a narrower format than the
// type that the plan is made for, if only convolutions read it. It panics on tensors of
// other shapes.
func (p *Plan) Run(draws noise.Draws, at noise.Time, out, in []*tensor.Tensor) error {
	if !p.busy.CompareAndSwap(false, true) {
		panic("plan: serves one application at a time, and is in use")
	}
	defer p.busy.Store(false)
	p.check(p.graph.Inputs, in, false)
	p.check(p.graph.Outputs, out, true)
	if p.noise != nil {
		if err := p.noise.Begin(at, draws); err != nil {
			return fmt.Errorf("%s: %w", p.site, err)
		}
	}
	p.nonfinite.Store(false)
	copy(p.given, in)
	copy(p.wanted, out)
	p.run.Time, p.err = at, nil
	for _, x := range p.passes {
		if x.run(p); p.err != nil {
			break
		}
	}
	clear(p.given)
	clear(p.wanted)
	return p.err
}

func (p *Plan) check(values []int, tensors []*tensor.Tensor, formats bool) {
	if len(tensors) != len(values) {
		panic("plan: another number of tensors than the graph has")
	}
	for k, v := range values {
		t := p.program.Type(v)
		tensor.Require("plan", len(t.Shape), tensors[k])
		if !slices.Equal(tensors[k].Shape, t.Shape) || formats && tensors[k].Format != t.Format {
			panic("plan: a tensor of another shape or format than the plan's")
		}
	}
}

// Nonfinite reports whether the last application met a NaN or an infinity anywhere;
// only if Watch is set.
func (p *Plan) Nonfinite() bool { return p.nonfinite.Load() }

// Again returns the draws of the last application once more, for the same one by
// definition; nil if it had none.
func (p *Plan) Again() noise.Draws {
	if p.noise == nil {
		return nil
	}
	return p.noise.Again()
}

// sizeOf returns the memory of a convolution's space, if it says.
func sizeOf(s any) int64 {
	if s, ok := s.(interface{ Bytes() int64 }); ok {
		return s.Bytes()
	}
	return 0
}
