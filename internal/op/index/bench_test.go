package index

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

// BenchmarkIndexAdd adds edges of 64 numbers to nodes of a graph.
func BenchmarkIndexAdd(b *testing.B) {
	r := rand.New(rand.NewPCG(60, 1))
	for _, edges := range []int{1000, 10000, 100000} {
		nodes := edges / 20
		i, old, src := indices(r, nodes, edges), tensor.New(fp16.Float32, nodes, 64), tensor.New(fp16.Float32, edges, 64)
		fill(r, src, makers[0].make)
		b.Run(fmt.Sprint(edges), func(b *testing.B) {
			defer func(p int) { piece = p }(piece)
			piece = 1 << 14
			dst := tensor.Like(old)
			for b.Loop() {
				if err := IndexAdd(dst, old, 0, i, src, Sum, true); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(edges*64), "ns/number")
		})
	}
}

// BenchmarkPermute moves images to another order of axes.
func BenchmarkPermute(b *testing.B) {
	defer func(p int) { piece = p }(piece)
	piece = 1 << 14
	src, dst := tensor.New(fp16.Float32, 32, 32, 64, 64), tensor.New(fp16.Float32, 32, 32, 64, 64)
	for _, order := range [][]int{{0, 1, 3, 2}, {1, 0, 2, 3}} {
		b.Run(fmt.Sprint(order), func(b *testing.B) {
			b.SetBytes(int64(8 * len(src.Data)))
			for b.Loop() {
				Permute(dst, src, order...)
			}
		})
	}
}
