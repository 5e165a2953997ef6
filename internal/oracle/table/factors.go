package table

// factors are the faults of kernels that factor matrices, or solve with them. How they are made is said in
// oracle/factor.
var factors = []Row{
	{ID: "factor.transposed", Name: "%s is transposed", Verdict: logic,
		Advice: "check rows and columns of what is returned, and the memory layout: LAPACK's is by columns"},
	{ID: "factor.triangle", Name: "the other triangle of the factor is not 0", Verdict: logic,
		Advice: "write zeros there: what a factorization in place leaves is of the input"},
	{ID: "factor.transposed-solve", Name: "the transposed system is solved", Verdict: logic,
		Advice: "check rows and columns of the matrix, and the memory layout: LAPACK's is by columns"},
	{ID: "factor.unit-diagonal", Name: "the diagonal is taken for ones, or not, against what is asked", Verdict: logic,
		Advice: "divide by the diagonal unless unitriangular is set"},
	{ID: "factor.other-triangle", Name: "the system of the other triangle is solved", Verdict: logic,
		Advice: "read the triangle that upper names"},
	{ID: "factor.column-sign", Name: "columns of Q are of another sign than rows of R", Verdict: logic,
		Advice: "change the sign of a column and of its row together"},
	{ID: "factor.not-orthogonal", Name: "Q has lost its orthogonality", Verdict: precise,
		Advice: "take Householder's reflections, or repeat Gram-Schmidt: one pass, and Cholesky of A^T A, lose it"},
	{ID: "factor.order", Name: "the eigenvalues are not sorted", Verdict: logic,
		Advice: "sort them, ascending, and the vectors with them"},
	{ID: "factor.pairs", Name: "the eigenvectors are in another order than their eigenvalues", Verdict: logic,
		Advice: "sort the vectors with the eigenvalues"},
	{ID: "factor.pivots", Name: "rows are not exchanged for the largest pivot", Verdict: precise,
		Advice: "exchange rows so that the pivot is the largest number of its column"},
	{ID: "factor.pivot-base", Name: "the pivots count from 0", Verdict: logic, Advice: "count from 1, as LAPACK does"},
	{ID: "factor.exchanges", Name: "the exchanges of rows are left out", Verdict: logic,
		Advice: "exchange the rows of the right side as the pivots say"},
	{ID: "factor.exchange-sign", Name: "the sign is not that of the determinant", Verdict: logic,
		Advice: "multiply the signs of the diagonal, and by -1 for each exchange of two rows"},
	{ID: "factor.logarithm", Name: "the logarithm is of base %s", Verdict: logic, Advice: "take the natural logarithm"},
	{ID: "factor.narrow-sums", Name: "sums or products are in %s", Verdict: precise,
		Advice: "keep sums and products in float32"},
}
