package index

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// TestLongRuns: parts so long that they are moved in pieces end up whole, in order.
func TestLongRuns(t *testing.T) {
	for _, inner := range []int{1<<14 - 1, 1 << 14, 1<<14 + 2, 1 << 16, 3 << 15, 100003, 100004} {
		const n = 5
		src := tensor.New(fp16.Float32, 2, n, inner)
		for i := range src.Data {
			src.Data[i] = float64(i)
		}
		of := tensor.Of(fp16.Int64, []float64{4, -4, 4}, 3)
		dst := tensor.New(fp16.Float32, 2, 3, inner)
		if err := Take(dst, src, 1, of); err != nil {
			t.Fatal(err)
		}
		for b := range 2 {
			for k, part := range []int{4, 1, 4} {
				for i := range inner {
					if got, want := dst.Data[(b*3+k)*inner+i], float64((b*n+part)*inner+i); got != want {
						t.Fatalf("runs of %d: [%d,%d,%d] is %v, want %v", inner, b, k, i, got, want)
					}
				}
			}
		}
	}
}
