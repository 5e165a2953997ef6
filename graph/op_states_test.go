package graph

import (
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/op/norm"
	"github.com/refrun/refrun/tensor"
)

func init() {
	moving = append(moving, "minmax", "zscore")
	notInPyTorch["minmax"], notInPyTorch["zscore"] = "Spinlock's", "Spinlock's"
}

// TestStates: the norms of states go over the axes that they are told.
func TestStates(t *testing.T) {
	x := tensor.Of(fp16.Float32, []float64{1, 2, 4, -3, 5, 0, 7, 7, 9, 2, 1, 8}, 2, 3, 2)
	for name, f := range map[string]func([]float64, fp16.Format){"minmax": norm.MinMax, "zscore": norm.ZScore} {
		for attributes, size := range map[string]int{
			"": 12, `{"start_dim": 1}`: 6, `{"start_dim": 2}`: 2, `{"start_dim": 3}`: 1,
		} {
			want := slices.Clone(x.Data)
			for i := 0; i < len(want); i += size {
				f(want[i:i+size], fp16.Float32)
			}
			y, err := ofEach(t, Mode{Precision: fp16.Float32}, name, attributes, x)
			if err != nil || !slices.EqualFunc(y.Data, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
				t.Errorf("%s %s: %v, %v, want %v", name, attributes, y, err, want)
			}
		}
	}
	for attributes, want := range map[string]string{`{"start_dim": 4}`: "start_dim: 4: want 0 to 3, the input's rank",
		`{"start_dim": -1}`: "start_dim: -1: want 0 to 3, the input's rank"} {
		op, err := Bind("minmax", []byte(attributes))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := op.Infer(Mode{Precision: fp16.Float32}, []Type{{x.Shape, fp16.Float32}}); err == nil ||
			err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
