package factor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// asked is the answer to a question with those attributes.
func asked(t testing.TB, op, attributes string, in, out []*tensor.Tensor) *Report {
	t.Helper()
	s, err := Parse(op, []byte(attributes))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Check(Question{Spec: s, Inputs: in, Outputs: out})
	if err != nil {
		t.Fatal(op, attributes, err)
	}
	return r
}

type tensors = []*tensor.Tensor

// A made question has what a kernel of the format read and returned.
type made struct {
	op, attributes string
	in, out        tensors
}

// questions are one of each operation, of n x n matrices of a kind, computed in a format and stored in another.
func questions(rng *rand.Rand, kind string, n int, f, store fp16.Format) (all []made) {
	c, x, b := in(f), drawn(rng, kind, n, n), drawn(rng, "normal", n, 3)
	of := func(m matrix) *tensor.Tensor { return stored(fp16.Float32, m) }
	put := func(m matrix) *tensor.Tensor { return stored(store, m) }
	add := func(op, attributes string, in tensors, out ...*tensor.Tensor) {
		all = append(all, made{op, attributes, in, out})
	}
	p := definite(rng, kind, n)
	l := c.cholesky(p)
	add("cholesky", `{}`, tensors{of(p)}, put(l))
	add("cholesky", `{"upper": true}`, tensors{of(p)}, put(l.transposed()))
	t := drawn(rng, kind, n, n)
	for i := range n {
		t.row(i)[i] += math.Copysign(largest(t.a), t.at(i, i))
	}
	t = mean(mean(t))
	both := tensors{of(t), of(b)}
	add("solve_triangular", `{"upper": false}`, both, put(c.lower(t, b, false)))
	add("solve_triangular", `{"upper": true}`, both, put(c.upper(t, b, false)))
	if kind != "large" {
		add("solve_triangular", `{"upper": false, "unitriangular": true}`, both, put(c.lower(t, b, true)))
	}
	add("triangular_solve", `{"transpose": true}`, both, put(c.lower(t.transposed(), b, false)))
	turned := tensors{of(t), of(b.transposed())}
	add("solve_triangular", `{"upper": true, "left": false}`, turned,
		put(c.lower(t.transposed(), b, false).transposed()))
	add("solve", `{}`, tensors{of(x), of(b)}, put(c.solve(x, b)))
	add("solve", `{"left": false}`, tensors{of(x), of(b.transposed())}, put(c.solve(x.transposed(), b).transposed()))
	add("inv", `{}`, tensors{of(x)}, put(c.solve(x, identity(n))))
	add("inv", `{}`, tensors{of(x)}, put(c.solve(x.transposed(), identity(n)).transposed()))
	for _, m := range []int{n, n + 5, max(1, n/2)} {
		a := drawn(rng, kind, m, n)
		q, r := c.qr(a, true)
		add("qr", `{}`, tensors{of(a)}, put(q), put(r))
		add("qr", `{"mode": "r"}`, tensors{of(a)}, put(r))
	}
	a := mean(x)
	w, v := c.eigh(a)
	add("eigh", `{}`, tensors{of(a)}, listed(store, w), put(v))
	add("eigvalsh", `{}`, tensors{of(a)}, listed(store, w))
	return all
}

// determined are questions of eliminations and determinants.
func determined(rng *rand.Rand, kind string, n int, f, store fp16.Format) (all []made) {
	c, x, b := in(f), drawn(rng, kind, n, n), drawn(rng, "normal", n, 3)
	of := func(m matrix) *tensor.Tensor { return stored(fp16.Float32, m) }
	put := func(m matrix) *tensor.Tensor { return stored(store, m) }
	one := func(v float64) *tensor.Tensor { return tensor.Of(store, []float64{store.Round(v)}) }
	add := func(op, attributes string, in tensors, out ...*tensor.Tensor) {
		all = append(all, made{op, attributes, in, out})
	}
	lu, pivots := in(fp16.Float32).lu(x, true)
	y := c.upper(lu, c.lower(lu, exchange(b, pivots), true), false)
	add("lu_solve", `{}`, tensors{of(lu), of(b), counted(pivots)}, put(y))
	turned := tensors{of(lu), of(b.transposed()), counted(pivots)}
	add("lu_solve", `{"left": false, "adjoint": true}`, turned, put(y.transposed()))
	l := in(fp16.Float32).cholesky(definite(rng, kind, n))
	y = c.upper(l.transposed(), c.lower(l, b, false), false)
	add("cholesky_solve", `{}`, tensors{of(l), of(b)}, put(y))
	add("cholesky_solve", `{"upper": true}`, tensors{of(l.transposed()), of(b)}, put(y))
	if _, sign, _ := c.det(x); sign < 0 && n > 1 {
		swap(x, 0, 1)
	}
	det, sign, log := c.det(x)
	add("det", `{}`, tensors{of(x)}, one(det))
	add("slogdet", `{}`, tensors{of(x)}, one(sign), one(log))
	if sign < 0 {
		log = math.NaN()
	}
	add("logdet", `{}`, tensors{of(x)}, one(log))
	for _, m := range []int{n, n + 5, max(1, n/2)} {
		a := drawn(rng, kind, m, n)
		lu, pivots := c.lu(a, true)
		p, l, u := split(lu, pivots)
		add("lu", `{}`, tensors{of(a)}, put(p), put(l), put(u))
		add("lu_factor", `{}`, tensors{of(a)}, put(lu), counted(pivots))
	}
	for _, m := range []int{n + 5, max(1, n-3)} {
		a := drawn(rng, kind, m, n)
		add("pinv", `{}`, tensors{of(a)}, put(c.pinv(a, 0)))
		if m >= n {
			q, r := c.qr(a, true)
			b := drawn(rng, "normal", m, 3)
			add("lstsq", `{}`, tensors{of(a), of(b)}, put(c.upper(r, c.times(q.transposed(), b), false)))
		}
	}
	a := definite(rng, kind, n)
	lu, pivots = c.lu(a, false)
	_, l, u := split(lu, pivots)
	add("lu", `{"pivot": false}`, tensors{of(a)}, put(l), put(u))
	return all
}

// TestRight: what plain kernels return passes, in float32, float64 and stored in half types, of ill-conditioned
// matrices too.
func TestRight(t *testing.T) {
	t.Parallel()
	rng, other := rand.New(rand.NewPCG(49, 1)), rand.New(rand.NewPCG(49, 8))
	counted, known, unknown := 0, 0, 0
	for _, n := range []int{1, 2, 5, 16, 33} {
		for _, kind := range kinds {
			for _, f := range []struct{ computed, store fp16.Format }{
				{fp16.Float32, fp16.Float32}, {fp16.Float64, fp16.Float64}, {fp16.Float32, fp16.BFloat16},
				{fp16.Float32, fp16.Float16},
			} {
				if f.store == fp16.Float16 && slices.Contains([]string{"ill", "large", "small", "graded"}, kind) {
					continue // beyond its range
				}
				all := questions(rng, kind, n, f.computed, f.store)
				for _, q := range slices.Concat(all, determined(other, kind, n, f.computed, f.store)) {
					r := asked(t, q.op, q.attributes, q.in, q.out)
					if slices.Contains([]string{"det", "slogdet", "logdet", "pinv", "lstsq"}, q.op) {
						if r.Verdict == NoPower {
							unknown++
							continue
						}
						known++
					}
					if r.Verdict != Pass {
						t.Errorf("%s %s of %d x %d, %s, %v: %+v", q.op, q.attributes, n, n, kind, f, r)
					}
					counted++
				}
			}
		}
	}
	if counted < 1500 || known < 3*unknown {
		t.Errorf("%d right outputs; %d of %d are not judged", counted, unknown, known+unknown)
	}
}

// TestNarrow: kernels that keep their sums in a half format fail, and in more than the smallest sizes by that name.
func TestNarrow(t *testing.T) {
	t.Parallel()
	rng, other := rand.New(rand.NewPCG(49, 2)), rand.New(rand.NewPCG(49, 9))
	named := 0
	for _, f := range []fp16.Format{fp16.Float16, fp16.BFloat16} {
		for _, kind := range []string{"normal", "positive"} {
			all := questions(rng, kind, 40, f, fp16.Float32)
			for _, q := range slices.Concat(all, determined(other, kind, 40, f, fp16.Float32)) {
				r := asked(t, q.op, q.attributes, q.in, q.out)
				if r.Verdict != Fail {
					t.Errorf("%s %s, %s, in %v: %+v", q.op, q.attributes, kind, f, r)
				}
				if strings.HasPrefix(r.FaultID, "factor.narrow-sums") {
					named++
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("%d named", named)
	}
}

// TestEntry: one number that is 1.001 times what it is fails, wherever it is not a hundredth of the largest.
func TestEntry(t *testing.T) {
	t.Parallel()
	rng, other := rand.New(rand.NewPCG(49, 3)), rand.New(rand.NewPCG(49, 10))
	for _, kind := range []string{"normal", "positive"} {
		n := 48
		all := questions(rng, kind, n, fp16.Float32, fp16.Float32)
		for at, q := range slices.Concat(all, determined(other, kind, n, fp16.Float32, fp16.Float32)) {
			rng, bent := rng, 1.001
			if at >= len(all) {
				rng = other
			}
			if q.op == "pinv" || q.op == "lstsq" { // which are as far off as the matrix is ill-conditioned
				bent = 1.1
			}
			for k := range q.out {
				out := slices.Clone(q.out)
				out[k] = out[k].Clone()
				most := largest(out[k].Data)
				for {
					if out[k].Format == fp16.Int64 { // pivots
						out[k].Data[0] = 1 + float64(int(out[k].Data[0])%(n/2))
						break
					}
					if i := rng.IntN(len(out[k].Data)); math.Abs(out[k].Data[i]) > 0.03*most {
						out[k].Data[i] = float64(float32(out[k].Data[i] * bent))
						break
					}
				}
				if r := asked(t, q.op, q.attributes, q.in, out); r.Verdict != Fail {
					t.Errorf("%s %s, %s, output %d: %+v", q.op, q.attributes, kind, k, r)
				}
			}
		}
	}
}

// TestFaults: each fault of the table fails by its name.
func TestFaults(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(49, 4))
	n := 24
	c, f32 := in(fp16.Float32), fp16.Float32
	x, b := drawn(rng, "normal", n, n), drawn(rng, "normal", n, 3)
	p := definite(rng, "normal", n)
	lower := mean(mean(x))
	for i := range n {
		lower.row(i)[i] += 8
	}
	l := c.cholesky(p)
	q, r := c.qr(x, true)
	full := stored(f32, l)
	full.Data[n-1] = 3
	negated := stored(f32, q)
	for i := range n {
		negated.Data[i*n+4] *= -1
	}
	ill := drawn(rng, "ill", n, n)
	gq, gr := c.qr(ill, false)
	w, v := c.eigh(mean(x))
	reversed := slices.Clone(w)
	slices.Reverse(reversed)
	mirrored := zeros(n, n)
	for i := range n {
		for j := range n {
			mirrored.row(i)[n-1-j] = v.at(i, j)
		}
	}
	of := func(all ...matrix) (out tensors) {
		for _, m := range all {
			out = append(out, stored(f32, m))
		}
		return out
	}
	lu, pivots := c.lu(x, true)
	pm, lm, um := split(lu, pivots)
	filled := zeros(n, n)
	for k := range filled.a {
		filled.a[k] = um.a[k]
		if i, j := k/n, k%n; i > j {
			filled.a[k] = lm.a[k] // in place of zeros
		}
	}
	plain, none := c.lu(x, false)
	from0 := counted(pivots)
	for k := range from0.Data {
		from0.Data[k]--
	}
	number := func(v float64) *tensor.Tensor { return tensor.Of(f32, []float64{f32.Round(v)}) }
	small := drawn(rng, "normal", 6, 6)
	det, sign, log := c.det(small)
	factors := tensors{of(lu)[0], of(b)[0], counted(pivots)}
	solution := c.upper(lu, c.lower(lu, exchange(b, pivots), true), false)
	straight := c.upper(lu, c.lower(lu, b, true), false)
	for _, c := range []struct {
		id, op, attributes string
		in, out            tensors
	}{
		{"factor.transposed:the factor", "cholesky", `{}`, of(p), of(l.transposed())},
		{"factor.triangle", "linalg_cholesky", `{}`, of(p), tensors{full}},
		{"factor.transposed-solve", "solve_triangular", `{"upper": false}`, of(lower, b),
			of(c.upper(lower.transposed(), b, false))},
		{"factor.unit-diagonal", "solve_triangular", `{"upper": false}`, of(lower, b), of(c.lower(lower, b, true))},
		{"factor.other-triangle", "triangular_solve", `{}`, of(asymmetric(lower), b),
			of(c.lower(asymmetric(lower), b, false))},
		{"factor.transposed-solve", "linalg_solve", `{}`, of(x, b), of(c.solve(x.transposed(), b))},
		{"factor.transposed:the inverse", "inv", `{}`, of(x), of(c.solve(x, identity(n)).transposed())},
		{"factor.transposed:Q", "qr", `{}`, of(x), of(q.transposed(), r)},
		{"factor.triangle", "qr", `{}`, of(x), tensors{of(q)[0], over(r)}},
		{"factor.column-sign", "qr", `{}`, of(x), tensors{negated, of(r)[0]}},
		{"factor.not-orthogonal", "qr", `{}`, of(ill), of(gq, gr)},
		{"factor.transposed:the matrix of eigenvectors", "eigh", `{}`, of(mean(x)),
			tensors{listed(f32, w), of(v.transposed())[0]}},
		{"factor.order", "eigh", `{}`, of(mean(x)), tensors{listed(f32, reversed), of(mirrored)[0]}},
		{"factor.pairs", "eigh", `{}`, of(mean(x)), tensors{listed(f32, w), of(mirrored)[0]}},
		{"factor.transposed:P", "linalg_lu", `{}`, of(x), of(pm.transposed(), lm, um)},
		{"factor.triangle", "lu", `{}`, of(x), of(pm, lm, filled)},
		{"factor.pivots", "lu_factor", `{}`, of(x), tensors{of(plain)[0], counted(none)}},
		{"factor.pivot-base", "lu_factor_ex", `{}`, of(x), tensors{of(lu)[0], from0}},
		{"factor.exchanges", "lu_solve", `{}`, factors, of(straight)},
		{"factor.transposed-solve", "lu_solve", `{"adjoint": true}`, factors, of(solution)},
		{"factor.other-triangle", "cholesky_solve", `{"upper": true}`, of(l, b),
			of(c.upper(l.transposed(), c.lower(l, b, false), false))},
		{"factor.exchange-sign", "det", `{}`, of(small), tensors{number(-det)}},
		{"factor.exchange-sign", "slogdet", `{}`, of(small), tensors{number(-sign), number(log)}},
		{"factor.logarithm:2", "slogdet", `{}`, of(small), tensors{number(sign), number(log / math.Ln2)}},
		{"factor.logarithm:10", "linalg_slogdet", `{}`, of(small), tensors{number(sign), number(log / math.Ln10)}},
	} {
		if r := asked(t, c.op, c.attributes, c.in, c.out); r.Verdict != Fail || r.FaultID != c.id {
			t.Errorf("%s of %s: %+v", c.id, c.op, r)
		}
	}
}

// asymmetric has another upper triangle.
func asymmetric(m matrix) matrix {
	m = matrix{m.rows, m.cols, slices.Clone(m.a)}
	for i := range m.rows {
		for j := i + 1; j < m.cols; j++ {
			m.row(i)[j] *= -0.5
		}
	}
	return m
}

// over is a factor with what a factorization in place leaves below its diagonal.
func over(r matrix) *tensor.Tensor {
	t := stored(fp16.Float32, r)
	t.Data[r.cols*(r.rows-1)] = 0.25
	return t
}

// TestLogic: what is wrong without a name fails too: a step that is missing, a part that was not updated, zeros
// and NaN.
func TestLogic(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(49, 5))
	n := 20
	c := in(fp16.Float32)
	p := definite(rng, "normal", n)
	for name, change := range map[string]func(l matrix){
		"last step": func(l matrix) { l.a[n*n-1] = math.Sqrt(p.a[n*n-1]) },
		"block": func(l matrix) {
			h := n / 2
			rest := zeros(h, h)
			for i := range h {
				copy(rest.row(i), p.row(h + i)[h:])
			}
			rest = c.cholesky(rest)
			for i := range h {
				copy(l.row(h + i)[h:], rest.row(i))
			}
		},
		"zeros":    func(l matrix) { clear(l.a) },
		"nan":      func(l matrix) { l.a[n] = math.NaN() },
		"infinite": func(l matrix) { l.a[n] = math.Inf(1) },
		"negative": func(l matrix) {
			for i := range n {
				l.a[i*n+3] *= -1
			}
		},
	} {
		l := c.cholesky(p)
		change(l)
		out := tensor.Of(fp16.Float32, l.a, n, n)
		r := asked(t, "cholesky", `{}`, tensors{stored(fp16.Float32, p)}, tensors{out})
		if r.Verdict != Fail {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestNothing: inputs of which no output is right, or only zeros, show nothing, and do not hide another matrix of the
// batch that is wrong.
func TestNothing(t *testing.T) {
	t.Parallel()
	f := fp16.Float32
	indefinite, singular := tensor.Of(f, []float64{1, 2, 2, 1}, 2, 2), tensor.Of(f, []float64{1, 2, 2, 4}, 2, 2)
	nan := tensor.Of(f, []float64{math.NaN(), 2, 2, 1}, 2, 2)
	some := tensor.Of(f, []float64{math.NaN(), 0, 3, math.Inf(1)}, 2, 2)
	zero, line := tensor.New(f, 2, 2), tensor.New(f, 2)
	for _, c := range []struct {
		op, attributes, reason string
		in, out                tensors
	}{
		{"cholesky", `{}`, "not positive definite", tensors{indefinite}, tensors{some}},
		{"cholesky", `{}`, "NaN", tensors{nan}, tensors{some}},
		{"solve", `{}`, "singular", tensors{singular, zero}, tensors{some}},
		{"inv", `{}`, "singular", tensors{singular}, tensors{some}},
		{"solve_triangular", `{"upper": true}`, "singular", tensors{zero, indefinite}, tensors{some}},
		{"solve", `{}`, "zeros", tensors{indefinite, zero}, tensors{zero}},
		{"eigvalsh", `{}`, "zeros", tensors{zero}, tensors{line}},
		{"qr", `{"mode": "r"}`, "zeros", tensors{zero}, tensors{zero}},
		{"qr", `{}`, "zeros, or nothing", tensors{tensor.New(f, 0, 3)}, tensors{tensor.New(f, 0, 0), tensor.New(f, 0, 3)}},
		{"eigh", `{}`, "NaN", tensors{nan}, tensors{line, some}},
		{"det", `{}`, "singular", tensors{singular}, tensors{tensor.New(f)}},
		{"det", `{}`, "overflows", tensors{tensor.Of(f, []float64{1e30, 0, 0, 1e20}, 2, 2)},
			tensors{tensor.Of(f, []float64{math.Inf(1)})}},
		{"lu", `{"pivot": false}`, "pivot is 0", tensors{tensor.Of(f, []float64{0, 1, 1, 0}, 2, 2)},
			tensors{tensor.Of(f, []float64{1, 0, math.Inf(1), 1}, 2, 2), tensor.Of(f, []float64{0, 1, 0, math.Inf(-1)}, 2, 2)}},
		{"lu_solve", `{}`, "singular", tensors{indefinite, zero, tensor.Of(fp16.Int64, []float64{3, 2}, 2)}, tensors{some}},
	} {
		r := asked(t, c.op, c.attributes, c.in, c.out)
		if r.Verdict != NoPower || !strings.Contains(r.Reason, c.reason) {
			t.Errorf("%s: %+v, want %q", c.op, r, c.reason)
		}
	}
	in := tensor.Of(f, slices.Concat(indefinite.Data, []float64{4, 2, 2, 5}), 2, 2, 2)
	for _, c := range []struct {
		corner  float64
		verdict string
	}{{2, Pass}, {2.5, Fail}} {
		out := tensor.Of(f, slices.Concat(some.Data, []float64{2, 0, 1, c.corner}), 2, 2, 2)
		if r := asked(t, "cholesky", `{}`, tensors{in}, tensors{out}); r.Verdict != c.verdict || r.Unjudged != 1 {
			t.Errorf("a batch: %+v, want %s", r, c.verdict)
		}
	}
}

// TestBatches: batches are broadcast, and a vector is one column.
func TestBatches(t *testing.T) {
	t.Parallel()
	f := fp16.Float32
	a := tensor.Of(f, []float64{2, 0, 0, 4, 1, 1, 0, 1}, 2, 2, 2)
	for _, c := range []struct {
		b, x    []float64
		of, to  []int
		verdict string
	}{
		{[]float64{2, 4, 3, 1}, []float64{1, 1, 2, 1}, []int{2, 2}, []int{2, 2}, Pass},
		{[]float64{2, 4, 3, 1}, []float64{1, 1, 3, 1}, []int{2, 2}, []int{2, 2}, Fail},
		{[]float64{2, 4}, []float64{1, 1, -2, 4}, []int{2}, []int{2, 2}, Pass},
		{[]float64{2, 4}, []float64{1, 1, -2, 4}, []int{2, 1}, []int{2, 2, 1}, Pass},
		{[]float64{2, 4}, []float64{1, 1, 2, 4}, []int{1, 2, 1}, []int{2, 2, 1}, Fail},
	} {
		in := tensors{a, tensor.Of(f, c.b, c.of...)}
		r := asked(t, "solve", `{}`, in, tensors{tensor.Of(f, c.x, c.to...)})
		if r.Verdict != c.verdict || r.Matrices != 2 {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// TestFactorsWrong: wrong factors of an elimination, and determinants, that are no fault with a name.
func TestFactorsWrong(t *testing.T) {
	t.Parallel()
	f := fp16.Float32
	a := tensor.Of(f, []float64{1, 2, 4, 4}, 2, 2) // P exchanges, L is 1/4, U is 4 4, 0 1
	p, u := []float64{0, 1, 1, 0}, []float64{4, 4, 0, 1}
	of := func(v ...float64) *tensor.Tensor { return tensor.Of(f, v, 2, 2) }
	one := func(v float64) *tensor.Tensor { return tensor.Of(f, []float64{v}) }
	for _, c := range []struct {
		op, verdict string
		out         tensors
	}{
		{"lu", Pass, tensors{of(p...), of(1, 0, 0.25, 1), of(u...)}},
		{"lu", Fail, tensors{of(p...), of(1, 0, 0.2501, 1), of(u...)}},
		{"lu", Fail, tensors{of(p...), of(1, 0.5, 0.25, 1), of(u...)}},
		{"lu", Fail, tensors{of(0, 1, 0, 1), of(1, 0, 0.25, 1), of(u...)}},
		{"lu", Fail, tensors{of(0, 1, 1, 0.5), of(1, 0, 0.25, 1), of(u...)}},
		{"lu", Fail, tensors{of(p...), of(2, 0, 0.5, 1), of(2, 2, 0, 1)}},
		{"lu", Fail, tensors{of(p...), of(1, 0, math.NaN(), 1), of(u...)}},
		{"lu_factor", Pass, tensors{of(4, 4, 0.25, 1), tensor.Of(fp16.Int64, []float64{2, 2}, 2)}},
		{"lu_factor", Fail, tensors{of(4, 4, 0.25, 1), tensor.Of(fp16.Int64, []float64{1, 2}, 2)}},
		{"lu_factor", Fail, tensors{of(4, 4, 0.25, 1), tensor.Of(fp16.Int64, []float64{2, 1}, 2)}},
		{"det", Pass, tensors{one(-4)}},
		{"det", Fail, tensors{one(-4.0001)}},
		{"det", Fail, tensors{one(math.NaN())}},
		{"slogdet", Pass, tensors{one(-1), one(f.Round(math.Log(4)))}},
		{"slogdet", Fail, tensors{one(-2), one(f.Round(math.Log(4)))}},
		{"slogdet", Fail, tensors{one(-1), one(1.3864)}},
		{"logdet", Pass, tensors{one(math.NaN())}},
		{"logdet", Fail, tensors{one(f.Round(math.Log(4)))}},
	} {
		if r := asked(t, c.op, `{}`, tensors{a}, c.out); r.Verdict != c.verdict {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// TestCut: of a matrix of rank 2, but for float32's roundings, the pseudo-inverse is that of its two singular values,
// whatever attribute says so.
func TestCut(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(49, 12))
	c, f := in(fp16.Float32), fp16.Float32
	for _, shape := range [][2]int{{8, 5}, {5, 8}, {6, 6}} {
		a := times(drawn(rng, "normal", shape[0], 2), drawn(rng, "normal", 2, shape[1]))
		in, zero := tensors{stored(f, a)}, zeros(shape[1], shape[0])
		right, all := c.pinv(a, 1e-4), c.pinv(a, 0)
		bent := matrix{right.rows, right.cols, slices.Clone(right.a)}
		bent.a[largestAt(bent.a)] *= 1.001
		for _, q := range []struct {
			attributes string
			of         matrix
			verdict    string
		}{
			{`{"rtol": 1e-4}`, right, Pass}, {`{"atol": 1e-3}`, right, Pass}, {`{"rtol": 1e-4}`, all, Fail},
			{`{"rtol": 1e-4}`, bent, Fail}, {`{"rtol": 1e-4}`, zero, Fail}, {`{"atol": 1000}`, right, Fail},
			{`{"atol": 1000}`, zero, NoPower}, {`{}`, all, NoPower}, // zeros alone are right; what is a rounding may be cut
		} {
			r := asked(t, "linalg_pinv", q.attributes, in, tensors{stored(f, q.of)})
			if r.Verdict != q.verdict {
				t.Errorf("%v %s: %+v, want %s", shape, q.attributes, r, q.verdict)
			}
		}
	}
	// columns that are dependent
	a := stored(f, times(drawn(rng, "normal", 8, 2), drawn(rng, "normal", 2, 5)))
	r := asked(t, "lstsq", `{}`, tensors{a, tensor.New(f, 8)}, tensors{tensor.New(f, 5)})
	if r.Verdict != NoPower || !strings.Contains(r.Reason, "dependent") {
		t.Errorf("%+v", r)
	}
	a = stored(f, drawn(rng, "normal", 8, 5))
	x, b := tensor.New(f, 5), tensor.New(f, 8)
	for i := range b.Data {
		x.Data[i%5] = float64(i % 5)
		for k := range 5 {
			b.Data[i] += a.Data[i*5+k] * float64(k)
		}
		b.Data[i] = f.Round(b.Data[i])
	}
	if r := asked(t, "lstsq", `{}`, tensors{a, b}, tensors{x}); r.Verdict != Pass {
		t.Errorf("%+v", r)
	}
	x.Data[3] += 0.01
	if r := asked(t, "lstsq", `{}`, tensors{a, b}, tensors{x}); r.Verdict != Fail {
		t.Errorf("%+v", r)
	}
}

// largestAt is where the greatest magnitude is.
func largestAt(v []float64) (at int) {
	for k := range v {
		if math.Abs(v[k]) > math.Abs(v[at]) {
			at = k
		}
	}
	return at
}

// TestExpanded: determinants of small matrices whose terms cancel may be expanded, as JAX's are.
func TestExpanded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(49, 11))
	c, f, far := in(fp16.Float32), fp16.Float32, 0
	for range 200 {
		m := zeros(3, 3)
		for k := range m.a {
			m.a[k] = f.Round(1 + rng.NormFloat64()/4096)
		}
		minor := func(i, j int) float64 { return c.of(c.of(m.at(1, i)*m.at(2, j)) - c.of(m.at(1, j)*m.at(2, i))) }
		d := c.of(c.of(m.at(0, 0)*minor(1, 2)) - c.of(m.at(0, 1)*minor(0, 2)))
		d = c.of(d + c.of(m.at(0, 2)*minor(0, 1)))
		r := asked(t, "det", `{}`, tensors{stored(f, m)}, tensors{tensor.Of(f, []float64{d})})
		if r.Verdict == Fail {
			t.Errorf("%v: %+v", m, r)
		}
		if right, _, _ := in(fp16.Float64).det(m); math.Abs(d-right) > 0.1*math.Abs(right) {
			far++
		}
	}
	if far < 20 {
		t.Errorf("%d are far off", far)
	}
}

// TestAsked: what is asked wrongly is refused in one line.
func TestAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ op, attributes, want string }{
		{"qr", `{"mode": "full"}`, "want reduced, complete or r"},
		{"eigh", `{"UPLO": "x"}`, "want L or U"},
		{"cholesky", `{"lower": true}`, "want upper"},
		{"inv", `{"upper": true}`, "want none"},
		{"solve_triangular", `{}`, "has no default"},
		{"cholesky", `{"upper": 1}`, "want true or false"},
	} {
		if _, err := Parse(c.op, []byte(c.attributes)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.op, c.attributes, err, c.want)
		}
	}
	m := func(shape ...int) *tensor.Tensor { return tensor.New(fp16.Float32, shape...) }
	whole := m(2, 2)
	whole.Format = fp16.Int64
	for _, c := range []struct {
		op, want string
		in, out  tensors
	}{
		{"cholesky", "want square", tensors{m(2, 3)}, tensors{m(2, 3)}},
		{"cholesky", "want matrices", tensors{m(2)}, tensors{m(2)}},
		{"cholesky", "want [2 2]", tensors{m(2, 2)}, tensors{m(2)}},
		{"cholesky", "whole numbers", tensors{whole}, tensors{m(2, 2)}},
		{"solve", "want 2 rows", tensors{m(2, 2), m(3, 1)}, tensors{m(3, 1)}},
		{"solve", "want a batch", tensors{m(2, 2, 2), m(3, 2, 1)}, tensors{m(3, 2, 1)}},
		{"qr", "Q: shape", tensors{m(3, 2)}, tensors{m(3, 3), m(2, 2)}},
		{"svd", "U: shape", tensors{m(3, 2)}, tensors{m(3, 2), m(2), m(2, 2)}},
		{"det", "want square", tensors{m(3, 2)}, tensors{m()}},
		{"lstsq", "want as many rows", tensors{m(2, 3), m(2)}, tensors{m(3)}},
		{"lstsq", "want 3 rows", tensors{m(3, 2), m(2)}, tensors{m(2)}},
		{"lstsq", "want [2 1]", tensors{m(3, 2), m(3, 1)}, tensors{m(3, 1)}},
		{"pinv", "want [2 3]", tensors{m(3, 2)}, tensors{m(3, 2)}},
		{"lu", "L: shape", tensors{m(3, 2)}, tensors{m(3, 3), m(3, 3), m(2, 2)}},
		{"lu_solve", "pivots: shape", tensors{m(2, 2), m(2, 1), m(3)}, tensors{m(2, 1)}},
	} {
		s, err := Parse(c.op, []byte(`{}`))
		if err == nil {
			_, err = Check(Question{s, c.in, c.out})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %v: %v, want %q", c.op, c.in[0].Shape, err, c.want)
		}
	}
	if Is("softmax") || !Is("linalg_cholesky_ex") {
		t.Error("names")
	}
}

// TestSpectrum: eigenvalues that are known: of the second differences of a line, and of ones.
func TestSpectrum(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 10, 57} {
		line, ones := zeros(n, n), zeros(n, n)
		for i := range n {
			line.row(i)[i] = 2
			if i > 0 {
				line.row(i)[i-1], line.row(i - 1)[i] = -1, -1
			}
			for j := range n {
				ones.row(i)[j] = 1
			}
		}
		all := spectrum(ones)
		for k, w := range spectrum(line) {
			want := 2 - 2*math.Cos(math.Pi*float64(k+1)/float64(n+1))
			if math.Abs(w-want) > 1e-14*float64(n+2) {
				t.Errorf("%d: eigenvalue %d is %v, want %v", n, k, w, want)
			}
			want = 0
			if k == n-1 {
				want = float64(n)
			}
			if math.Abs(all[k]-want) > 1e-14*float64(n+2) {
				t.Errorf("ones, %d: eigenvalue %d is %v, want %v", n, k, all[k], want)
			}
		}
	}
}

// TestSums: what a sum is off is known where float64 has nothing left of it.
func TestSums(t *testing.T) {
	t.Parallel()
	var s sum
	for _, v := range []float64{1e9, 1 + 0x1p-40, -1e9} {
		s.add(v, 1+0x1p-30)
	}
	off, bound, deviation := s.against(1, computed(fp16.Float64), 0)
	if want := 0x1p-30 + 0x1p-40 + 0x1p-70; off != want {
		t.Errorf("off %v, want %v", off, want)
	}
	if size := 2e9; bound < 6*0x1p-53*size || bound > 7*0x1p-53*size || deviation > bound/2 || deviation < bound/20 {
		t.Errorf("bound %v, deviation %v", bound, deviation)
	}
}

// TestSVD: factors that are right, and those of another order, sign and transpose.
func TestSVD(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(49, 6))
	c, f, n := in(fp16.Float64), fp16.Float32, 12
	u, _ := c.qr(drawn(rng, "normal", n, n), true)
	v, _ := c.qr(drawn(rng, "normal", n, n), true)
	s, a := make([]float64, n), zeros(n, n)
	for k := range n {
		s[k] = float64(n - k)
		for i := range n {
			for j := range n {
				a.row(i)[j] += u.at(i, k) * s[k] * v.at(k, j)
			}
		}
	}
	in := tensors{stored(f, a)}
	ask := func(op string, out ...*tensor.Tensor) *Report { return asked(t, op, `{}`, in, out) }
	of := func(m matrix) *tensor.Tensor { return stored(f, m) }
	if r := ask("svd", of(u), listed(f, s), of(v)); r.Verdict != Pass {
		t.Errorf("%+v", r)
	}
	if r := ask("svdvals", listed(f, s)); r.Verdict != Pass {
		t.Errorf("%+v", r)
	}
	if r := ask("svd", of(u), listed(f, s), of(v.transposed())); r.FaultID != "factor.transposed:Vh" {
		t.Errorf("%+v", r)
	}
	bent := slices.Clone(s)
	bent[3] *= 1.001
	negative := slices.Clone(s)
	negative[n-1] *= -1
	up := slices.Clone(s)
	slices.Reverse(up)
	for _, w := range [][]float64{bent, negative, up} {
		if r := ask("svdvals", listed(f, w)); r.Verdict != Fail {
			t.Errorf("%v: %+v", w, r)
		}
		if r := ask("svd", of(u), listed(f, w), of(v)); r.Verdict != Fail {
			t.Errorf("%v: %+v", w, r)
		}
	}
}

// BenchmarkCheck judges factors of 256 x 256 matrices.
func BenchmarkCheck(b *testing.B) {
	for _, q := range questions(rand.New(rand.NewPCG(49, 7)), "normal", 256, fp16.Float32, fp16.Float32) {
		b.Run(fmt.Sprint(q.op, q.attributes, q.in[0].Shape), func(b *testing.B) {
			for b.Loop() {
				if r := asked(b, q.op, q.attributes, q.in, q.out); r.Verdict != Pass {
					b.Fatal(r)
				}
			}
		})
	}
}
