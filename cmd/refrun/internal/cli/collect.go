package cli

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// A check of a large operator throws away tensors of many megabytes. They hold
// numbers only, which the collector need not look at, so that it costs next to
// nothing to collect them soon: when the heap has grown by a tenth, where it
// usually doubles. Small heaps are better off as usual.
const (
	largeHeap    = 256 << 20 // bytes
	largePercent = 10
)

// collector sets how soon the collector runs, after each of its cycles.
type collector struct {
	mu             sync.Mutex
	usual, percent int
	stopped        bool
}

// cycle is an object that nobody holds: the next cycle finds it. It is too large
// to share its memory with others.
type cycle [16]byte

// CollectSoon does so until stop is called.
func CollectSoon() (stop func()) {
	usual := debug.SetGCPercent(100)
	debug.SetGCPercent(usual)
	c := &collector{usual: usual, percent: usual}
	if usual > largePercent { // else it is off, or sooner yet
		runtime.SetFinalizer(new(cycle), c.after)
	}
	return c.stop
}

func (c *collector) after(o *cycle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := c.usual
	if live[0].Value.Uint64() > largeHeap {
		percent = largePercent
	}
	if percent != c.percent {
		debug.SetGCPercent(percent)
		c.percent = percent
	}
	runtime.SetFinalizer(o, c.after)
}

func (c *collector) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	debug.SetGCPercent(c.usual)
}

// CollectWithin has the collector run before all memory is more than so many bytes, of which there are
// 64 MB at least, until stop is called. A lower limit that is set already (GOMEMLIMIT) stays.
func CollectWithin(bytes int64) (stop func()) {
	was := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(was, max(bytes, 64<<20)))
	return func() { debug.SetMemoryLimit(was) }
}
