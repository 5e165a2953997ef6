//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dataset

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// TestNothingTwice: of several runs of one shard at the same time each unit is made by one.
func TestNothingTwice(t *testing.T) {
	for _, store := range []string{`{}`, `{"states":false}`} {
		for range 4 {
			p := plan(t, `{"name":"t","operators":24,"seed":3,"operator":{"grid_size":8,"num_layers":0,"base_channels":2,
			"noise_type":"gaussian"},
				"rollout":{"num_timesteps":2,"num_realizations":1},"space":{"operator.noise_scale":{"log":[0.01,0.3]}},
				"store":`+store+`}`, 1)
			var all sync.WaitGroup
			var made atomic.Int64
			for range 4 {
				all.Go(func() {
					q, err := Open(p.Dir)
					if err != nil {
						t.Error(err)
						return
					}
					m, err := q.Make(context.Background(), Run{Units: Shard{0, 1}.Units(q.Costs()), Workers: 2, Version: "test"})
					if err != nil {
						t.Error(err)
						return
					}
					made.Add(int64(m.Made))
				})
			}
			all.Wait()
			if n := made.Load(); n != 24 {
				t.Errorf("%s: 24 units were made by %d", store, n)
			}
			sums(t, p)
		}
	}
}
