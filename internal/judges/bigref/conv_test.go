package bigref

import (
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/tensor"
)

func image(h, w int, v ...float64) *tensor.Tensor {
	return tensor.Of(fp16.Float32, v, 1, 1, h, w)
}

// The judges on examples small enough to do by hand.
func TestConvJudges(t *testing.T) {
	ramp := image(2, 3, 1, 2, 3, 4, 5, 6)
	pair := image(1, 2, 10, 1) // 10 times a pixel plus its right neighbour
	for _, c := range []struct {
		name string
		got  *Exact
		want *tensor.Tensor
	}{
		{"plain", Conv2d(ramp, pair, nil, 1, 0, "zeros"), image(2, 2, 12, 23, 45, 56)},
		{"bias", Conv2d(ramp, pair, []float64{0.5}, 2, 0, "zeros"), image(1, 1, 12.5)},
		{"zeros", Conv2d(image(1, 3, 1, 2, 3), pair, nil, 1, 1, "zeros"), image(3, 4, 0, 0, 0, 0, 1, 12, 23, 30, 0, 0, 0, 0)},
		{"circular", Conv2d(image(1, 3, 1, 2, 3), pair, nil, 1, 1, "circular"),
			image(3, 4, 31, 12, 23, 31, 31, 12, 23, 31, 31, 12, 23, 31)},
		{"replicate", Conv2d(image(1, 3, 1, 2, 3), pair, nil, 1, 1, "replicate"),
			image(3, 4, 11, 12, 23, 33, 11, 12, 23, 33, 11, 12, 23, 33)},
		{"reflect", Conv2d(ramp, pair, nil, 1, 1, "reflect"),
			image(4, 4, 54, 45, 56, 65, 21, 12, 23, 32, 54, 45, 56, 65, 21, 12, 23, 32)},
		{"transposed", ConvTranspose2d(image(1, 2, 1, 2), image(1, 3, 100, 10, 1), []float64{0.5}, 2, 0),
			image(1, 5, 100.5, 10.5, 201.5, 20.5, 2.5)},
		{"cropped", ConvTranspose2d(image(3, 2, 0, 0, 1, 2, 0, 0), image(1, 3, 100, 10, 1), nil, 2, 1),
			image(3, 3, 0, 0, 0, 10, 201, 20, 0, 0, 0)},
		{"pool", AvgPool2d(image(3, 5, 1, 2, 3, 4, 9, 5, 6, 7, 9, 9, 9, 9, 9, 9, 9), 2), image(1, 2, 3.5, 5.75)},
		{"bilinear", Bilinear(image(1, 2, 0, 4), 2), image(2, 4, 0, 1, 3, 4, 0, 1, 3, 4)},
		{"bilinear", Bilinear(image(2, 1, 0, 9), 3), image(6, 3, 0, 0, 0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9, 9, 9, 9)},
	} {
		got := c.got.Round(fp16.Float32)
		if !got.SameShape(c.want) {
			t.Errorf("%s: shape %s, want %s", c.name, got.Dims(), c.want.Dims())
			continue
		}
		for i, v := range got.Data {
			if v != c.want.Data[i] {
				t.Errorf("%s: %v, want %v", c.name, got.Data, c.want.Data)
				break
			}
		}
	}
}
