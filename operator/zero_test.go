package operator

import (
	"reflect"
	"testing"
)

// TestZeroConfig: what is left out of a Config, and of its JSON, is what the doc says.
func TestZeroConfig(t *testing.T) {
	want := Config{NumLayers: 1, BaseChannels: 4, InputChannels: 3, OutputChannels: 3, KernelSize: 3,
		Activation: "gelu", Normalization: "instance"}
	op, err := Init(Config{NumLayers: 1, BaseChannels: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(op.Config, want) {
		t.Errorf("%+v, want %+v", op.Config, want)
	}
	c, err := ReadConfig("f", "", []byte(`{"num_layers": 1, "base_channels": 4}`))
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, %v: want %+v", c, err, want)
	}
	if first := op.Params()[0].Shape; !reflect.DeepEqual(first, []int{4, 3, 3, 3}) {
		t.Errorf("the first weight is %v", first)
	}
	if _, err := Init(Config{NumLayers: 1}, 1); err == nil || err.Error() != "operator.base_channels: 0: want 1 or more" {
		t.Errorf("without channels: %v", err)
	}
}

// TestZeroNodeConfig: a convolution has its bias and a norm its parameters unless told
// otherwise, in Go as in JSON.
func TestZeroNodeConfig(t *testing.T) {
	nodes := func(noBias, noAffine bool) Config {
		return Config{Nodes: []NodeConfig{{Op: "conv", Name: "c", OutChannels: 2, KernelSize: 1, NoBias: noBias},
			{Op: "norm", Name: "n", Normalization: "instance", NoAffine: noAffine}}}
	}
	params := func(c Config) (names []string) {
		op, err := Init(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		if eps := op.Nodes()[1].Eps; eps != 1e-5 {
			t.Errorf("eps %v", eps)
		}
		for _, p := range op.Params() {
			names = append(names, p.Name)
		}
		return names
	}
	all := []string{"c.weight", "c.bias", "n.weight", "n.bias"}
	if got := params(nodes(false, false)); !reflect.DeepEqual(got, all) {
		t.Errorf("%q, want %q", got, all)
	}
	if got := params(nodes(true, true)); !reflect.DeepEqual(got, all[:1]) {
		t.Errorf("%q, want %q", got, all[:1])
	}
	read, err := ReadConfig("f", "", []byte(`{"nodes":[{"op":"conv","name":"c","out_channels":2,"kernel_size":1},`+
		`{"op":"norm","name":"n","normalization":"instance"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := params(read); !reflect.DeepEqual(got, all) {
		t.Errorf("read: %q, want %q", got, all)
	}
	exact := 0.0
	c := nodes(false, false)
	c.Nodes[1].Eps = &exact
	if op, err := Init(c, 1); err != nil || op.Nodes()[1].Eps != 0 {
		t.Errorf("an eps of 0 is one: %v", err)
	}
}
