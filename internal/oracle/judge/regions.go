package judge

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// region is a way to divide the output: a region for each element, and their names.
type region struct {
	way  string
	of   func(i int) int
	n    int
	name func(k int) string
}

// regions returns the ways in which an output, or a piece of it, is divided: into all that has one place
// along an axis, into rows along the last axis, into tiles of the last two, and into the border of an image
// and the rest.
func (q *Question) regions() []region {
	shape, from, n := q.whole, q.offset, len(q.Output.Data)
	all := []region{{everywhere, func(int) int { return 0 }, 1, func(int) string { return everywhere }}}
	if n == 0 {
		return nil
	}
	names := q.axes()
	inner := tensor.Size(shape)
	for a, s := range shape {
		inner /= s
		step := inner
		if s > 1 && step*s <= n || s > 1 && step < n && s <= mostRegions {
			all = append(all, region{names[a], func(i int) int { return (from + i) / step % s }, s, func(k int) string {
				if a == 0 {
					k = q.place(k)
				}
				return fmt.Sprintf("%s %d", names[a], k)
			}})
		}
	}
	if len(shape) == 0 {
		return all
	}
	last := shape[len(shape)-1]
	if rows := n / last; len(shape) > 2 && last > 1 && rows <= mostRegions && from%last == 0 {
		all = append(all, region{"row", func(i int) int { return i / last }, rows, func(k int) string {
			at := q.index(k * last)
			return fmt.Sprintf("row %v", at[:len(at)-1])
		}})
	}
	if len(shape) == 1 {
		for _, tile := range partSizes {
			if tile < last {
				all = append(all, region{fmt.Sprint("part ", tile), func(i int) int { return (from + i) / tile },
					(last + tile - 1) / tile, func(k int) string {
						return fmt.Sprintf("elements %d to %d", k*tile, min(last, (k+1)*tile)-1)
					}})
			}
		}
		return all
	}
	if len(shape) > 3 {
		all = append(all, border(shape, from))
	}
	return append(all, q.tiles(shape, from)...)
}

// axes are the names of an output's axes.
func (q *Question) axes() []string {
	rank := len(q.whole)
	if len(q.Axes) == rank && rank > 0 {
		return q.Axes
	}
	names := make([]string, rank)
	for a := range names {
		names[a] = fmt.Sprintf("axis %d at", a)
	}
	if len(q.Graph.Nodes) != 1 {
		return names
	}
	switch q.Graph.Nodes[0].Op.(type) {
	case graph.Attention:
		names = append(slices.Repeat([]string{"batch item"}, max(0, rank-3)), "head", "query", "column")[max(0, 3-rank):]
	case graph.Conv, graph.GroupNorm, graph.InstanceNorm, graph.BatchNorm:
		for a, name := range []string{"batch item", "channel", "row", "column"} {
			if a < rank {
				names[a] = name
			}
		}
	case graph.MatMul, graph.Linear, graph.Softmax, graph.LayerNorm, graph.RMSNorm:
		for a, name := range []string{"column", "row"} {
			if a < rank {
				names[rank-1-a] = name
			}
		}
	}
	return names
}

// border divides images into their edge and the rest.
func border(shape []int, from int) region {
	h, w := shape[len(shape)-2], shape[len(shape)-1]
	return region{"border", func(i int) int {
		x, y := (from+i)%w, (from+i)/w%h
		if x == 0 || y == 0 || x == w-1 || y == h-1 {
			return 1
		}
		return 0
	}, 2, func(k int) string { return []string{"inside the border", "the border"}[k] }}
}

// tiles divides the last two axes into squares.
func (q *Question) tiles(shape []int, from int) (all []region) {
	last, height := shape[len(shape)-1], shape[len(shape)-2]
	for _, tile := range tileSizes {
		if tile >= last && tile >= height {
			break
		}
		across := (last + tile - 1) / tile
		down := (height + tile - 1) / tile
		if across*down > mostRegions {
			continue
		}
		all = append(all, region{
			fmt.Sprint("tile ", tile),
			func(i int) int { return (from+i)/last%height/tile*across + (from+i)%last/tile }, across * down,
			func(k int) string {
				r, c := k/across*tile, k%across*tile
				what := "the tile"
				if r+tile > height || c+tile > last {
					what = "the last, partial tile"
				}
				first, end := r, min(height, r+tile)-1
				if len(shape) == 2 {
					first, end = q.between(r, end+1)
				}
				return fmt.Sprintf("%s of rows %d to %d, columns %d to %d", what, first, end, c, min(last, c+tile)-1)
			},
		})
	}
	return all
}
