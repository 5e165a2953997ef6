package asm

// Bytes is a set of kernels for numbers on their way to files.
type Bytes struct {
	// Float32 stores n numbers at to, rounded to float32, little-endian, any NaN as the quiet
	// one without payload. n is a positive multiple of 8.
	Float32 func(to *byte, x *float64, n int)

	// Float16 and BFloat16 store n numbers at to, rounded to the format, little-endian. They stop
	// before eight numbers of which one is no float32 number, or NaN, and return how many they
	// have stored. n is a positive multiple of 8.
	Float16, BFloat16 func(to *byte, x *float64, n int) (done int)

	// Sort stores the first bytes of n words of four at to, the second ones apart bytes further
	// on, and so on. n is a positive multiple of 32.
	Sort func(to *byte, apart int, from *byte, n int)

	// Adler adds n bytes to the first sum and each first sum, after a byte, to the second one, as
	// Adler-32 does before it takes the remainders. n is a positive multiple of 32, at most
	// 1 << 16; sums are below 1 << 32.
	Adler func(sums *[2]uint64, p *byte, n int)
}

// BytesKernels returns the kernels of the backend that runs, nil if it has none.
func BytesKernels() *Bytes { return current().bytes }
