//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dataset

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// TestBusy: a unit that another process makes is left to it, and is no longer one that is to be
// waited for when that has made it by the end of the run.
func TestBusy(t *testing.T) {
	p := plan(t, strings.Replace(own, `"operators":40`, `"operators":2`, 1), 1)
	begun, goOn, made := make(chan struct{}), make(chan struct{}), make(chan error)
	var first, second sync.Once
	go func() {
		_, err := p.Make(context.Background(), Run{Units: []int{0}, Version: "test", Progress: func(Progress) {
			first.Do(func() {
				close(begun)
				<-goOn
			})
		}})
		made <- err
	}()
	<-begun
	early, err := p.Make(context.Background(), Run{Units: []int{0}, Version: "test"})
	if err != nil || len(early.Busy) != 1 {
		t.Errorf("while unit 0 is made: %+v, %v", early, err)
	}
	m, err := p.Make(context.Background(), Run{Units: []int{0, 1}, Version: "test", Progress: func(at Progress) {
		if len(at.At) > 0 && at.At[0].Unit == 1 || at.Done == 2 {
			second.Do(func() {
				close(goOn)
				if err := <-made; err != nil {
					t.Error(err)
				}
			})
		}
	}})
	if err != nil || m.Made != 1 || m.Were != 1 || len(m.Busy) != 0 {
		t.Errorf("%+v, %v, want one made, one that was, and none to wait for", m, err)
	}
}
