package dataset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/dataset"
	"github.com/refrun/refrun/internal/dataset/initial"
	"github.com/refrun/refrun/internal/ground/disk"
)

var datasetSampleVerb = cli.Verb{
	Name: "dataset sample", Args: "DIR",
	Help: `Draws a contact sheet: a row for each of some units, a picture for each of some times,
of one realization and one channel. Blue is below zero, red above, full at the largest value
of the row, which stands at its end.

example: refrun dataset sample set -o set.svg --units 3,17`,
	Run: datasetSample,
}

// maxPictures bounds the rows and the columns of a sheet.
const maxPictures = 64

func datasetSample(c *cli.Command) error {
	out := c.Flags.String("o", "", "`file` to write, .svg")
	force := c.Flags.Bool("force", false, "overwrite it")
	list := c.Flags.String("units", "", "`units` to show, such as 3,17 (default some of those that are made)")
	rows := c.Flags.Int("rows", 8, "`number` of units to show")
	columns := c.Flags.Int("times", 7, "`number` of times to show, from the first to the last")
	channel := c.Flags.Int("channel", 0, "`channel` to show, from 0")
	realization := c.Flags.Int("realization", 0, "`realization` to show, from 0")
	p, err := openPlan(c)
	if err != nil {
		return err
	}
	switch {
	case *rows < 1 || *rows > maxPictures:
		return fmt.Errorf("--rows: %d: want 1 to %d", *rows, maxPictures)
	case *columns < 1 || *columns > maxPictures:
		return fmt.Errorf("--times: %d: want 1 to %d", *columns, maxPictures)
	}
	if err := sheetFile(*out, *force); err != nil {
		return err
	}
	var units []int
	if *list != "" {
		if units, err = unitList(*list, p.Units); err != nil {
			return err
		}
	} else if units, err = madeUnits(p, *rows); err != nil {
		return err
	}
	if len(units) > maxPictures {
		return fmt.Errorf("--units: %d of them: want at most %d", len(units), maxPictures)
	}
	var s sheet
	for k, i := range units {
		u, err := p.Unit(i)
		if err != nil {
			return err
		}
		row := sheetRow{label: unitLabel(p, u)}
		for _, t := range cli.Sample(u.Rollout.Timesteps, *columns) {
			v, err := p.State(i, *realization, t, *channel)
			if err != nil {
				return err
			}
			row.pictures = append(row.pictures, picture{v, u.Shape().W, fmt.Sprintf("t = %d", t)})
		}
		if k > 0 && sameTitles(s.rows[k-1], row) {
			row.untitled = true
		}
		s.rows = append(s.rows, row)
	}
	s.title = fmt.Sprintf("%s: realization %d, channel %d", p.Name, *realization, *channel)
	if err := s.draw(*out); err != nil {
		return err
	}
	return saidPicture(c, *out, cli.Plural(len(units), "unit"))
}

// sheetFile reports why a picture cannot be written to a file.
func sheetFile(out string, force bool) error {
	if out == "" {
		return errors.New("-o: missing: want a .svg file to write")
	}
	if err := files.SvgName(out); err != nil {
		return err
	}
	if _, err := disk.Lstat(out); err == nil && !force {
		return fmt.Errorf("%s: is there already: want --force to overwrite it", out)
	}
	return nil
}

func saidPicture(c *cli.Command, out, what string) error {
	if c.Json {
		return c.PrintJSON(struct {
			File string `json:"file"`
			What string `json:"what"`
		}{out, what})
	}
	c.Printf("%s: %s\n", cli.Clean(out), what)
	return nil
}

// madeUnits returns at most n of the units that are made, spread over all of them.
func madeUnits(p *dataset.Dataset, n int) ([]int, error) {
	var made []int
	for i := range p.Lines {
		if p.Done(i) {
			made = append(made, i)
		}
	}
	if len(made) == 0 {
		return nil, fmt.Errorf("%s: no unit is made yet: want some", cli.Clean(p.Dir))
	}
	var units []int
	for _, k := range cli.Sample(len(made), n) {
		units = append(units, made[k])
	}
	return units, nil
}

// unitLabel says what distinguishes a unit, in short lines.
func unitLabel(p *dataset.Dataset, u *dataset.Unit) []string {
	lines := []string{fmt.Sprintf("unit %d", u.Index), u.InitialType()}
	for i, field := range p.Fields() {
		if len(lines) == 6 {
			break
		}
		name := field[strings.LastIndexByte(field, '.')+1:]
		if name == "initial" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s", strings.ReplaceAll(name, "_", " "), u.Text(i)))
	}
	for i, l := range lines {
		if len(l) > 26 {
			lines[i] = l[:25] + "…"
		}
	}
	return lines
}

func sameTitles(a, b sheetRow) bool {
	if len(a.pictures) != len(b.pictures) {
		return false
	}
	for i := range a.pictures {
		if a.pictures[i].title != b.pictures[i].title {
			return false
		}
	}
	return true
}

var datasetGalleryVerb = cli.Verb{
	Name: "dataset gallery", Args: "",
	Help: `Draws all initial conditions, or those of one type, a row of some seeds for each, with
their default parameters. Of those with more channels than one the first is shown.

example: refrun dataset gallery -o initial.svg`,
	Run: datasetGallery,
}

func datasetGallery(c *cli.Command) error {
	out := c.Flags.String("o", "", "`file` to write, .svg")
	force := c.Flags.Bool("force", false, "overwrite it")
	side := c.Flags.Int("side", 96, "`pixels` on each side")
	seeds := c.Flags.Int("seeds", 3, "`number` of seeds to show of each, from --seed on")
	seed := c.Flags.Uint64("seed", 1, "`seed` of the first")
	kind := c.Flags.String("type", "", "`type` to show (default all)")
	if err := c.Parse(0); err != nil {
		return err
	}
	switch {
	case *side < 8 || *side > 1024:
		return fmt.Errorf("--side: %d: want 8 to 1024", *side)
	case *seeds < 1 || *seeds > maxPictures:
		return fmt.Errorf("--seeds: %d: want 1 to %d", *seeds, maxPictures)
	}
	if err := sheetFile(*out, *force); err != nil {
		return err
	}
	names := initial.Names()
	if *kind != "" {
		names = []string{*kind}
	}
	s := sheet{title: "Initial conditions, channel 0", across: 3}
	if len(names) == 1 {
		s.across = 1
	}
	for _, name := range names {
		cond, err := initial.Parse("--type", "", []byte(fmt.Sprintf("{\"type\":%q}", name)))
		if err != nil {
			return err
		}
		row := sheetRow{label: []string{strings.ReplaceAll(name, "_", " ")}, untitled: true}
		for k := range *seeds {
			x := make([]float64, 3**side**side)
			if err := cond.Fill(*seed+uint64(k), 3, *side, x); err != nil {
				return err
			}
			row.pictures = append(row.pictures, picture{x[:*side**side], *side, ""})
		}
		s.rows = append(s.rows, row)
	}
	if err := s.draw(*out); err != nil {
		return err
	}
	return saidPicture(c, *out, cli.Plural(len(names), "type"))
}
