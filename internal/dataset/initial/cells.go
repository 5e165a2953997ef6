package initial

import (
	"math"

	"github.com/refrun/refrun/internal/exact/elem"
)

// cells are blobs that keep a distance, some of them beside others, of a random weight in
// each channel. What finds no place in a hundred tries is left out.
func cells(f *field, a args) error {
	type cell struct{ x, y float64 }
	var all []cell
	radius, n := a.n["radius"], int(a.n["num_cells"])
	for tries := 0; len(all) < n && tries < 100*n; tries++ {
		c := cell{f.place(), f.place()}
		beside, near, angle, far := f.uniform(), f.uniform(), f.between(0, tau), f.between(1, 3)
		if len(all) > 0 && beside < a.n["clustering"] {
			o := all[min(int(near*float64(len(all))), len(all)-1)]
			c = cell{o.x + float64(2*radius*far*elem.Cos(angle)), o.y + float64(2*radius*far*elem.Sin(angle))}
		}
		free := c.x >= 0 && c.y >= 0 && c.x < f.size && c.y < f.size
		for _, o := range all {
			free = free && dist(c.x, c.y, o.x, o.y) >= 2*radius
		}
		if free {
			all = append(all, c)
		}
	}
	for c := range f.c {
		weights := make([]float64, len(all))
		for i := range weights {
			weights[i] = f.uniform()
		}
		f.each(c, c+1, func(x, y float64) float64 {
			sum := 0.0
			for i, o := range all {
				sum += float64(weights[i] * gauss(sq(x-o.x)+sq(y-o.y), a.n["kernel_width"]))
			}
			return sum
		})
	}
	f.normalize()
	return nil
}

// chromatin is a map of contacts: squares along the diagonal with soft edges, each of a
// level of -1 to 1, or the two levels of a chessboard of compartments.
func chromatin(f *field, a args) error {
	sharp := a.n["sharpness"]
	if a.s["pattern"] == "AB" {
		k, phase, one, other := f.between(2, 6)*tau/f.size, f.between(0, tau), f.between(-1, 1), f.between(-1, 1)
		f.all(func(x, y float64) float64 {
			if elem.Sin(float64(k*x)+phase)*elem.Sin(float64(k*y)+phase) > 0 {
				return one
			}
			return other
		})
		return nil
	}
	for range int(a.n["num_domains"]) {
		length := f.between(a.n["min_size"], max(a.n["min_size"], a.n["max_size"]))
		start, level := f.between(0, max(f.size-length, 0)), f.between(-1, 1)
		inside := func(x float64) float64 { return sigmoid((x-start)/sharp) * sigmoid((start+length-x)/sharp) }
		f.all(func(x, y float64) float64 { return level * inside(x) * inside(y) })
	}
	return nil
}

// cluster is grown by diffusion-limited aggregation (T. Witten, L. Sander, 1981): particles
// walk at random from a circle around the cluster, and stay, with a probability, where they
// touch it. The state is the mean of it over 5x5 pixels, at most 1.
func cluster(f *field, a args) error {
	n, m := f.n, f.n/2
	grown := make([]bool, n*n)
	grown[m*n+m] = true
	reach := 0.0
	for range int(a.n["num_particles"]) {
		from := reach + 5
		if from > float64(m)-2 {
			break // the cluster is as large as the image
		}
		f.walk(grown, from, a.n["stickiness"], &reach)
	}
	most := 0.0
	mean := make([]float64, n*n)
	for y := range n {
		for x := range n {
			for dy := -2; dy <= 2; dy++ {
				for dx := -2; dx <= 2; dx++ {
					if grown[(y+dy+n)%n*n+(x+dx+n)%n] {
						mean[y*n+x] += 1. / 25
					}
				}
			}
			most = max(most, mean[y*n+x])
		}
	}
	f.all(func(x, y float64) float64 { return mean[int(y)*n+int(x)] / most })
	return nil
}

// mostSteps bounds the walk of a particle, which is then given up.
const mostSteps = 1 << 16

// walk lets one particle walk from a circle until it stays.
func (f *field) walk(grown []bool, from, stick float64, reach *float64) {
	n, m := f.n, f.n/2
	angle := f.between(0, tau)
	x := m + int(math.RoundToEven(from*elem.Cos(angle)))
	y := m + int(math.RoundToEven(from*elem.Sin(angle)))
	for range mostSteps {
		switch f.pick(4) {
		case 0:
			x++
		case 1:
			x--
		case 2:
			y++
		case 3:
			y--
		}
		if x < 1 || y < 1 || x >= n-1 || y >= n-1 { // the edges hold it
			x, y = min(max(x, 1), n-2), min(max(y, 1), n-2)
			continue
		}
		touches := grown[y*n+x+1] || grown[y*n+x-1] || grown[(y+1)*n+x] || grown[(y-1)*n+x]
		if touches && !grown[y*n+x] && f.uniform() < stick {
			grown[y*n+x] = true
			*reach = max(*reach, dist(float64(x), float64(y), float64(m), float64(m)))
			return
		}
	}
}
