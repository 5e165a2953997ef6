package dataset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/dataset"
	"github.com/refrun/refrun/internal/ground/disk"
)

var datasetExportVerb = cli.Verb{
	Name: "dataset export", Args: "DIR",
	Help: `Writes all units into a folder, in a layout that other programs read:

  well          The Well's: data/train, data/valid and data/test with an HDF5 file each,
                which is in Spinlock's layout as well
  zarr          a Zarr version 3 store, for zarr-python and xarray: a shard for each operator
  safetensors   a file for each operator, with its parameters and initial condition

All units must be there and, but for safetensors, of one size.

example: refrun dataset export set -o set.zarr --format zarr`,
	Run: datasetExport,
}

func datasetExport(c *cli.Command) error {
	out := c.Flags.String("o", "", "`folder` to write to")
	format := c.Flags.String("format", "", "`layout`: "+strings.Join(dataset.Formats, ", "))
	gzip := c.Flags.Int("gzip", 4, "`level` of compression of HDF5 and Zarr, 1 to 9; 0 for none")
	split := c.Flags.String("split", "8,1,1", "`shares` of the operators in train, valid and test, of The Well's layout")
	force := c.Flags.Bool("force", false, "write into a folder that is there already")
	p, err := openPlan(c)
	if err != nil {
		return err
	}
	l := dataset.Layout{Format: *format, Gzip: *gzip}
	switch {
	case *out == "":
		return errors.New("-o: missing: want a folder to write to")
	case *format == "":
		return errors.New("--format: missing: want " + strings.Join(dataset.Formats, ", "))
	}
	if n, err := fmt.Sscanf(*split, "%d,%d,%d", &l.Split[0], &l.Split[1], &l.Split[2]); n != 3 || err != nil {
		return fmt.Errorf("--split: %.60q: want three numbers of 0 or more, such as 8,1,1", *split)
	}
	if _, err := disk.Lstat(*out); err == nil && !*force {
		return fmt.Errorf("%s: is there already: want a new folder, or --force to write into it", *out)
	}
	bar := c.Progress("pieces")
	l.Progress = bar.Step
	err = p.Export(*out, l)
	bar.Done()
	if err != nil {
		if cli.FromOutside(err) {
			err = cli.Unfinished{Err: err}
		}
		return err
	}
	if c.Json {
		return c.PrintJSON(struct {
			Folder   string `json:"folder"`
			Format   string `json:"format"`
			Units    int    `json:"units"`
			Identity string `json:"identity"`
		}{*out, *format, p.Units, p.Identity})
	}
	c.Printf("%s: %s, layout %s\n", cli.Clean(*out), cli.Plural(p.Units, "unit"), *format)
	return nil
}
