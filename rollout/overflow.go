package rollout

import (
	"slices"

	"github.com/refrun/refrun/tensor"
)

// Overflow is the first place in a float16 rollout where finite states led to
// numbers beyond the format's range, which become infinities there. It is no
// error: a device goes on with them too.
type Overflow struct {
	Step     int    `json:"step"`
	Layer    string `json:"layer"`    // the first module whose output is not finite
	Elements int    `json:"elements"` // of that output, over the engine batch
}

// overflowWatch counts elements that are not finite, module by module, over
// the parts of one engine batch.
type overflowWatch struct {
	order []string
	count map[string]int
}

func (w *overflowWatch) see(name string, t *tensor.Tensor) {
	if !slices.Contains(w.order, name) {
		w.order = append(w.order, name)
	}
	for _, v := range t.Data {
		if v-v != 0 {
			w.count[name]++
		}
	}
}

// first returns the first module, in the order of evaluation, with any.
func (w *overflowWatch) first() (layer string, elements int) {
	for _, name := range w.order {
		if n := w.count[name]; n > 0 {
			return name, n
		}
	}
	return "", 0
}
