package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/refrun/refrun/rollout"
)

// Probe is one realization of a case that is made to show a certain kind of
// fault: what a rollout's own states may never show.
type Probe struct {
	Name string `json:"name"` // the kind
	// Value is the rung of a ladder: the standard deviation of the first
	// convolution's output, or of a mean-ladder the ratio of mean to deviation.
	Value float64 `json:"value,omitempty"`
	What  string  `json:"what"`
}

// ProbesFile tells a check that a folder holds probes, and which. It lies
// beside the case: a device that answers may write its own case.json.
const ProbesFile = "probes.json"

type ProbeList struct {
	Probes []Probe `json:"probes"` // one per realization
}

// ReadProbes returns the probes of a case, nil if it holds none.
func ReadProbes(c *rollout.Case) ([]Probe, error) {
	data, err := c.ReadFile(ProbesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var l ProbeList
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err == nil && len(l.Probes) != c.Rollout.Realizations {
		err = fmt.Errorf("%d probes: want %d, as many as realizations", len(l.Probes), c.Rollout.Realizations)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(c.Dir, ProbesFile), err)
	}
	return l.Probes, nil
}
