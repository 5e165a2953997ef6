package judge

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/tensor"
)

// ask judges one kernel of one input.
func ask(t *testing.T, op, attributes string, x, y *tensor.Tensor) *Report {
	t.Helper()
	r, err := Check(question(t, op, attributes, y, x))
	if err != nil {
		t.Fatalf("%s %s of %v: %v", op, attributes, x.Shape, err)
	}
	return r
}

// TestPlacesInOrder: an argsort has any order of equal numbers, or the first first where it is stable; numbers in
// another order, along another axis, places twice and places that are none fail.
func TestPlacesInOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(61, 62))
	for trial := range 60 {
		f := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16}[trial%3]
		rows, n := 2+r.IntN(6), 2+r.IntN(40)
		x, y := tensor.New(f, rows, n), tensor.New(fp16.Int64, rows, n)
		for i := range x.Data {
			x.Data[i] = f.Round(math.Round(8*r.NormFloat64()) / 4)
		}
		x.Data[0], x.Data[1] = 0, 1 // not all are alike
		if trial%5 == 0 {
			x.Data[n] = math.NaN() // the greatest
		}
		descending, stable := trial%2 == 0, trial%4 < 2
		less := func(row []float64) func(a, b int) int {
			return func(a, b int) int {
				u, v := row[a], row[b]
				c := 0
				switch {
				case u != u && v != v:
				case u != u || u > v:
					c = 1
				case v != v || u < v:
					c = -1
				}
				if descending {
					c = -c
				}
				return c
			}
		}
		for k := range rows {
			places := r.Perm(n)
			if stable {
				slices.Sort(places)
			}
			slices.SortStableFunc(places, less(x.Data[k*n:(k+1)*n]))
			for j, p := range places {
				y.Data[k*n+j] = float64(p)
			}
		}
		attributes := fmt.Sprintf(`{"dim":-1,"descending":%t,"stable":%t}`, descending, stable)
		if r := ask(t, "argsort", attributes, x, y); r.Verdict != Pass {
			t.Errorf("trial %d: %s: %s %s", trial, attributes, r.Verdict, r.Reason)
		}
		row := y.Data[:n]
		was := slices.Clone(row)
		for fault, change := range map[string]func(){
			"another order": func() { slices.Reverse(row) },
			"from 1 on": func() {
				for i := range row {
					row[i]++
				}
			},
			"a place twice":   func() { row[0] = row[n-1] },
			"a place below 0": func() { row[0] = -1 },
			"zeros":           func() { clear(row) },
			"its inverse":     func() { inverse(row) },
			"two, not in order": func() {
				i := slices.Index(row, 0)
				j := slices.Index(row, 1)
				row[i], row[j] = 1, 0
			},
		} {
			change()
			still := fault == "its inverse" && slices.Equal(row, was)
			if r := ask(t, "argsort", attributes, x, y); r.Verdict != Fail && !still {
				t.Errorf("trial %d: %s: %s", trial, fault, r.Verdict)
			}
			copy(row, was)
		}
	}
	x, y := tensor.Of(fp16.Float32, []float64{1, 1, 2}, 3), tensor.Of(fp16.Int64, []float64{1, 0, 2}, 3)
	if a, b := ask(t, "argsort", `{"stable":true}`, x, y), ask(t, "argsort", `{}`, x, y); a.Verdict != Fail ||
		b.Verdict != Pass {
		t.Errorf("equal numbers, the second first: %s where it is stable, and %s", a.Verdict, b.Verdict)
	}
}

// inverse makes places the places of them, which is what an argsort is not.
func inverse(row []float64) {
	was := slices.Clone(row)
	for i, p := range was {
		row[int(p)] = float64(i)
	}
}

// TestRunningProducts: a scan multiplies in any order; another direction, one factor less, another axis, products off
// by 2^-6, magnitudes and sums fail.
func TestRunningProducts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(63, 64))
	for trial := range 40 {
		f := []fp16.Format{fp16.Float32, fp16.Float32, fp16.Float16, fp16.BFloat16}[trial%4]
		rows, n := 2+r.IntN(6), 4+r.IntN(60)
		x := tensor.New(f, rows, n)
		for i := range x.Data {
			x.Data[i] = f.Round(math.Exp(.3*r.NormFloat64()) * float64(1-2*r.IntN(2)))
		}
		y := tensor.New(f, rows, n)
		fill := func(product func(row []float64, j int) float32) {
			for i := range y.Data {
				y.Data[i] = f.Round(float64(product(x.Data[i/n*n:(i/n+1)*n], i%n)))
			}
		}
		one := func(row []float64, j int) float32 { // one after the other
			p := float32(1)
			for _, v := range row[:j+1] {
				p *= float32(v)
			}
			return p
		}
		var halves func(row []float64) float32
		halves = func(row []float64) float32 {
			if len(row) == 1 {
				return float32(row[0])
			}
			return halves(row[:len(row)/2]) * halves(row[len(row)/2:])
		}
		for name, right := range map[string]func(row []float64, j int) float32{
			"one after the other": one, "halves": func(row []float64, j int) float32 { return halves(row[:j+1]) },
		} {
			fill(right)
			if r := ask(t, "cumprod", `{"dim":1}`, x, y); r.Verdict != Pass {
				t.Errorf("trial %d: %s in %v: %s %s %s", trial, name, f, r.Verdict, r.Reason, r.Region)
			}
		}
		for name, wrong := range map[string]func(row []float64, j int) float32{
			"from the end": func(row []float64, j int) float32 { return halves(row[j:]) },
			"exclusive": func(row []float64, j int) float32 {
				if j == 0 {
					return 1
				}
				return one(row, j-1)
			},
			"sums": func(row []float64, j int) float32 {
				s := float32(0)
				for _, v := range row[:j+1] {
					s += float32(v)
				}
				return s
			},
			"magnitudes":      func(row []float64, j int) float32 { return float32(math.Abs(float64(one(row, j)))) },
			"one step behind": func(row []float64, j int) float32 { return one(row, max(0, j-1)) },
			"off by 2^-6":     func(row []float64, j int) float32 { return one(row, j) * (1 + 0x1p-6) },
		} {
			fill(wrong)
			if r := ask(t, "cumprod", `{"dim":1}`, x, y); r.Verdict != Fail {
				t.Errorf("trial %d: %s in %v: %s", trial, name, f, r.Verdict)
			}
		}
	}
}

// TestProducts: a product of all numbers of a line passes in any order of its factors; one factor less, magnitudes,
// a sum and products off by 2^-6 fail. Factors of half numbers that are multiplied in half pass where it is said.
func TestProducts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(65, 66))
	for trial := range 30 {
		f := []fp16.Format{fp16.Float32, fp16.Float16, fp16.BFloat16}[trial%3]
		rows, n := 4+r.IntN(6), 8+r.IntN(60)
		x, y := tensor.New(f, rows, n), tensor.New(f, rows)
		for i := range x.Data {
			x.Data[i] = f.Round(math.Exp(.2*r.NormFloat64()) * float64(1-2*r.IntN(2)))
		}
		order := r.Perm(n)
		product := func(row []float64, round func(float32) float32) float32 {
			p := float32(1)
			for _, k := range order[:len(row)] {
				p = round(p * float32(row[k%len(row)]))
			}
			return p
		}
		whole := func(v float32) float32 { return v }
		for name, c := range map[string]struct {
			of   func(row []float64) float32
			want string
		}{
			"in some order":   {func(row []float64) float32 { return product(row, whole) }, Pass},
			"one factor less": {func(row []float64) float32 { return product(row, whole) / float32(row[0]) }, Fail},
			"magnitudes":      {func(row []float64) float32 { return float32(math.Abs(float64(product(row, whole)))) }, Fail},
			"off by 2^-6":     {func(row []float64) float32 { return product(row, whole) * (1 + 0x1p-6) }, Fail},
			"a sum": {func(row []float64) (s float32) {
				for _, v := range row {
					s += float32(v)
				}
				return s
			}, Fail},
		} {
			for i := range y.Data {
				y.Data[i] = f.Round(float64(c.of(x.Data[i*n : (i+1)*n])))
			}
			if r := ask(t, "prod", `{"dim":1}`, x, y); r.Verdict != c.want {
				t.Errorf("trial %d: %s in %v: %s %s %s", trial, name, f, r.Verdict, r.Reason, r.Region)
			}
		}
		if f == fp16.Float32 {
			continue
		}
		for i := range y.Data {
			y.Data[i] = float64(product(x.Data[i*n:(i+1)*n], func(v float32) float32 { return float32(f.Round(float64(v))) }))
		}
		if r := ask(t, "prod", `{"dim":1}`, x, y); r.Verdict != Fail {
			t.Errorf("trial %d: in %v: %s", trial, f, r.Verdict)
		}
		q := question(t, "prod", `{"dim":1}`, y, x)
		q.Claimed = &Contract{Form: Form{Accumulate: f.String()}}
		if r, err := Check(q); err != nil || r.Verdict != Pass {
			t.Errorf("trial %d: in %v, as is said: %s %s %v", trial, f, r.Verdict, r.Reason, err)
		}
	}
}

// TestNumbersInOrder: sort and topk make no errors.
func TestNumbersInOrder(t *testing.T) {
	t.Parallel()
	x := tensor.Of(fp16.Float16, []float64{3, 1, 2, 6, 5, 4}, 2, 3)
	for op, attributes := range map[string]string{"sort": `{"dim":1}`, "topk": `{"k":3,"dim":1,"largest":false}`} {
		if r := ask(t, op, attributes, x, tensor.Of(fp16.Float16, []float64{1, 2, 3, 4, 5, 6}, 2, 3)); r.Verdict != Pass {
			t.Errorf("%s: %s %s", op, r.Verdict, r.Reason)
		}
		if r := ask(t, op, attributes, x, tensor.Of(fp16.Float16, []float64{1, 2, 3, 4, 6, 5}, 2, 3)); r.Verdict != Fail {
			t.Errorf("%s of another order: %s", op, r.Verdict)
		}
	}
}

// TestPlacesOfComputedNumbers: of numbers that a kernel computed any of those may come first that are equal or as near
// as their errors, in a sort, a topk and an argmax. Another place fails.
func TestPlacesOfComputedNumbers(t *testing.T) {
	const rows, n, k = 24, 30, 6
	r := rand.New(rand.NewPCG(8, 31))
	x := tensor.New(fp16.Float32, rows, n)
	for i := range x.Data {
		x.Data[i] = float64(r.IntN(12))
	}
	last := -1
	for name, op := range map[string]graph.Op{
		"sort": graph.Sort{Axis: -1, Descending: true}, "topk": graph.TopK{K: k, Axis: -1, Largest: true, Sorted: true},
		"max": graph.Extreme{Axis: &last}, "argmax": graph.ArgMax{Axis: &last},
	} {
		g := graph.New(nil)
		p := g.Add(graph.Softmax{Axis: -1}, "softmax", g.Input("x"))
		if name == "argmax" {
			g.Outputs = []int{g.Add(op, "output", p)}
		} else {
			g.Outputs = g.AddNode(op, "output", 2, p)[1:]
		}
		shape := map[string][]int{"sort": {rows, n}, "topk": {rows, k}, "max": {rows}, "argmax": {rows}}[name]
		y := tensor.New(fp16.Int64, shape...)
		width := len(y.Data) / rows
		for row := range rows {
			line := x.Data[row*n : (row+1)*n]
			places := r.Perm(n)
			slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(line[b], line[a]) })
			for j := range width {
				y.Data[row*width+j] = float64(places[j])
			}
		}
		for _, wrong := range []bool{false, true} {
			want := Pass
			if wrong { // the first place of a line has its least number
				line := x.Data[:n]
				y.Data[0], want = float64(slices.Index(line, slices.Min(line))), Fail
			}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
			if err != nil {
				t.Fatal(name, err)
			}
			if a.Verdict != want {
				t.Errorf("%s: %s: %s, want %s", name, a.Verdict, a.Reason, want)
			}
		}
	}
}

// TestSmallInOrder: the bound of a number in an order is that of numbers which may stand there, and not that of the
// greatest.
func TestSmallInOrder(t *testing.T) {
	x := tensor.Of(fp16.Float32, []float64{0, -20, -30, -40}, 1, 4)
	g := graph.New(nil)
	p := g.Add(graph.Softmax{Axis: -1}, "softmax", g.Input("x"))
	g.Outputs = g.AddNode(graph.TopK{K: 2, Axis: -1, Largest: true, Sorted: true}, "output", 2, p)[1:]
	for second, want := range map[float64]string{1: Pass, 2: Fail} {
		y := tensor.Of(fp16.Int64, []float64{0, second}, 1, 2)
		if a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y}); err != nil || a.Verdict != want {
			t.Errorf("place %v: %+v %v, want %s", second, a, err, want)
		}
	}
}

// TestHyperbolicOverflow: half of an e^x that overflows is infinite, though cosh and sinh are not yet.
func TestHyperbolicOverflow(t *testing.T) {
	x := tensor.New(fp16.Float32, 200)
	for i := range x.Data {
		x.Data[i] = fp16.Float32.Round(float64(i%2*2-1) * (1 + .4425*float64(i)))
	}
	for name, f := range map[string]func(float64) float64{"cosh": math.Cosh, "sinh": math.Sinh} {
		g := graph.New(nil)
		g.Outputs = []int{g.Add(unary(name), "output", g.Input("x"))}
		for _, wrong := range []bool{false, true} {
			want, y := Pass, tensor.New(fp16.Float32, 200)
			for i, v := range x.Data {
				if y.Data[i] = fp16.Float32.Round(f(v)); math.Abs(v) > 88.73 {
					y.Data[i] = math.Inf(int(math.Copysign(1, y.Data[i])))
				}
			}
			if wrong {
				y.Data[100], want = math.Inf(1), Fail
			}
			a, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y})
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != want {
				t.Errorf("%s: %s: %s, want %s", name, a.Verdict, a.Reason, want)
			}
		}
	}
}
