//go:build !unix

package matmul

func processTime() float64 { return 0 }
