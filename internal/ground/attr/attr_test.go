package attr

import "testing"

// TestRead: what does not fit is said in the words of whoever wrote it, and not in those of Go.
func TestRead(t *testing.T) {
	type inner struct {
		Stride int `json:"stride"`
	}
	var to struct {
		inner
		Dim   int       `json:"dim"`
		Eps   float64   `json:"eps"`
		Keep  bool      `json:"keepdim"`
		Mode  string    `json:"mode"`
		Sizes []int     `json:"sizes"`
		Scale []float64 `json:"scale"`
		none  int
	}
	to.none = 1
	for text, want := range map[string]string{
		`{"dim": "x"}`:             `dim: "x": want a whole number`,
		`{"eps": 1, "dim": 1.5}`:   `dim: 1.5: want a whole number`,
		`{"dim": 1e30}`:            `dim: 1e30: want a whole number`,
		`{"eps": [1,  2]}`:         `eps: [1,2]: want a number`,
		`{"keepdim": 1}`:           `keepdim: 1: want true or false`,
		`{"mode": 3}`:              `mode: 3: want a string`,
		`{"sizes": 3}`:             `sizes: 3: want a list`,
		`{"scale": [1, {"a": 1}]}`: `scale: [1,{"a":1}]: want a number`,
		`{"stride": "x"}`:          `stride: "x": want a whole number`,
		`{"axis": 1}`:              `"axis": no such attribute: want dim, eps, keepdim, mode, scale, sizes, stride`,
		`{"none": 1}`:              `"none": no such attribute: want dim, eps, keepdim, mode, scale, sizes, stride`,
		`[1]`:                      `attributes: "[1]": want a JSON object`,
		`{"dim": 1, "DIM": 2}`:     ``,
		`{"dim": null}`:            ``,
		`{}`:                       ``,
	} {
		if err := Read([]byte(text), &to); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v: want %s", text, err, want)
		}
	}
	var open map[string]float64
	if err := Read([]byte(`{"alpha": 1, "beta": "x"}`), &open); err == nil || err.Error() != `beta: "x": want a number` {
		t.Errorf("of a map: %v", err)
	}
	if err := Read([]byte(`{"a": 1}`), &struct{}{}); err == nil || err.Error() != `"a": no such attribute: want none` {
		t.Errorf("of none: %v", err)
	}
}
