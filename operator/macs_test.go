package operator

import "testing"

// TestConfigMACs compares with what the operators that are built say.
func TestConfigMACs(t *testing.T) {
	for layers := range 6 {
		for _, k := range []int{1, 3, 7} {
			c := Config{NumLayers: layers, BaseChannels: 5, InputChannels: 2, OutputChannels: 2, KernelSize: k}
			op, err := Init(c, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := c.MACs(6, 4); got != float64(op.MACs(6, 4)) {
				t.Errorf("%d layers, kernel %d: %v, want %v", layers, k, got, op.MACs(6, 4))
			}
		}
	}
}
