package factor

// The numbers that decide, each with its class, as in package judge.
const (
	// set: the chance that a right kernel fails, as the judge of kernels has it.
	chance = 1e-6
)

// The variance of a rounding, in squares of the unit roundoff: that of a number anywhere within it.
const (
	// derived: uniform between -1 and 1.
	uniform = 1 / 3.
	// derived: of k sums in an order that is drawn, the squares have a mean of k/6 of the sum of the terms' squares ...
	drawnTerms = 1 / 6.
	// derived: ... and k/3 of the square of the whole sum.
	drawnWhole = 1 / 3.
)

// The operations beside the sums of a number of a factor.
const (
	// derived: the subtraction from the matrix's number, the quotient or root, and its reciprocal where one is stored.
	beside = 3
	// derived: Higham, Theorem 9.4: elimination and two substitutions.
	eliminations = 3
	// derived: a library's logarithm is within 2 ulp (CUDA C++ Programming Guide), and is rounded: as package judge bounds
	// those of numbers.
	logarithms = 6
)

// The variance of orthogonal transforms, in squares of a rounding of the norm of what they are applied to.
const (
	// derived: a reflection x - tau v (v^T x) rounds two products of norm 2 at most, and a difference, and its vector and
	// tau are rounded: 4 + 1 + 1 + 2.
	reflection = 8
	// derived: the sums v^T x of all reflections of a column, whose squares are twice that of its norm together.
	inner = 4
	// derived: 3 to 4 rotations of each column for an eigenvalue by QR steps, of 3 roundings on each of two sides, and two
	// reflections before them; or 10 sweeps of Jacobi's rotations.
	eigen = 64
)

// work: JAX expands the determinants of matrices of up to 3 x 3.
const expanded = 3

// set: the loss of orthogonality that LAPACK's own tests allow n eigenvectors, in n times the distance of 1 and
// its next number.
const represented = 30

// The other formats in which sums may have been kept.
const (
	// derived: float16's and TF32's unit roundoff.
	elevenBits = 0x1p-11
	// derived: bfloat16's.
	eightBits = 0x1p-8
)

// derived: errors of the normal law are spread over a third of their numbers, by squares over fourth powers; half of
// it.
const concentrated = 1 / 6.

// work: a matrix whose largest number is beyond, or below the inverse, is not judged.
const farthest = 0x1p200

// work: the steps of QR for an eigenvalue, of which two are usual.
const mostSteps = 60
