package rollout

import (
	"context"
	"math"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/conv"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// TestActivations holds the count of channels to what is in fact alive: after
// every module the garbage collector says which outputs are still held, and
// the next module adds its own to them.
func TestActivations(t *testing.T) {
	for _, c := range []operator.Config{
		{NumLayers: 0, BaseChannels: 2, Normalization: "none"},
		{NumLayers: 2, BaseChannels: 8, Normalization: "instance"},
		{NumLayers: 3, BaseChannels: 4, Normalization: "group"},
		{NumLayers: 4, BaseChannels: 4, Normalization: "layer"},
		{NumLayers: 6, BaseChannels: 2, Normalization: "batch"},
		{NumLayers: 1, BaseChannels: 1, InputChannels: 9, Normalization: "none"},
		{NumLayers: 1, BaseChannels: 1, OutputChannels: 9, Normalization: "none"},
	} {
		c.KernelSize, c.Activation = 3, "relu"
		c.InputChannels, c.OutputChannels = max(c.InputChannels, 3), max(c.OutputChannels, 3)
		op, err := operator.Init(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		const n, side = 2, 8
		var outputs []weak.Pointer[float64]
		var channels []int
		held, most := 0, 0
		see := func(name string, y *tensor.Tensor) {
			p := weak.Make(&y.Data[0])
			if name == "input" || len(outputs) > 0 && outputs[len(outputs)-1] == p {
				return // a block's output is that of its last module
			}
			most = max(most, held+y.C())
			outputs, channels = append(outputs, p), append(channels, y.C())
			// The frame in which a goroutine is interrupted is searched for anything like a pointer: the
			// least of a few looks is what is held.
			held = math.MaxInt
			for range 3 {
				runtime.GC()
				alive := 0
				for i, p := range outputs {
					if p.Value() != nil {
						alive += channels[i]
					}
				}
				held = min(held, alive)
			}
		}
		x := tensor.New(fp16.Float32, n, c.InputChannels, side, side)
		for i := range x.Data {
			x.Data[i] = float64(i%7) - 3
		}
		if _, err := op.Forward(&operator.Pass{Mode: graph.Mode{Precision: fp16.Float32}, Feature: see}, x); err != nil {
			t.Fatal(err)
		}
		runtime.KeepAlive(x)
		if got := activations(op); got != most {
			t.Errorf("%+v: %d channels counted, %d alive", c, got, most)
		}
	}
}

// TestWeights holds the count of bytes to the growth of the heap.
func TestWeights(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools keep goes with the second
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	op, err := operator.Init(operator.Config{NumLayers: 4, BaseChannels: 31, InputChannels: 3, OutputChannels: 3,
		KernelSize: 3, Activation: "relu", Normalization: "instance"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The kernels are made at the first use.
	if _, err := op.Forward(&operator.Pass{Mode: graph.Mode{Precision: fp16.Float32}},
		tensor.New(fp16.Float32, 1, 3, 4, 4)); err != nil {
		t.Fatal(err)
	}
	grown, counted := heap()-before, op.Bytes()
	if d := float64(grown-counted) / float64(counted); !(d > -0.02 && d < 0.02) {
		t.Errorf("%d bytes counted, the heap grew by %d", counted, grown)
	}
	runtime.KeepAlive(op)
}

// TestMemory: what a job says it held depends on its shape and its output, and
// not on the number of steps, but for the index of an HDF5 file.
func TestMemory(t *testing.T) {
	held := func(ext string, steps, batch int) Memory {
		j := job(t, filepath.Join(t.TempDir(), "out"+ext), func(c *Case) { c.Rollout.Timesteps = steps + 1 })
		if ext == "" {
			j.Path = ""
		}
		j.Batch, j.Every = batch, time.Hour
		r, err := j.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return r.Memory
	}
	const plane = 8 * 6 * 6
	bare := held("", 6, 0)
	// The engine batch is 2 of 5 realizations, [2,6,6] each, and the last one is 1. A
	// step holds as many new states; a plan laplace noise on 3 channels, which is two
	// draws, and a source and a destination of 3 channels at least, at most one image
	// more.
	image := int64(4 * conv.ImageSize(1, 3, 6, 6, 1))
	between := func(what string, got, draws, images int64) {
		got -= 2*2*plane + draws*3*plane
		if !(got >= 2*images*4*8*6*6 && got <= 3*images*image) {
			t.Errorf("%s: %d bytes of images", what, got)
		}
	}
	between("arena", bare.Arena, 2*(2+1), 2+1)
	one := held("", 6, 1)
	between("one realization at a time", one.Arena, 2*1, 1) // a counter draws for it alone
	if bare.States != 2*2*plane || one.States != bare.States {
		t.Errorf("states %d, and %d one at a time", bare.States, one.States)
	}
	if bare.Sinks < 5*128 {
		t.Errorf("%d bytes of digest", bare.Sinks)
	}
	for _, ext := range outputs {
		short, long := held(ext, 6, 0), held(ext, 60, 0)
		if short.States != bare.States || short.Arena != bare.Arena || short.Weights != bare.Weights {
			t.Errorf("%s: %+v, without output %+v", ext, short, bare)
		}
		// A stored state, and a checkpoint of the states and five hashes.
		if least := bare.Sinks + 4*2*6*6 + bare.States + 5*108; short.Sinks < least {
			t.Errorf("%s: %d bytes of outputs: want at least %d", ext, short.Sinks, least)
		}
		if ext == ".h5" || ext == ".hdf5" {
			short.Sinks += 16 * 5 * 54 // states that are more
		}
		if short != long {
			t.Errorf("%s: after 6 steps %+v, after 60 %+v", ext, short, long)
		}
	}
}
