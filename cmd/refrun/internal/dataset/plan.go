package dataset

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
	"github.com/refrun/refrun/dataset"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	points "github.com/refrun/refrun/internal/dataset/sample"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/tensor"
)

// planned is the JSON of dataset plan.
type planned struct {
	dataset.Head
	Method      string    `json:"method"`
	Dims        int       `json:"dimensions"`
	Discrepancy float64   `json:"centred_discrepancy"`
	Correlation float64   `json:"largest_correlation"`
	Between     [2]string `json:"largest_correlation_of"`
	Judged      int       `json:"points_judged"` // the first of them

	Seconds  [3]float64         `json:"seconds_of_a_unit"` // least, median, most
	Total    float64            `json:"seconds"`           // of one machine
	By       map[string]float64 `json:"seconds_by_precision"`
	Nodes    int                `json:"nodes"`
	OnNodes  float64            `json:"seconds_on_nodes"`
	Bytes    int64              `json:"bytes"`
	Most     int64              `json:"bytes_of_largest_unit"`
	Memory   int64              `json:"memory_of_largest_unit"`
	Threads  int                `json:"threads"`
	Sampled  []sampled          `json:"sampled,omitempty"`
	Folder   string             `json:"folder,omitempty"`
	Free     *uint64            `json:"disk_free_bytes,omitempty"` // if that is less than the files take
	Parallel float64            `json:"seconds_of_largest_shard"`
}

// sampled is one operator of a plan.
type sampled struct {
	Unit     int     `json:"unit"`
	Operator any     `json:"operator"`
	Rollout  any     `json:"rollout"`
	Initial  any     `json:"initial"`
	Seconds  float64 `json:"seconds"`
}

// mostJudged is of how many points the discrepancy is formed, which takes their square.
const mostJudged = 4096

var datasetPlanVerb = cli.Verb{
	Name: "dataset plan", Args: "SPEC",
	Help: `Reads a specification in YAML or JSON, our own form or Spinlock's, samples its
operators and says how evenly, and what they take: seconds, bytes, memory. With -o it
writes the plan into a folder, from which any number of machines make the units.
--dry-run shows ten operators and writes nothing.

The seconds are predictions from the shapes, at the rate of this machine.

example: refrun dataset plan spec.yaml -o set --workers 64`,
	Run: datasetPlan,
}

func datasetPlan(c *cli.Command) error {
	out := c.Flags.String("o", "", "`folder` to write the plan to")
	workers := c.Flags.Int("workers", 1, "`processes` that will make it at once; there are 16 shards for each")
	shards := c.Flags.Int("shards", 0, "`number` of shards (default 16 for each worker)")
	rate := c.Flags.Float64("rate", 0, "`GFLOP/s` to predict by (default measured here, in about a second)")
	dry := c.Flags.Bool("dry-run", false, "show ten sampled operators, and write nothing")
	if err := c.Parse(1); err != nil {
		return err
	}
	switch {
	case *out == "" && !*dry:
		return errors.New("-o: missing: want a folder to write the plan to, or --dry-run")
	case *workers < 1 || *workers > 1<<16:
		return fmt.Errorf("--workers: %d: want 1 to %d", *workers, 1<<16)
	case *shards < 0 || *shards > 1<<20:
		return fmt.Errorf("--shards: %d: want 1 to %d", *shards, 1<<20)
	case *rate < 0 || !(*rate < 1e9):
		return fmt.Errorf("--rate: %v: want more than 0", *rate)
	}
	if *shards == 0 {
		*shards = 16 * *workers
	}
	path := c.Pos[0]
	data, err := files.ReadText(path)
	if err != nil {
		return err
	}
	text, at, err := files.ParseYAML(path, data, "operators and space, or parameter_space")
	if err != nil {
		return err
	}
	spec, err := dataset.Parse(path, text)
	if err != nil {
		return at.Place(path, err)
	}
	units, err := spec.Units(path)
	if err != nil {
		return err
	}
	first, err := units.At(0)
	if err != nil {
		return at.Place(path, err)
	}
	by := map[string]float64{}
	for _, name := range plannedModes {
		by[name] = *rate
	}
	if *rate == 0 {
		if by, err = measureRates(); err != nil {
			return err
		}
	}
	used, ok := by[first.Rollout.Precision]
	if !ok {
		used = by["float32"]
	}
	p, err := dataset.New(spec, path, *out, *shards, used, "refrun "+cli.Version)
	if err != nil {
		return at.Place(path, err)
	}
	r := judgePlan(p, spec, units, *workers)
	for name, rate := range by {
		r.By[name] = r.Total * used / rate
	}
	if *dry {
		for _, i := range cli.Sample(spec.Operators, 10) {
			u, err := units.At(i)
			if err != nil {
				return err
			}
			r.Sampled = append(r.Sampled, sampled{i, u.OperatorText, u.RolloutText, u.InitialText, p.Lines[i].Seconds})
		}
	} else {
		if err := p.Write(); err != nil {
			return err
		}
		r.Folder = *out
		if free, ok := disk.Free(*out); ok && free < uint64(r.Bytes) {
			r.Free = &free
		}
	}
	if c.Json {
		return c.PrintJSON(r)
	}
	printPlanned(c, r, spec)
	return nil
}

// judgePlan says how evenly the points are spread and what the units take.
func judgePlan(p *dataset.Dataset, s *dataset.Spec, units *dataset.Units, nodes int) *planned {
	r := &planned{Head: p.Head, Judged: min(s.Operators, mostJudged), Nodes: nodes,
		Threads: runtime.GOMAXPROCS(0), By: map[string]float64{}}
	r.Method, r.Dims = s.Sampling()
	x := make([]float64, r.Judged*r.Dims)
	for i := range r.Judged {
		units.Point(i, x[i*r.Dims:(i+1)*r.Dims])
	}
	r.Discrepancy = points.Discrepancy(x, r.Dims)
	var fields []string
	for _, a := range s.Axes {
		if !a.Apart {
			fields = append(fields, a.Field)
		}
	}
	most, a, b := points.Correlation(x, r.Dims)
	r.Correlation, r.Between = most, [2]string{fields[a], fields[b]}
	var seconds []float64
	for _, l := range p.Lines {
		seconds = append(seconds, l.Seconds)
		r.Total += l.Seconds
		r.Bytes += l.Bytes
		r.Most, r.Memory = max(r.Most, l.Bytes), max(r.Memory, l.Memory)
	}
	slices.Sort(seconds)
	r.Seconds = [3]float64{seconds[0], seconds[len(seconds)/2], seconds[len(seconds)-1]}
	r.OnNodes, r.Parallel = p.Makespan(nodes)
	return r
}

func printPlanned(c *cli.Command, r *planned, s *dataset.Spec) {
	c.Printf("%s: %s of a space of %s, sampled by %s\n",
		r.Name, cli.Plural(r.Units, "operator"), cli.Plural(r.Dims, "dimension"), string(r.Method))
	c.Printf("of %s: centred discrepancy %.3g, largest correlation %.3g (%s and %s)\n",
		cli.Plural(r.Judged, "point"), r.Discrepancy, r.Correlation, r.Between[0], r.Between[1])
	for _, n := range r.Notes {
		c.Printf("note: %s\n", n)
	}
	c.Printf("\na unit takes %s to %s, in the middle %s, and %s of memory at most\n", cli.Long(r.Seconds[0]),
		cli.Long(r.Seconds[2]), cli.Long(r.Seconds[1]), cli.Size(r.Memory))
	c.Printf("all of them %s on this machine", cli.Long(r.Total))
	if r.Nodes > 1 {
		c.Printf(", with %d like it %s", r.Nodes, cli.Long(r.OnNodes))
	}
	c.Printf(" (%s, predicted at %.3g GFLOP/s)", cli.Plural(r.Threads, "thread"), r.Rate)
	for _, name := range plannedModes {
		c.Printf("; %s %s", name, cli.Long(r.By[name]))
	}
	c.Printf("\nfiles take %s, the largest %s\n", cli.Size(r.Bytes), cli.Size(r.Most))
	if r.Free != nil {
		c.Printf("the disk has %s free, less than the files take\n", cli.Size(int64(*r.Free)))
	}
	c.Printf("%s, the largest takes %s\nidentity %s\n", cli.Plural(r.Shards, "shard"), cli.Long(r.Parallel), r.Identity)
	for _, u := range r.Sampled {
		c.Printf("\noperator %d, %s\n  operator %s\n  rollout  %s\n  initial  %s\n", u.Unit, cli.Long(u.Seconds),
			fmt.Sprintf("%s", u.Operator), fmt.Sprintf("%s", u.Rollout), fmt.Sprintf("%s", u.Initial))
	}
	if r.Folder != "" {
		c.Printf("\nplanned in %s; refrun dataset run %s makes it\n", cli.Clean(r.Folder), cli.Clean(r.Folder))
	}
}

// plannedModes are the precisions of which a plan says the time: exact, half and fast.
var plannedModes = []string{"float32", "float16", "float32:fast-7"}

// measureRates returns the GFLOP a second, as costs count them, of a small operator in
// each precision.
func measureRates() (map[string]float64, error) {
	const grid = 64
	config := operator.Config{NumLayers: 3, BaseChannels: 24, GridSize: grid, NoiseType: "gaussian", NoiseScale: 0.1}
	op, err := operator.Init(config, 1)
	if err != nil {
		return nil, err
	}
	gflop := dataset.StepCost(config, grid)
	rates := map[string]float64{}
	for _, name := range plannedModes {
		mode, err := graph.ParseMode(name, "")
		if err != nil {
			return nil, err
		}
		p := op.Compile(mode, 1, grid, grid)
		x := tensor.New(fp16.Float32, 1, 3, grid, grid)
		best := time.Duration(1 << 62)
		for step := 1; step <= 12; step++ {
			d, err := noise.Counter{Seed: 1}.At(step, 0, 1)
			if err != nil {
				return nil, err
			}
			if step == 1 {
				err = d.Draw(noise.Normal, 0, []int{1, 3, grid, grid}, x.Data)
			}
			if err != nil {
				return nil, err
			}
			began := time.Now()
			if err := p.Forward(p.Result(), x, d, noise.Time{}); err != nil {
				return nil, err
			}
			best = min(best, max(time.Since(began), time.Microsecond))
		}
		rates[name] = gflop / best.Seconds()
	}
	return rates, nil
}
