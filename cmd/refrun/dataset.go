package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

var datasetVerb = verb{
	name:    "dataset",
	args:    "plan|run|status|missing|verify|merge|export|info|sample|gallery ...",
	summary: "many sampled operators, rolled out in shards, verified and merged",
	help: `Makes a dataset of sampled operators in a folder, on one machine or on many:

  dataset plan SPEC.yaml -o DIR   sample the operators and say what they take
  dataset run DIR                 make them, or one shard of them; again: what is left
  dataset status DIR              how far it is
  dataset missing DIR             the units that are not made
  dataset verify DIR              whether all is as it was written
  dataset merge DIR -o FILE       all units in one file, and the manifest
  dataset export DIR -o FOLDER    The Well's layout, Zarr, or a file for each operator
  dataset info DIR                what the plan says, or one unit of it
  dataset sample DIR -o FILE.svg  a picture of some of the rollouts
  dataset gallery -o FILE.svg     a picture of all initial conditions

Each has its own --help; docs/DATASETS.md says more.

example: refrun dataset plan spec.yaml -o set && refrun dataset run set && refrun dataset verify set --read`,
	run: datasets,
	parts: []verb{datasetPlanVerb, datasetRunVerb, datasetStatusVerb, datasetMissingVerb, datasetVerifyVerb,
		datasetMergeVerb, datasetExportVerb, datasetInfoVerb, datasetSampleVerb, datasetGalleryVerb},
}

func datasets(c *command) error {
	if len(c.pos) > 0 {
		for _, v := range c.parts {
			if _, name, _ := strings.Cut(v.name, " "); name == c.pos[0] {
				c.verb, c.pos = v, c.pos[1:]
				return v.run(c)
			}
		}
		if !strings.HasPrefix(c.pos[0], "-") && !slices.Contains(c.pos, "--help") && !slices.Contains(c.pos, "-h") &&
			!slices.Contains(c.pos, "-help") {
			names, list := datasetNames(c.parts)
			return fmt.Errorf("%.60q:%s want %s", c.pos[0], fault.Meant(strings.ToLower(c.pos[0]), names), list)
		}
	}
	if err := c.parse(some); err != nil {
		return err
	}
	_, list := datasetNames(c.parts)
	return errors.New("nothing to do: want " + list)
}

// datasetNames are the names of the verbs, and a list of them.
func datasetNames(parts []verb) (names []string, list string) {
	for _, v := range parts {
		_, name, _ := strings.Cut(v.name, " ")
		names = append(names, name)
	}
	last := len(names) - 1
	return names, strings.Join(names[:last], ", ") + " or " + names[last]
}

// unfinished is what stopped the making of a dataset, with which the same command goes on.
type unfinished struct{ err error }

func (u unfinished) Error() string { return u.err.Error() + "; the same command goes on" }
func (u unfinished) Unwrap() error { return u.err }
