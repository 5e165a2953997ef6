package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/refrun/refrun/dataset"
	"github.com/refrun/refrun/internal/ground/disk"
)

var datasetExportVerb = verb{
	name: "dataset export", args: "DIR",
	help: `Writes all units into a folder, in a layout that other programs read:

  well          The Well's: data/train, data/valid and data/test with an HDF5 file each,
                which is in Spinlock's layout as well
  zarr          a Zarr version 3 store, for zarr-python and xarray: a shard for each operator
  safetensors   a file for each operator, with its parameters and initial condition

All units must be there and, but for safetensors, of one size.

example: refrun dataset export set -o set.zarr --format zarr`,
	run: datasetExport,
}

func datasetExport(c *command) error {
	out := c.flags.String("o", "", "`folder` to write to")
	format := c.flags.String("format", "", "`layout`: "+strings.Join(dataset.Formats, ", "))
	gzip := c.flags.Int("gzip", 4, "`level` of compression of HDF5 and Zarr, 1 to 9; 0 for none")
	split := c.flags.String("split", "8,1,1", "`shares` of the operators in train, valid and test, of The Well's layout")
	force := c.flags.Bool("force", false, "write into a folder that is there already")
	p, err := c.openPlan()
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
	bar := c.progress("pieces")
	l.Progress = bar.step
	err = p.Export(*out, l)
	bar.done()
	if err != nil {
		if fromOutside(err) {
			err = unfinished{err}
		}
		return err
	}
	if c.json {
		return c.printJSON(struct {
			Folder   string `json:"folder"`
			Format   string `json:"format"`
			Units    int    `json:"units"`
			Identity string `json:"identity"`
		}{*out, *format, p.Units, p.Identity})
	}
	c.printf("%s: %s, layout %s\n", clean(*out), plural(p.Units, "unit"), *format)
	return nil
}
