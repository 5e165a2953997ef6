package rollout

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/refrun/refrun/internal/ground/disk"
)

// room reports an output that cannot fit on its disk, before anything of it is made.
// Where the system does not say what is free, it goes on.
func (j *Job) room(s Trajectory, from *Checkpoint) error {
	need := map[string]float64{} // by folder
	need[filepath.Dir(j.Path)] = j.outputBytes(s)
	if j.Record != "" {
		need[filepath.Dir(j.Record)] += j.tapeBytes(s)
	}
	// A partial file of a run that begins again is cut off first. It may have holes, so
	// that this is more than what becomes free.
	replaced := map[string]float64{}
	if from == nil {
		for path, f := range j.held {
			if info, err := f.Stat(); err == nil {
				replaced[filepath.Dir(path)] += float64(info.Size())
			}
		}
	}
	left := 1.0 // of the records
	if from != nil {
		done := orderOf(j.Config).until(from.Batch, from.Step)
		left = 1 - float64(done)/float64(s.states())
	}
	for _, dir := range slices.Sorted(maps.Keys(need)) {
		n := need[dir] * left
		if free, ok := disk.Free(dir); ok && n > float64(free)+replaced[dir] {
			return &NoRoomError{j.Path, n, float64(free)}
		}
		if n > 1<<62 {
			return fmt.Errorf("%s: %.3g bytes to write: want fewer than 2^62", j.Path, n)
		}
	}
	return nil
}

// outputBytes returns the bytes that the trajectory takes on disk. Of a compressed one
// it is the least that it may take.
func (j *Job) outputBytes(s Trajectory) float64 {
	const hash, diagnostics = 32, 5
	n, state := float64(float64(s.M)*float64(s.T)), 1.0
	for _, d := range append([]int{j.Store.Bytes()}, s.State...) {
		state *= float64(d)
	}
	if j.Measured != nil { // in two checkpoints, as base64
		return 2 * n * 8 * diagnostics * 4 / 3
	}
	switch filepath.Ext(j.Path) {
	case ".npy":
		return n * (hash + state)
	case ".npz": // the archive is made beside the partial file
		return 2 * n * (8*diagnostics + hash + state)
	case ".h5", ".hdf5":
		const place, deflated = 48, 1. / 1032
		return n * (4*diagnostics + hash + place + float64(state*deflated))
	}
	return n * (8*diagnostics + hash + state)
}

// tapeBytes returns the bytes of the tape.
func (j *Job) tapeBytes(s Trajectory) float64 {
	kinds, channels := j.Operator.Draws()
	n := 0.0
	for _, k := range kinds {
		one := 1.0
		for _, d := range drawShape(k, channels, j.Shape) {
			one *= float64(d)
		}
		n += one
	}
	return 4 * n * float64(s.M) * float64(s.T-1)
}

// NoRoomError says that the disk has less room than a run will write.
type NoRoomError struct {
	Path       string
	Need, Free float64 // bytes
}

// Error implements error.
func (e *NoRoomError) Error() string {
	return fmt.Sprintf("%s: %.3g bytes to write, and %.3g free: want room for the whole run; "+
		"fewer steps or realizations make it smaller", e.Path, e.Need, e.Free)
}
