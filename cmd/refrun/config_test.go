package main

import (
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
)

func TestConfig(t *testing.T) {
	cs, err := files.ParseConfig("run.yaml", []byte(clitest.GoodConfig))
	if err != nil || cs.Operator.BaseChannels != 2 || cs.Rollout.Timesteps != 3 || cs.Operator.NoiseScale != 0.01 ||
		*cs.Rollout.Clamp != [2]float64{-3, 3} {
		t.Fatalf("read as %+v, %v", cs, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"grid_size", "gridsize", "run.yaml:2: operator.gridsize: unknown key: did you mean grid_size? want one of "},
		{"num_timesteps: 3", "num_timesteps: three", `run.yaml:4: rollout.num_timesteps: "three": want an integer`},
		{"num_timesteps: 3", "num_timesteps: 3\n  num_timesteps: 4",
			"run.yaml:5: rollout.num_timesteps: given twice, first on line 4"},
		{"[-3, 3]", "[3, -3]", "run.yaml:6: rollout.clamp_range: "},
		{"[-3, 3]", "&a [*a]", "run.yaml:"},
		{"weights_seed: 1", "weights_seed: [1", "run.yaml: "},
		{"weights_seed: 1", "weights_seed: 1\n---\na: 1", "run.yaml: text after the first document"},
		{clitest.GoodConfig, "", "run.yaml: empty"},
		{clitest.GoodConfig, "[1]", "run.yaml:1: not an object: want one with operator and rollout"},
		{clitest.GoodConfig, "# nothing\n42", "run.yaml:2: not an object: want one with operator and rollout"},
		{clitest.GoodConfig, "null", "run.yaml: empty: want operator and rollout"},
		{clitest.GoodConfig, "--- ~ # nothing", "run.yaml: empty: want operator and rollout"},
		{clitest.GoodConfig, "%YAML 2.0\n---\n" + clitest.GoodConfig, "run.yaml: %YAML: another version: want 1.1 or 1.2"},
		{"num_timesteps: 3", "num_timesteps: 3.0", "run.yaml:4: rollout.num_timesteps: 3.0: want an integer"},
		{"num_timesteps: 3", "num_timesteps: 3e0", "run.yaml:4: rollout.num_timesteps: 3e0: want an integer"},
		{"num_timesteps: 3", "num_timesteps: 010", "run.yaml:4: rollout.num_timesteps: 010: want a decimal number"},
		{"num_timesteps: 3", "num_timesteps: 08", "run.yaml:4: rollout.num_timesteps: 08: want a decimal number"},
		{"num_timesteps: 3", "num_timesteps: 0x10", "run.yaml:4: rollout.num_timesteps: 0x10: want a decimal number"},
		{"num_timesteps: 3", "num_timesteps: 1_0", "run.yaml:4: rollout.num_timesteps: 1_0: want a decimal number"},
		{"num_timesteps: 3", "num_timesteps: !!int null", "run.yaml:4: rollout.num_timesteps: null: want a decimal number"},
		{"num_timesteps: 3", "num_timesteps: .inf", "run.yaml:4: rollout.num_timesteps: .inf: want a number"},
		{"num_timesteps: 3", "num_timesteps: 99999999999999999999",
			"run.yaml:4: rollout.num_timesteps: 99999999999999999999: want an integer"},
		{"num_timesteps: 3", "num_timesteps: 2026-01-01", `run.yaml:4: rollout.num_timesteps: "2026-01-01": want an integer`},
		{"num_timesteps: 3", "num_timesteps: 3\n  \"\": 4", "run.yaml:5: rollout: unknown key"},
	} {
		_, err := files.ParseConfig("run.yaml", []byte(strings.Replace(clitest.GoodConfig, c.old, c.new, 1)))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q for %q: error %v, want one line beginning %q", c.new, c.old, err, c.want)
		}
	}
}

// TestConfigYAML: what is no JSON, and reads the same.
func TestConfigYAML(t *testing.T) {
	for _, c := range []struct{ old, new string }{
		{clitest.GoodConfig, "%YAML 1.1\n---" + clitest.GoodConfig},
		{clitest.GoodConfig, "%YAML 1.2\n---" + clitest.GoodConfig},
		{clitest.GoodConfig, "\ufeff# a comment\r\n\r\n%TAG !a! tag:a,2000:\r\n%YAML\t1.2 # the newer\r\n---" +
			clitest.GoodConfig + "..."},
		{"num_timesteps: 3", "num_timesteps: +3"},
		{"num_timesteps: 3", "'num_timesteps': !!int '3'"},
		{"noise_scale: 1.0e-2", "noise_scale: .01"},
		{"noise_scale: 1.0e-2", "noise_scale: +1.E-2"},
	} {
		cs, err := files.ParseConfig("run.yaml", []byte(strings.Replace(clitest.GoodConfig, c.old, c.new, 1)))
		if err != nil || cs.Operator.NoiseScale != 0.01 || cs.Rollout.Timesteps != 3 {
			t.Errorf("%q: read as %+v, %v", c.new, cs, err)
		}
	}
}

// TestConfigNodes: what is said of one object of a list names that object and its line.
func TestConfigNodes(t *testing.T) {
	const good = `
operator:
  grid_size: 8
  nodes:
  - {op: conv, name: a, out_channels: 4, kernel_size: 3}
  - {op: act, name: b, activation: gelu}
  - op: conv
    name: c
    out_channels: 3
    kernel_size: 3
rollout: {num_timesteps: 3, num_realizations: 2}
weights_seed: 1
`
	cs, err := files.ParseConfig("run.yaml", []byte(good))
	if err != nil || len(cs.Operator.Nodes) != 3 || cs.Operator.Nodes[2].Name != "c" {
		t.Fatalf("read as %+v, %v", cs, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"gelu", "jelu", "run.yaml:6: operator.nodes[1].activation: "},
		{"    kernel_size: 3\nrollout", "rollout", "run.yaml:7: operator.nodes[2].kernel_size: "},
		{"out_channels: 3", "out_channels: no", "run.yaml:9: operator.nodes[2].out_channels: "},
		{"name: a,", "name: a, name: b,", "run.yaml:5: operator.nodes[0].name: given twice, first on line 5"},
	} {
		_, err := files.ParseConfig("run.yaml", []byte(strings.Replace(good, c.old, c.new, 1)))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q for %q: error %v, want one beginning %q", c.new, c.old, err, c.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(clitest.GoodConfig))
	f.Add([]byte(`{"operator": {"num_layers": 1}, "rollout": null}`))
	f.Add([]byte("a: &x [1]\nb: [*x, *x]\n<<: *x"))
	f.Add([]byte("? [a]\n: b"))
	f.Add([]byte("operator: !!binary aGk=\nrollout: 0x_1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cs, err := files.ParseConfig("f.yaml", data)
		if (cs == nil || err != nil) && err == nil {
			t.Fatal("neither a case nor an error")
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f.yaml") {
			t.Fatalf("error %q does not name the file", err)
		}
	})
}
