package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/ground/memory"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// Run says how units are made.
type Run struct {
	Units      []int         // in this order
	Workers    int           // small units that are made side by side, 1 or more
	Checkpoint time.Duration // between checkpoints of a unit; 0 after every step
	Force      bool          // make anew what has been made
	Version    string        // of the program, for records
	// Progress, if not nil, is called after every step, by one goroutine at a time.
	Progress func(Progress)
}

// Progress says how far a run is.
type Progress struct {
	Done, Total int
	Share       float64 // of the work that there was
	GFLOP       float64 // that was done, as costs count it
	At          []At    // the units at hand, by their indices
}

// At is how far a unit is.
type At struct {
	Unit  int
	Share float64
}

// side is the work of a step, in GFLOP, from which on a unit takes all processors alone:
// smaller ones gain more side by side.
const side = 1.

// Made is what a run did.
type Made struct {
	Made, Were int   // units that it made, and that had been made before
	Busy       []int // that another process is making still
}

// Make makes units, one file for each. What an earlier process left of a unit it
// continues to the same bytes. When ctx ends, units at hand stop after their step, with a
// checkpoint. The end of a large unit's file is written while the next unit is computed: the
// memory of both is held then.
func (p *Dataset) Make(ctx context.Context, r Run) (*Made, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	m, work := new(Made), p.newWork(r.Units)
	tell := func(i int, share float64) {
		mu.Lock()
		defer mu.Unlock()
		if work.set(i, share); r.Progress != nil {
			r.Progress(Progress{m.Made + m.Were + len(m.Busy), len(r.Units), work.share(), work.sum, work.atHand()})
		}
	}
	one := func(i int, computed func()) {
		was, err := p.unit(ctx, r, i, func(done, total int) {
			if tell(i, float64(done)/float64(total)); done == total {
				computed()
			}
		})
		defer tell(i, 1) // when it is counted
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, rollout.ErrBusy):
			m.Busy = append(m.Busy, i)
		case err != nil:
			cancel(err)
			return
		case was:
			m.Were++
			work.drop(i)
		default:
			m.Made++
		}
	}
	var small []int
	var all sync.WaitGroup
	hand := make(chan struct{}, 2) // one large unit is computed, and the end of another written
	for _, i := range r.Units {
		if p.perStep(i) < side {
			small = append(small, i)
			continue
		}
		if ctx.Err() != nil {
			break
		}
		hand <- struct{}{}
		computed := make(chan struct{})
		all.Go(func() {
			end := sync.OnceFunc(func() { close(computed) })
			one(i, end)
			end()
			<-hand
		})
		<-computed
	}
	all.Wait()
	var next atomic.Int64
	for range max(r.Workers, 1) {
		all.Go(func() {
			for ctx.Err() == nil {
				k := int(next.Add(1)) - 1
				if k >= len(small) {
					return
				}
				one(small[k], func() {})
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return m, context.Cause(ctx)
	}
	busy := m.Busy
	m.Busy = nil
	for _, i := range busy {
		if p.Done(i) { // by now
			m.Were++
		} else {
			m.Busy = append(m.Busy, i)
		}
	}
	return m, nil
}

// work counts what has been done of units, by their cost.
type work struct {
	cost, done map[int]float64 // of each unit that is at hand
	all, sum   float64
}

func (p *Dataset) newWork(units []int) *work {
	w := &work{cost: map[int]float64{}, done: map[int]float64{}}
	for _, i := range units {
		w.cost[i] = p.Lines[i].GFLOP
		w.all += p.Lines[i].GFLOP
	}
	return w
}

// set says that a share of a unit is done.
func (w *work) set(i int, share float64) {
	w.sum += float64(w.cost[i] * (share - w.done[i]))
	if w.done[i] = share; share >= 1 {
		delete(w.done, i)
		delete(w.cost, i)
	}
}

// drop leaves a unit out that had been made before.
func (w *work) drop(i int) {
	w.set(i, 0)
	w.all -= w.cost[i]
	w.cost[i] = 0
}

// atHand lists the units that have begun and are not done.
func (w *work) atHand() []At {
	var all []At
	for i, share := range w.done {
		if share > 0 && share < 1 {
			all = append(all, At{i, share})
		}
	}
	sort.Slice(all, func(i, k int) bool { return all[i].Unit < all[k].Unit })
	return all
}

func (w *work) share() float64 {
	if w.sum >= w.all {
		return 1
	}
	return w.sum / w.all
}

// perStep returns the GFLOP of a step of the unit's realizations.
func (p *Dataset) perStep(i int) float64 {
	u, err := p.units.At(i)
	if err != nil {
		return 0 // its turn will say so
	}
	return p.Lines[i].GFLOP / float64(max(u.Rollout.Timesteps-1, 1))
}

// unit makes a unit; was says that there was nothing to do.
func (p *Dataset) unit(ctx context.Context, r Run, i int, progress func(done, total int)) (was bool, err error) {
	if !r.Force && p.Done(i) {
		return true, nil
	}
	u, err := p.Unit(i)
	if err != nil {
		return false, err
	}
	if err := memory.Fits(p.Lines[i].Memory); err != nil {
		return false, fmt.Errorf("%s: unit %d: %w", p.Dir, i, err)
	}
	path := p.place(i)
	if err := disk.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return false, fmt.Errorf("%s: %w: want a folder to write to", filepath.Dir(path), fault.Cause(err))
	}
	release, err := disk.Claim(filepath.Join(p.Dir, base(i)) + ".claim")
	if err != nil {
		return false, fmt.Errorf("%s: %w", p.Dir, err)
	}
	defer release()
	if !r.Force && p.Done(i) { // by another process, just before
		return true, nil
	}
	e, err := u.engine()
	if err != nil {
		return false, err
	}
	e.Progress = progress
	began := time.Now()
	job := &rollout.Job{
		Engine: e, Path: path, Store: u.Store, Gzip: p.units.Gzip, Identity: [][2]string{{"unit", u.Identity}},
		Resume: !r.Force, Force: r.Force, Every: r.Checkpoint, StoredOnly: true,
		Metadata: map[string]string{"dataset": p.Identity, "unit": fmt.Sprint(i), "contract": graph.Contract},
	}
	if !p.units.States {
		job.Path = filepath.Join(p.Dir, filepath.FromSlash(base(i))) + ".measures"
		job.Measured = func(m *rollout.Measures) error { return p.distil(u, job, m) }
	}
	result, err := job.Run(ctx)
	if lost := new(rollout.LostError); errors.As(err, &lost) && !lost.Resumable && !r.Force && !p.Done(i) {
		// What was left of the unit is damaged, or another process wrote over it where no lock
		// kept it off: it is made from the start, to the same bytes.
		job.Resume, job.Force = false, true
		result, err = job.Run(ctx)
	}
	if err != nil {
		switch _, gone := disk.Stat(filepath.Dir(path)); {
		case ctx.Err() != nil || errors.Is(err, rollout.ErrBusy):
		case !r.Force && p.Done(i): // by another process meanwhile
			return true, nil
		case errors.Is(err, fs.ErrNotExist) && gone == nil: // likewise, a part of it
			err = &rollout.LostError{Path: path, What: err.Error()}
		}
		return false, err
	}
	rec := Record{
		Unit: i, File: p.Path(i), Bytes: p.size(i), Seal: result.Seal, Identity: u.Identity, Digest: result.Stored,
		Format: result.StoredFormat.String(), Version: r.Version, Seconds: time.Since(began).Seconds(),
	}
	if rec.Seal == "" { // a file of what was measured
		if rec.SHA256, rec.Bytes, err = hash(path); err != nil {
			return false, err
		}
	}
	record := filepath.Join(p.Dir, base(i)+".json")
	if err := disk.WriteFile(record, rec.sealed(), 0o666); err != nil {
		return false, fmt.Errorf("%s: %w", record, fault.Cause(err))
	}
	return false, nil
}

// engine returns the unit's rollout.
func (u *Unit) engine() (*rollout.Engine, error) {
	op, err := operator.Init(u.Operator, u.WeightsSeed)
	if err != nil {
		return nil, fmt.Errorf("operator %d: %w", u.Index, err)
	}
	x0, err := u.Start()
	if err != nil {
		return nil, err
	}
	cs := &rollout.Case{Operator: u.Operator, Rollout: u.Rollout}
	stream, err := cs.OpenStream("counter", op, u.Mode)
	if err != nil {
		return nil, fmt.Errorf("operator %d: %w", u.Index, err)
	}
	return &rollout.Engine{Stepper: rollout.Stepper{Operator: op, Config: u.Rollout, Mode: u.Mode}, Stream: stream,
		Shape: u.Shape(),
		Start: func(int) []float64 { return x0 }, AllowNonfinite: true}, nil
}

// Start returns the unit's initial condition [C,H,W], the first state of all realizations
// where the rollout does not normalize or clamp it.
func (u *Unit) Start() ([]float64, error) {
	s := u.Shape()
	x := make([]float64, s.Len())
	if err := u.condition.Fill(u.InitialSeed, s.C, s.H, x); err != nil {
		return nil, fmt.Errorf("operator %d: initial.%w", u.Index, err)
	}
	return x, nil
}

// Recompute makes a unit once more, in memory, and returns the digest of its states in a
// format.
func (p *Dataset) Recompute(ctx context.Context, i int, f fp16.Format) (string, error) {
	u, err := p.Unit(i)
	if err != nil {
		return "", err
	}
	e, err := u.engine()
	if err != nil {
		return "", err
	}
	s, r := u.Shape(), u.Rollout
	d := &stored{Digest: rollout.NewDigest(f, r.Realizations, r.Timesteps, s.C, s.H, s.W), to: u.Store}
	e.Sinks = []rollout.Sink{d}
	if err := e.Run(ctx, nil); err != nil {
		return "", err
	}
	return d.Hex(), nil
}

// stored is a digest of states as they are stored.
type stored struct {
	*rollout.Digest
	to  fp16.Format
	buf []float64
}

// State implements [rollout.Sink].
func (d *stored) State(_, m int, x, _ []float64) error {
	d.buf = append(d.buf[:0], x...)
	d.to.RoundSlice(d.buf, d.buf)
	d.Add(m, d.buf)
	return nil
}
