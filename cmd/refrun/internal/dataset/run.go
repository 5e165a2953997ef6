package dataset

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/dataset"
	"github.com/refrun/refrun/rollout"
)

// openPlan opens the plan in the folder that is the verb's argument.
func openPlan(c *cli.Command) (*dataset.Dataset, error) {
	if err := c.Parse(1); err != nil {
		return nil, err
	}
	return dataset.Open(c.Pos[0])
}

var datasetRunVerb = cli.Verb{
	Name: "dataset run", Args: "DIR",
	Help: `Makes the units of a plan, or one shard of them: one file each. What is there
already stays; what a process left behind is continued to the same bytes. So the same
command is right after a crash, a full disk or a time limit.

--shard auto takes the index from the environment: SLURM_ARRAY_TASK_ID,
JOB_COMPLETION_INDEX (Kubernetes), PBS_ARRAY_INDEX, PBS_ARRAYID, LSB_JOBINDEX,
SGE_TASK_ID, AWS_BATCH_JOB_ARRAY_INDEX or PARALLEL_SEQ. How many shards there are the plan says.

Exit code 75: stopped by SIGTERM or a full disk, or other processes are making some of the
units, or wrote over one where the file system has no locks; the same command goes on.

example: refrun dataset run set --shard auto`,
	Run: datasetRun,
}

func datasetRun(c *cli.Command) error {
	shard := c.Flags.String("shard", "",
		"`shard` to make: auto, by a scheduler's index in the environment, or i/n with i from 0 (default all)")
	offset := c.Flags.Int("shard-offset", 0,
		"`number` to add to the scheduler's index, where arrays are shorter than the shards")
	list := c.Flags.String("units", "", "`units` to make, such as 3,17, instead of a shard")
	force := c.Flags.Bool("force", false, "make anew what has been made; needs --units")
	every := c.Flags.Duration("checkpoint", 5*time.Second, "`time` between checkpoints of a unit")
	p, err := openPlan(c)
	if err != nil {
		return err
	}
	switch {
	case *every < 0:
		return fmt.Errorf("--checkpoint: %v: want 0 (after every step) or more", *every)
	case *force && *list == "":
		return errors.New("--force: want --units as well")
	case *list != "" && *shard != "":
		return errors.New("--units and --shard: want one of them")
	}
	var units []int
	var s dataset.Shard
	if *list != "" {
		if units, err = unitList(*list, p.Units); err != nil {
			return err
		}
	} else {
		if s, err = dataset.ParseShard(*shard, p.Shards, *offset, os.Getenv); err != nil {
			return err
		}
		units = s.Units(p.Costs())
	}
	bar := c.Progress("units")
	ctx, stop := cli.Interruptible()
	began := time.Now()
	made, err := p.Make(ctx, dataset.Run{Units: units, Workers: runtime.GOMAXPROCS(0), Checkpoint: *every,
		Force: *force, Version: "refrun " + cli.Version, Progress: func(at dataset.Progress) { showUnits(bar, at) }})
	bar.Done()
	if cause := stop(); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		if errors.Is(err, cli.ErrTerminated) || errors.Is(err, cli.ErrInterrupted) || cli.FromOutside(err) ||
			errors.As(err, new(*rollout.NoRoomError)) || errors.As(err, new(*rollout.LostError)) {
			err = cli.Unfinished{Err: err}
		}
		return err
	}
	report := struct {
		Units    int     `json:"units"`
		Made     int     `json:"made"`
		Were     int     `json:"made_before"`
		Busy     []int   `json:"busy,omitempty"`
		Shard    string  `json:"shard,omitempty"`
		Seconds  float64 `json:"seconds"`
		Identity string  `json:"identity"`
	}{len(units), made.Made, made.Were, made.Busy, "", time.Since(began).Seconds(), p.Identity}
	if *list == "" {
		report.Shard = fmt.Sprintf("%d/%d", s.Index, s.Of)
	}
	if c.Json {
		err = c.PrintJSON(report)
	} else {
		c.Printf("%s made in %s, %d had been made\n", cli.Plural(made.Made, "unit"), cli.Long(report.Seconds), made.Were)
	}
	if err == nil && len(made.Busy) > 0 {
		err = cli.Unfinished{Err: fmt.Errorf("%s: other processes are making %s of the shard, the first is %d",
			cli.Clean(p.Dir), cli.Plural(len(made.Busy), "unit"), made.Busy[0])}
	}
	return err
}

// progressOf returns the records of a plan's units that have been made.
func progressOf(p *dataset.Dataset) (made int, bytes int64, predicted, seconds, left float64) {
	for i, l := range p.Lines {
		if r, err := p.Record(i); err == nil && r != nil && p.Done(i) {
			made++
			bytes += r.Bytes
			predicted += l.Seconds
			seconds += r.Seconds
			continue
		}
		left += l.Seconds
	}
	return
}

var datasetStatusVerb = cli.Verb{
	Name: "dataset status", Args: "DIR",
	Help: `Says how many units of a plan have been made, and about how long the others
take at the rate of those that were.

example: refrun dataset status set --json`,
	Run: datasetStatus,
}

func datasetStatus(c *cli.Command) error {
	p, err := openPlan(c)
	if err != nil {
		return err
	}
	made, bytes, predicted, seconds, left := progressOf(p)
	share := 1.0
	if left > 0 {
		share = predicted / (predicted + left)
	}
	if predicted > 0 { // at the rate of the machines that made them
		left *= seconds / predicted
	}
	if c.Json {
		return c.PrintJSON(struct {
			Name    string  `json:"name"`
			Units   int     `json:"units"`
			Made    int     `json:"made"`
			Share   float64 `json:"share_of_work"`
			Bytes   int64   `json:"bytes"`
			Seconds float64 `json:"worker_seconds_so_far"`
			Left    float64 `json:"worker_seconds_left"`
		}{p.Name, p.Units, made, share, bytes, seconds, left})
	}
	c.Printf("%s: %d of %s made, %.1f %% of the work, %s\n", p.Name, made, cli.Plural(p.Units, "unit"), 100*share,
		cli.Size(bytes))
	if made < p.Units {
		c.Printf("about %s of one worker left\n", cli.Long(left))
	}
	return nil
}

var datasetMissingVerb = cli.Verb{
	Name: "dataset missing", Args: "DIR",
	Help: `Lists the units of a plan that have not been made, one a line. Exit code 1 if
there are any.

example: refrun dataset missing set`,
	Run: datasetMissing,
}

func datasetMissing(c *cli.Command) error {
	p, err := openPlan(c)
	if err != nil {
		return err
	}
	missing := p.Missing()
	if c.Json {
		if err := c.PrintJSON(struct {
			Missing []int `json:"missing"`
		}{append([]int{}, missing...)}); err != nil {
			return err
		}
	}
	for _, i := range missing {
		c.Printf("%d\n", i)
	}
	if len(missing) > 0 {
		return cli.ErrFailed
	}
	return nil
}

// unitList reads a list of units, such as 3,17.
func unitList(text string, n int) ([]int, error) {
	var all []int
	for _, s := range strings.Split(text, ",") {
		var i int
		if _, err := fmt.Sscanf(s, "%d", &i); err != nil || fmt.Sprint(i) != s || i < 0 || i >= n {
			return nil, fmt.Errorf("--units: %.60q: want numbers from 0 to %d, with commas between", s, n-1)
		}
		if !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	return all, nil
}

// showUnits is step for units of a dataset, of which some are larger than others.
// It says which are at hand, one for each worker, and the rate of the work.
func showUnits(p *cli.Progress, at dataset.Progress) {
	if !p.Due() {
		return
	}
	line := fmt.Sprintf("%s: %d of %d, %.3g %% of the work, %.3g GFLOP/s",
		p.What, at.Done, at.Total, 100*at.Share, at.GFLOP/time.Since(p.Began).Seconds())
	const most = 4
	for _, u := range at.At[:min(len(at.At), most)] {
		line += fmt.Sprintf(", unit %d %.0f %%", u.Unit, 100*u.Share)
	}
	if len(at.At) > most {
		line += fmt.Sprintf(" and %d more", len(at.At)-most)
	}
	p.Show(line, at.Share)
}
