package factor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/tensor"
)

// Spec is an operation: ATen's name without linalg_ and _ex, and its attributes.
type Spec struct {
	Op string

	Upper         bool `json:"upper"`         // of cholesky, and which triangle of a matrix is solved with
	Left          bool `json:"left"`          // A X = B, and not X A = B
	Transpose     bool `json:"transpose"`     // A^T X = B
	Unitriangular bool `json:"unitriangular"` // the diagonal is taken for ones

	Mode         string `json:"mode"`          // of qr: reduced, complete or r
	UPLO         string `json:"UPLO"`          // the triangle that eigh reads
	FullMatrices bool   `json:"full_matrices"` // of svd
	Pivot        bool   `json:"pivot"`         // of lu: rows are exchanged
	Adjoint      bool   `json:"adjoint"`       // of lu_solve: A^T X = B

	// Which singular values are cut: those of pinv up to Atol or Rtol times the largest, torch's rule if it is below 0,
	// and of a matrix that lstsq does not take for one of full rank.
	Atol  float64 `json:"atol"`
	Rtol  float64 `json:"rtol"`
	Rcond float64 `json:"rcond"`

	vector bool // B is one, and no matrix
}

// operation says what one takes and returns, each under all its names.
type operation struct {
	takes, returns [][]string
	attributes     []string
}

var (
	first   = []string{"input", "A", "self"}
	second  = []string{"B", "other"}
	output  = [][]string{{"output"}}
	operate = map[string]operation{
		"cholesky":         {[][]string{first}, output, []string{"upper"}},
		"solve_triangular": {[][]string{first, second}, output, []string{"upper", "left", "unitriangular"}},
		"triangular_solve": {[][]string{{"A"}, {"input", "b", "B", "self"}}, output,
			[]string{"upper", "transpose", "unitriangular"}},
		"solve": {[][]string{first, second}, output, []string{"left"}},
		"inv":   {[][]string{first}, output, nil},
		"qr":    {[][]string{first}, [][]string{{"Q"}, {"R"}}, []string{"mode"}},
		"eigh": {[][]string{first}, [][]string{{"eigenvalues", "L"}, {"eigenvectors", "Q"}},
			[]string{"UPLO"}},
		"eigvalsh":  {[][]string{first}, output, []string{"UPLO"}},
		"svd":       {[][]string{first}, [][]string{{"U"}, {"S"}, {"Vh"}}, []string{"full_matrices"}},
		"svdvals":   {[][]string{first}, output, nil},
		"lu":        {[][]string{first}, [][]string{{"P"}, {"L"}, {"U"}}, []string{"pivot"}},
		"lu_factor": {[][]string{first}, [][]string{{"LU"}, {"pivots"}}, []string{"pivot"}},
		"lu_solve": {[][]string{{"LU", "LU_data"}, {"B", "b", "input", "self"}, {"pivots", "LU_pivots"}}, output,
			[]string{"left", "adjoint"}},
		"cholesky_solve": {[][]string{{"L", "input2", "A"}, {"B", "input", "self"}}, output, []string{"upper"}},
		"det":            {[][]string{first}, output, nil},
		"slogdet":        {[][]string{first}, [][]string{{"sign"}, {"logabsdet"}}, nil},
		"logdet":         {[][]string{first}, output, nil},
		"pinv":           {[][]string{first}, output, []string{"atol", "rtol"}},
		"lstsq":          {[][]string{first, {"B", "b", "other"}}, [][]string{{"solution"}}, []string{"rcond"}},
	}
	aliases = map[string]string{"inverse": "inv", "inv_ex": "inv", "solve_ex": "solve", "cholesky_ex": "cholesky",
		"lu_factor_ex": "lu_factor"}
)

// plain is a name as operate has it.
func plain(op string) string {
	op = strings.TrimPrefix(op, "linalg_")
	if of, ok := aliases[op]; ok {
		return of
	}
	return op
}

// Is reports whether an operation is judged here.
func Is(op string) bool { return operate[plain(op)].takes != nil }

// Parse returns the operation of that name with attributes, a JSON object.
func Parse(op string, attributes []byte) (*Spec, error) {
	s := &Spec{Op: plain(op), Left: true, Mode: "reduced", UPLO: "L", FullMatrices: true, Pivot: true, Rtol: -1}
	s.Upper = s.Op == "triangular_solve"
	known := operate[s.Op].attributes
	var given map[string]any
	if err := attr.Read(attributes, &given); err != nil {
		return nil, err
	}
	for name := range given {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%.60q: no such attribute: want %s", name, wanted(known))
		}
	}
	if err := attr.Read(attributes, s); err != nil {
		return nil, err
	}
	switch {
	case s.Op == "solve_triangular" && given["upper"] == nil:
		return nil, fmt.Errorf("upper: want true or false: %s has no default", op)
	case !slices.Contains([]string{"reduced", "complete", "r"}, s.Mode):
		return nil, fmt.Errorf("mode: %.60q: want reduced, complete or r", s.Mode)
	case s.UPLO != "L" && s.UPLO != "U":
		return nil, fmt.Errorf("UPLO: %.60q: want L or U", s.UPLO)
	}
	return s, nil
}

// wanted lists names.
func wanted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Inputs are the tensors that it takes, each by all names that it may have.
func (s *Spec) Inputs() [][]string { return operate[s.Op].takes }

// Outputs are those that it returns.
func (s *Spec) Outputs() [][]string {
	if s.Op == "qr" && s.Mode == "r" {
		return operate[s.Op].returns[1:]
	}
	if s.Op == "lu" && !s.Pivot {
		return operate[s.Op].returns[1:]
	}
	return operate[s.Op].returns
}

// shapes are those of the outputs.
func (s *Spec) shapes(inputs []*tensor.Tensor) ([][]int, error) {
	a := inputs[0].Shape
	if len(a) < 2 {
		return nil, fmt.Errorf("%s: shape %v: want matrices", s.Inputs()[0][0], a)
	}
	batch, m, n := a[:len(a)-2], a[len(a)-2], a[len(a)-1]
	of := func(shape ...int) []int { return slices.Concat(batch, shape) }
	k := min(m, n)
	switch s.Op {
	case "qr":
		if s.Mode == "complete" {
			k = m
		}
		if s.Mode == "r" {
			return [][]int{of(k, n)}, nil
		}
		return [][]int{of(m, k), of(k, n)}, nil
	case "lu":
		if !s.Pivot {
			return [][]int{of(m, k), of(k, n)}, nil
		}
		return [][]int{of(m, m), of(m, k), of(k, n)}, nil
	case "lu_factor":
		return [][]int{a, of(k)}, nil
	case "svdvals":
		return [][]int{of(k)}, nil
	case "svd":
		if s.FullMatrices {
			return [][]int{of(m, m), of(k), of(n, n)}, nil
		}
		return [][]int{of(m, k), of(k), of(k, n)}, nil
	}
	switch {
	case s.Op == "pinv":
		return [][]int{of(n, m)}, nil
	case s.Op == "lstsq" && m < n:
		return nil, fmt.Errorf("%s: shape %v: want as many rows as columns, or more", s.Inputs()[0][0], a)
	case s.Op == "lstsq":
		shapes, err := s.solved(inputs[1].Shape, batch, m)
		if err != nil {
			return nil, err
		}
		rows := len(shapes[0]) - 2
		if s.vector {
			rows++
		}
		shapes[0][rows] = n
		return shapes, nil
	case m != n:
		return nil, fmt.Errorf("%s: shape %v: want square matrices", s.Inputs()[0][0], a)
	case s.Op == "eigh":
		return [][]int{of(n), of(n, n)}, nil
	case s.Op == "eigvalsh":
		return [][]int{of(n)}, nil
	case s.Op == "slogdet":
		return [][]int{batch, batch}, nil
	case s.Op == "det" || s.Op == "logdet":
		return [][]int{batch}, nil
	case len(inputs) > 2 && !slices.Equal(inputs[2].Shape, of(n)):
		return nil, fmt.Errorf("%s: shape %v: want %v", s.Inputs()[2][0], inputs[2].Shape, of(n))
	case len(inputs) == 1:
		return [][]int{a}, nil
	}
	return s.solved(inputs[1].Shape, batch, n)
}

// solved is the shape of what is solved for.
func (s *Spec) solved(b, batch []int, n int) ([][]int, error) {
	vector := len(b) == 1 || len(b) > 1 && slices.Equal(b, append(slices.Clone(batch), n))
	s.vector = vector && (s.Op == "solve" || s.Op == "lstsq")
	rows := len(b) - 2
	switch {
	case s.vector:
		rows = len(b) - 1
	case !s.Left:
		rows = len(b) - 1
	}
	if rows < 0 || len(b) < 2 && !s.vector || b[rows] != n {
		return nil, fmt.Errorf("%s: shape %v: want %d rows for matrices of %d x %d", s.Inputs()[1][0], b, n, n, n)
	}
	own := b[:rows]
	if !s.Left && !s.vector {
		own = b[:rows-1]
	}
	rest := b[len(own):]
	longer, other := own, batch
	if len(other) > len(longer) {
		longer, other = other, longer
	}
	whole := slices.Clone(longer)
	for d, v := range other {
		at := d + len(longer) - len(other)
		whole[at] = max(whole[at], v)
		if whole[at] > 1 && v == 0 || longer[at] == 0 {
			whole[at] = 0
		}
	}
	if !broadcasts(own, whole) || !broadcasts(batch, whole) {
		return nil, fmt.Errorf("%s: shape %v: want a batch as %v", s.Inputs()[1][0], b, batch)
	}
	return [][]int{append(whole, rest...)}, nil
}
