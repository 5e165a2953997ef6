package check

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// override puts the files that flags name into a case, in place of its own.
func (w *checkFlags) override(cs *rollout.Case) error {
	for _, f := range []struct {
		path string
		to   **safetensors.File
	}{
		{w.weights, &cs.Weights}, {w.trajectory, &cs.Trajectory}, {w.layers, &cs.Layers}, {w.tape, &cs.Noise},
	} {
		if f.path == "" {
			continue
		}
		var err error
		if *f.to, err = files.OpenFile(f.path); err != nil {
			return err
		}
	}
	if cs.Step != nil {
		if given := cmp.Or(w.weights, w.layers, w.tape); given != "" {
			return fmt.Errorf("%s: a step graph has its weights and draws in its case, and no layers: "+
				"want no --weights, --layers or --tape", given)
		}
		return nil
	}
	switch {
	case cs.Trajectory == nil && w.dir == "":
		return errors.New("--trajectory: missing: want the safetensors file that the device wrote")
	case cs.Weights == nil && cs.WeightsSeed == nil:
		return errors.New("--weights: missing: want the safetensors file of the weights, or weights_seed in " + cs.File)
	}
	return nil
}

// spares refuses a report in the place of a file that the check reads.
func (w *checkFlags) spares(flag, path string) error {
	read := []string{w.config, w.weights, w.trajectory, w.layers, w.tape}
	if w.dir != "" {
		read = append(read, files.CaseFiles(w.dir)...)
	}
	return files.Apart(flag, path, read...)
}
