//go:build !unix

package conv

func processTime() int64 { return 0 }
