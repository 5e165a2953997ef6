package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/dataset"
	"github.com/refrun/refrun/internal/ground/disk"
)

var datasetVerifyVerb = cli.Verb{
	Name: "dataset verify", Args: "DIR",
	Help: `Compares the units with their records, the manifest and the plan: whether each
is there and as long as it was. With --read every byte is read. With --recompute K so
many units are made once more, in memory, and must have the same digest.

Exit code 1 names what is wrong; refrun dataset run DIR --units LIST --force makes it anew.

example: refrun dataset verify set --read --recompute 10`,
	Run: datasetVerify,
}

func datasetVerify(c *cli.Command) error {
	read := c.Flags.Bool("read", false, "read every byte, and not only look at sizes")
	again := c.Flags.Int("recompute", 0, "`units` to make once more and compare")
	c.Judges()
	p, err := openPlan(c)
	if damaged := new(dataset.Damaged); errors.As(err, &damaged) && len(damaged.Units) > 0 {
		out := &dataset.Checked{}
		for _, i := range damaged.Units {
			out.Faults = append(out.Faults, dataset.Fault{
				Unit: i, What: filepath.Base(damaged.Path) + ": its line is not the one that was written",
			})
		}
		return verified(c, out)
	}
	if err != nil {
		return err
	}
	if *again < 0 {
		return fmt.Errorf("--recompute: %d: want 0 or more", *again)
	}
	bar := c.Progress("units")
	ctx, stop := cli.Interruptible()
	out, err := p.Verify(ctx, dataset.Check{Read: *read, Recompute: *again, Progress: bar.Step})
	bar.Done()
	if cause := stop(); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	if err := verified(c, out); err != nil || c.Json {
		return err
	}
	c.Printf("%s: ok, %s, %d of them read, %d made once more\n", cli.Clean(p.Dir), cli.Plural(out.Units, "unit"),
		out.Read, out.Recomputed)
	return nil
}

// verified tells what is wrong; if anything is, that is an error.
func verified(c *cli.Command, out *dataset.Checked) error {
	if c.Json {
		if err := c.PrintJSON(struct {
			OK         bool            `json:"ok"`
			Units      int             `json:"units"`
			Read       int             `json:"read"`
			Recomputed int             `json:"recomputed"`
			Manifest   string          `json:"manifest_sha256,omitempty"`
			Faults     []dataset.Fault `json:"faults"`
		}{len(out.Faults) == 0, out.Units, out.Read, out.Recomputed, out.Manifest,
			append([]dataset.Fault{}, out.Faults...)}); err != nil {
			return err
		}
	}
	for _, f := range out.Faults {
		c.Printf("unit %d: %s\n", f.Unit, cli.Clean(f.What))
	}
	if len(out.Faults) > 0 {
		return cli.ErrFailed
	}
	return nil
}

var datasetMergeVerb = cli.Verb{
	Name: "dataset merge", Args: "DIR",
	Help: `Writes all units into one file: trajectories [N,M,T,C,H,W], their diagnostics and
the sampled points, a state of which is in memory at a time; manifest.jsonl, a line for each
unit; and README.md, which says what the folder holds, its identity, how to load and to
cite it. All units must be there and of one size. The file is safetensors, or HDF5 in
Spinlock's layout and in The Well's at once, which are two views of the same numbers.

example: refrun dataset merge set -o all.safetensors`,
	Run: datasetMerge,
}

func datasetMerge(c *cli.Command) error {
	out := c.Flags.String("o", "", "`file` to write, .safetensors or .h5")
	force := c.Flags.Bool("force", false, "overwrite it")
	gzip := c.Flags.Int("gzip", 4, "`level` of compression of .h5, 1 to 9; 0 for none")
	p, err := openPlan(c)
	if err != nil {
		return err
	}
	if *out == "" {
		return errors.New("-o: missing: want a .safetensors or .h5 file to write")
	}
	if _, err := disk.Lstat(*out); err == nil && !*force {
		return fmt.Errorf("%s: is there already: want --force to overwrite it", *out)
	}
	bar := c.Progress("pieces")
	sum, err := p.Merge(*out, *gzip, bar.Step)
	bar.Done()
	if err != nil {
		if cli.FromOutside(err) {
			err = cli.Unfinished{Err: err}
		}
		return err
	}
	manifest, err := p.WriteManifest()
	if err != nil {
		return err
	}
	if err := p.WriteCard(manifest); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return err // a folder that one may only read can be merged without
	}
	if c.Json {
		return c.PrintJSON(struct {
			File     string `json:"file"`
			SHA256   string `json:"sha256"`
			Manifest string `json:"manifest_sha256"`
			Identity string `json:"identity"`
		}{*out, sum, manifest, p.Identity})
	}
	c.Printf("%s: SHA-256 %s\n%s: SHA-256 %s\nidentity %s\n",
		cli.Clean(*out), sum, cli.Clean(filepath.Join(p.Dir, "manifest.jsonl")), manifest, p.Identity)
	return nil
}

var datasetInfoVerb = cli.Verb{
	Name: "dataset info", Args: "DIR",
	Help: `Says what a plan is, or with --unit what one unit of it is: its parameters, its
seeds, its identity, and its record if it has been made.

example: refrun dataset info set --unit 17 --json`,
	Run: datasetInfo,
}

func datasetInfo(c *cli.Command) error {
	unit := c.Flags.Int("unit", -1, "`index` of a unit, from 0 (default the plan itself)")
	p, err := openPlan(c)
	if err != nil {
		return err
	}
	if *unit >= p.Units || *unit < -1 {
		return fmt.Errorf("--unit: %d: want 0 to %d", *unit, p.Units-1)
	}
	if *unit < 0 {
		if c.Json {
			return c.PrintJSON(p.Head)
		}
		c.Printf("%s: %s in %s, made by %s, contract %s\nidentity %s\n",
			p.Name, cli.Plural(p.Units, "unit"), cli.Plural(p.Shards, "shard"), p.MadeBy, p.Contract, p.Identity)
		for _, n := range p.Notes {
			c.Printf("note: %s\n", n)
		}
		var spec bytes.Buffer
		if err := json.Compact(&spec, p.Spec); err != nil {
			return err
		}
		c.Printf("%s\n", spec.String())
		return nil
	}
	u, err := p.Unit(*unit)
	if err != nil {
		return err
	}
	r, err := p.Record(*unit)
	if err != nil {
		return err
	}
	report := struct {
		dataset.Line
		Point       []float64       `json:"point"`
		Operator    any             `json:"operator"`
		Rollout     any             `json:"rollout"`
		Initial     any             `json:"initial"`
		WeightsSeed uint64          `json:"weights_seed"`
		BaseSeed    uint64          `json:"base_seed"`
		InitialSeed uint64          `json:"initial_seed"`
		Record      *dataset.Record `json:"record,omitempty"`
	}{p.Lines[*unit], u.Point, u.OperatorText, u.RolloutText, u.InitialText, u.WeightsSeed, u.Rollout.BaseSeed,
		u.InitialSeed, r}
	if c.Json {
		return c.PrintJSON(report)
	}
	c.Printf("unit %d, identity %s\n  operator %s\n  rollout  %s\n  initial  %s\n  weights_seed "+
		"%d, base_seed %d, initial_seed %d\n", *unit, u.Identity, string(u.OperatorText), string(u.RolloutText),
		string(u.InitialText), u.WeightsSeed, u.Rollout.BaseSeed, u.InitialSeed)
	c.Printf("  predicted %s, %s, memory %s\n", cli.Long(report.Seconds), cli.Size(report.Bytes), cli.Size(report.Memory))
	if r != nil {
		c.Printf("  made in %s: %s, digest %s (%s)\n", cli.Long(r.Seconds), r.File, r.Digest, r.Format)
	}
	return nil
}
