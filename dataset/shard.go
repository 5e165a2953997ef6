package dataset

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shard is part Index, from 0, of Of parts of a dataset.
type Shard struct{ Index, Of int }

// load is a shard while units are handed out.
type load struct {
	sum   float64
	shard int
}

type loads []load

func (l loads) Len() int { return len(l) }
func (l loads) Less(i, j int) bool {
	return l[i].sum < l[j].sum || l[i].sum == l[j].sum && l[i].shard < l[j].shard
}
func (l loads) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *loads) Push(v any)   { *l = append(*l, v.(load)) }
func (l *loads) Pop() any {
	old := *l
	v := old[len(old)-1]
	*l = old[:len(old)-1]
	return v
}

// Units returns the indices of the units of the shard, the most expensive first.
func (s Shard) Units(costs []float64) []int {
	order, of := assign(costs, s.Of)
	return slices.DeleteFunc(order, func(i int) bool { return of[i] != s.Index })
}

// assign returns the units by falling cost, and the shard of each of them: in that order
// every one goes to the shard that has least so far. Striding would resonate with the
// bits of Sobol's points.
func assign(costs []float64, n int) (order, of []int) {
	order, of = make([]int, len(costs)), make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[b], costs[a]) })
	l := make(loads, n)
	for i := range l {
		l[i].shard = i
	}
	for _, u := range order {
		of[u] = l[0].shard
		l[0].sum += costs[u]
		heap.Fix(&l, 0)
	}
	return order, of
}

// schedulers are the variables in which systems that hand out tasks say which one it is.
var schedulers = []struct {
	name, variable string
	first          int
	none           string // a value that means none
}{
	{"Slurm", "SLURM_ARRAY_TASK_ID", 0, ""},
	{"Kubernetes", "JOB_COMPLETION_INDEX", 0, ""},
	{"PBS", "PBS_ARRAY_INDEX", 0, ""},
	{"Torque", "PBS_ARRAYID", 0, ""},
	{"LSF", "LSB_JOBINDEX", 1, "0"},
	{"Grid Engine", "SGE_TASK_ID", 1, "undefined"},
	{"AWS Batch", "AWS_BATCH_JOB_ARRAY_INDEX", 0, ""},
	{"GNU parallel", "PARALLEL_SEQ", 1, ""},
}

// ParseShard returns the shard of a text: "i/n", with i from 0, or "auto", for one of n
// whose index the scheduler's variable says, plus offset. "" is all of the dataset, unless a
// scheduler has an index, which must then be asked for. getenv is os.Getenv.
func ParseShard(text string, n, offset int, getenv func(string) string) (Shard, error) {
	var found []string
	index := 0
	for _, s := range schedulers {
		v := getenv(s.variable)
		if v == "" || v == s.none {
			continue
		}
		i, err := strconv.Atoi(v)
		if err != nil || i < s.first || i > 1<<30 {
			if text == "auto" {
				return Shard{}, fmt.Errorf("$%s: %.60q: want an index from %d", s.variable, v, s.first)
			}
			continue
		}
		found, index = append(found, "$"+s.variable), i-s.first
	}
	switch {
	case text == "" && len(found) > 0:
		return Shard{}, fmt.Errorf("--shard: missing, and %s is set: want auto, or i/n", found[0])
	case text == "":
		return Shard{0, 1}, nil
	case text != "auto":
		a, b, ok := strings.Cut(text, "/")
		i, err := strconv.Atoi(a)
		of, err2 := strconv.Atoi(b)
		if !ok || err != nil || err2 != nil || of < 1 || i < 0 || i >= of || of > mostShards {
			return Shard{}, fmt.Errorf("--shard: %.60q: want auto, or i/n with i from 0 to n-1, such as 0/8", text)
		}
		return Shard{i, of}, nil
	case len(found) == 0:
		return Shard{}, errors.New("--shard: auto: no scheduler's index in the environment: want i/n, such as 0/8")
	case len(found) > 1:
		return Shard{}, fmt.Errorf("--shard: auto: %s are set: want one of them, or i/n", strings.Join(found, " and "))
	}
	if index += offset; index < 0 || index >= n {
		return Shard{}, fmt.Errorf("%s: shard %d: want 0 to %d, for the plan has %d shards", found[0], index, n-1, n)
	}
	return Shard{index, n}, nil
}

// mostShards bounds the shards of a plan.
const mostShards = 1 << 20

// Makespan returns the predicted seconds in which n machines that take the next shard of
// the plan as they become free make all of it, and those of its largest shard.
func (p *Dataset) Makespan(n int) (all, largest float64) {
	shards := make([]float64, p.Shards)
	_, of := assign(p.Costs(), p.Shards)
	for i, l := range p.Lines {
		shards[of[i]] += l.Seconds
	}
	free := make(loads, max(n, 1))
	for _, s := range shards {
		largest = max(largest, s)
		free[0].sum += s
		all = max(all, free[0].sum)
		heap.Fix(&free, 0)
	}
	return all, largest
}
