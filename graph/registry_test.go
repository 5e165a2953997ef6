package graph

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

func TestBind(t *testing.T) {
	op, err := Bind("avg_pool2d", []byte(`{"kernel_size": 3}`))
	if err != nil || !reflect.DeepEqual(op, AvgPool{axes: 2, Kernel: Ints{3}, CountPadding: true}) {
		t.Errorf("%v, %v", op, err)
	}
	if op, err := Bind("add", nil); err != nil || op != Op(Addition) {
		t.Errorf("%v, %v", op, err)
	}
	for _, k := range []struct{ name, attributes, says string }{
		{"avgpool2d", "", "such as avg_pool2d"},
		{"\x1b[2Jx", "", "unknown operation"},
		{"avg_pool2d", `{"Size": 3}`, `avg_pool2d: "Size": no such attribute: want `},
		{"avg_pool2d", `{"kernel_size": "3"}`, "avg_pool2d: kernel_size: \"3\": want a whole number"},
		{"avg_pool2d", `[`, "avg_pool2d: "},
	} {
		_, err := Bind(k.name, []byte(k.attributes))
		if err == nil || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%q %s: %v, want %q", k.name, k.attributes, err, k.says)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%q: an error of %d characters", k.name, len(err.Error()))
		}
	}
	if !slices.IsSorted(Names()) || !slices.Contains(Names(), "conv2d") {
		t.Errorf("%v", Names())
	}
}

func TestInts(t *testing.T) {
	for _, k := range []struct {
		json string
		want []int
	}{{"3", []int{3, 3}}, {"[4]", []int{4, 4}}, {"[1,2]", []int{1, 2}}, {"[]", []int{7, 7}}, {"null", []int{7, 7}}} {
		var v Ints
		if err := v.UnmarshalJSON([]byte(k.json)); err != nil {
			t.Fatal(err)
		}
		if got, err := v.each("stride", 2, 7); err != nil || !slices.Equal(got, k.want) {
			t.Errorf("%s: %v, %v", k.json, got, err)
		}
	}
	if _, err := (Ints{1, 2, 3}).each("stride", 2, 7); err == nil || !strings.Contains(err.Error(), "stride: 3 numbers") {
		t.Error(err)
	}
	var v Ints
	if v.UnmarshalJSON([]byte(`"x"`)) == nil {
		t.Error("a string is no number")
	}
}

// Without autocast an operation's result is the widest type of its inputs.
func TestWidest(t *testing.T) {
	f := func(in ...fp16.Format) []fp16.Format { return in }
	for _, k := range []struct {
		in   []fp16.Format
		want fp16.Format
	}{
		{f(fp16.Float32), fp16.Float32},
		{f(fp16.Float16, fp16.BFloat16), fp16.Float32},
		{f(fp16.Float16, fp16.Float16), fp16.Float16},
		{f(fp16.BFloat16, fp16.Int64), fp16.BFloat16},
		{f(fp16.Int64, fp16.Int64), fp16.Int64},
		{f(fp16.Int64, fp16.Float32, fp16.Float64, fp16.Float16), fp16.Float64},
	} {
		if got, err := (Mode{Precision: fp16.Float32}).Result("add", k.in...); err != nil || got != k.want {
			t.Errorf("%v: %v, %v: want %v", k.in, got, err, k.want)
		}
	}
}
