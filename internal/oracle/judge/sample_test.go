package judge_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/op/pointwise"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/tensor"
)

// product is a question about a product of half matrices, whose output is right.
func product(t *testing.T, m, k, n int) judge.Question {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(m)))
	a, b := tensor.New(fp16.BFloat16, m, k), tensor.New(fp16.BFloat16, k, n)
	y := tensor.New(fp16.BFloat16, m, n)
	for _, x := range []*tensor.Tensor{a, b} {
		for i := range x.Data {
			x.Data[i] = fp16.BFloat16.Round(r.NormFloat64())
		}
	}
	for i := range m {
		for j := range n {
			s := 0.0
			for l := range k {
				s += float64(a.Data[i*k+l] * b.Data[l*n+j])
			}
			y.Data[i*n+j] = fp16.BFloat16.Round(s)
		}
	}
	g, _, err := judge.Kernel("matmul", nil, []string{"input", "other"})
	if err != nil {
		t.Fatal(err)
	}
	return judge.Question{Graph: g, Inputs: []*tensor.Tensor{a, b}, Output: y}
}

// TestSample: of a large product a sample of rows is judged, whose places are the output's. A wrong tile of 16 rows is
// in it wherever it is.
func TestSample(t *testing.T) {
	const m, n = 1024, 1024
	judge.Whole(t, m*n)
	q := product(t, m, 2, n)
	q.Sample = true
	r, err := judge.Check(q)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sample
	if r.Verdict != judge.Pass || s == nil || s.Missed != 0 || s.Of != m || s.Rows < m/16 || s.Rows > m/16+m/32 ||
		r.Elements != s.Rows*n || s.Ended {
		t.Fatalf("%s, %+v, %d elements", r.Verdict, s, r.Elements)
	}
	for i := 5 * 16; i < 6*16; i++ {
		q.Output.Data[i*n+700] *= 2
	}
	if r, err = judge.Check(q); err != nil {
		t.Fatal(err)
	}
	if at := r.Worst.Index; r.Verdict != judge.Fail || at[0]/16 != 5 || at[1] != 700 {
		t.Errorf("%s at %v: want FAIL in rows 80 to 95, column 700", r.Verdict, at)
	}
}

// TestUntil: where the time is over, a part of the rows was judged, and the report says how many. With time enough all
// are.
func TestUntil(t *testing.T) {
	const m, n = 8192, 80 // more than a piece
	q := product(t, m, 2, n)
	q.Until = time.Now().Add(-time.Second)
	r, err := judge.Check(q)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sample
	if r.Verdict != judge.Pass || s == nil || !s.Ended || s.Rows == 0 || s.Rows >= m || r.Elements != s.Rows*n {
		t.Errorf("%s, %+v, %d elements", r.Verdict, r.Sample, r.Elements)
	}
	q.Until = time.Now().Add(time.Hour)
	q.Output.Data[4242*n+17] *= 2
	if r, err = judge.Check(q); err != nil {
		t.Fatal(err)
	}
	at := r.Worst.Index
	if r.Verdict != judge.Fail || r.Sample != nil || r.Elements != m*n || at[0] != 4242 || at[1] != 17 {
		t.Errorf("%s at %v of %d elements", r.Verdict, at, r.Elements)
	}
}

// TestSampleOfScalar: a value without axes inside, such as a norm of everything, is a row of one number.
func TestSampleOfScalar(t *testing.T) {
	x, y := tensor.New(fp16.BFloat16, 32, 32), tensor.New(fp16.BFloat16, 32, 32)
	r, sum := rand.New(rand.NewPCG(4, 4)), 0.0
	for i := range x.Data {
		x.Data[i] = fp16.BFloat16.Round(r.NormFloat64())
		sum += float64(x.Data[i] * x.Data[i])
	}
	for i, v := range x.Data {
		y.Data[i] = fp16.BFloat16.Round(v / math.Sqrt(sum))
	}
	g := graph.New(nil)
	a := g.Input("x")
	norm := g.Add(graph.VectorNorm{Order: 2}, "norm", a)
	g.Outputs = []int{g.Add(graph.Binary{Of: pointwise.Div}, "y", a, norm)}
	q := judge.Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: y, Sample: true}
	if s, err := judge.Check(q); err != nil || s.Verdict != judge.Pass {
		t.Errorf("%v, %v", s, err)
	}
}
