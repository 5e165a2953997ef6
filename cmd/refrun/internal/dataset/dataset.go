package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/internal/ground/fault"
)

var Verb = cli.Verb{
	Name:    "dataset",
	Args:    "plan|run|status|missing|verify|merge|export|info|sample|gallery ...",
	Summary: "many sampled operators, rolled out in shards, verified and merged",
	Help: `Makes a dataset of sampled operators in a folder, on one machine or on many:

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
	Run: datasets,
	Parts: []cli.Verb{datasetPlanVerb, datasetRunVerb, datasetStatusVerb, datasetMissingVerb, datasetVerifyVerb,
		datasetMergeVerb, datasetExportVerb, datasetInfoVerb, datasetSampleVerb, datasetGalleryVerb},
}

func datasets(c *cli.Command) error {
	if len(c.Pos) > 0 {
		for _, v := range c.Parts {
			if _, name, _ := strings.Cut(v.Name, " "); name == c.Pos[0] {
				c.Verb, c.Pos = v, c.Pos[1:]
				return v.Run(c)
			}
		}
		if !strings.HasPrefix(c.Pos[0], "-") && !slices.Contains(c.Pos, "--help") && !slices.Contains(c.Pos, "-h") &&
			!slices.Contains(c.Pos, "-help") {
			names, list := datasetNames(c.Parts)
			return fmt.Errorf("%.60q:%s want %s", c.Pos[0], fault.Meant(strings.ToLower(c.Pos[0]), names), list)
		}
	}
	if err := c.Parse(cli.Some); err != nil {
		return err
	}
	_, list := datasetNames(c.Parts)
	return errors.New("nothing to do: want " + list)
}

// datasetNames are the names of the verbs, and a list of them.
func datasetNames(parts []cli.Verb) (names []string, list string) {
	for _, v := range parts {
		_, name, _ := strings.Cut(v.Name, " ")
		names = append(names, name)
	}
	last := len(names) - 1
	return names, strings.Join(names[:last], ", ") + " or " + names[last]
}
