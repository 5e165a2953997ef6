package check

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/noise"
	"github.com/refrun/refrun/tensor"
)

// modelProbes are directed inputs: of number i of an input of floating-point numbers, whose draw of a normal
// distribution is z.
var modelProbes = []struct {
	name, what string
	of         func(i int, z float64) float64
}{
	{"integers", "whole numbers from -3 to 3: sums of them are exact",
		func(i int, z float64) float64 { return float64(max(-3, min(3, int(2*z)))) }},
	{"normal", "normal draws", func(i int, z float64) float64 { return z }},
	{"small", "normal draws, times 1e-4: a norm's eps rules", func(i int, z float64) float64 { return 1e-4 * z }},
	{"large", "normal draws, times 100: exp overflows in half without its maximum",
		func(i int, z float64) float64 { return 100 * z }},
	{"mean", "normal draws, plus 8: a variance as a difference of squares cancels",
		func(i int, z float64) float64 { return 8 + z }},
	{"impulses", "zeros, and 1 at every 101st number: each shows what it reaches", func(i int, z float64) float64 {
		if i%101 == 50 {
			return 1
		}
		return 0
	}},
	{"constant", "ones: padding and borders stand out", func(i int, z float64) float64 { return 1 }},
}

// probeModel writes inputs for a network, one file each, for a device to run.
func probeModel(c *cli.Command, m *model.Flags, out string) error {
	if err := m.Alone(c.Flags, "o"); err != nil {
		return err
	}
	if out == "" {
		return errors.New("-o: want the folder to write the probes to")
	}
	entries, err := disk.ReadDir(out)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("-o: %s: %w: want a folder that is new or empty", out, fault.Cause(err))
	case len(entries) > 0:
		return fmt.Errorf("-o: %s: holds %s: want a folder that is new or empty", out, cli.Plural(len(entries), "file"))
	}
	n, err := m.Read()
	if err != nil {
		return err
	}
	defer n.Close()
	b, _, err := n.Build(graph.Mode{Precision: fp16.Float32})
	if err != nil {
		return err
	}
	if err := disk.MkdirAll(out, 0o777); err != nil {
		return fmt.Errorf("-o: %s: %w: want a folder that can be made", out, fault.Cause(err))
	}
	var names, files []string
	for _, in := range n.Inputs {
		names = append(names, in.Name)
	}
	for k, probe := range modelProbes {
		in := make([]*tensor.Tensor, len(b.Types))
		for i, t := range b.Types {
			if in[i] = b.In[i]; t.Format == fp16.Int64 {
				if in[i] == nil {
					return fmt.Errorf("--input: %s: whole numbers: want them given", names[i])
				}
				continue
			}
			draws, err := noise.Counter{Seed: uint64(k + 1), Operator: uint32(i)}.At(1, 0, 1)
			if err != nil {
				return err
			}
			z := tensor.New(fp16.Float32, t.Shape...)
			if err := draws.Draw(noise.Normal, 0, []int{1, len(z.Data)}, z.Data); err != nil {
				return err
			}
			in[i] = tensor.New(t.Format, t.Shape...)
			for j, v := range z.Data {
				in[i].Data[j] = t.Format.Round(probe.of(j, v))
			}
		}
		path := filepath.Join(out, probe.name+".safetensors")
		if err := model.WriteOutputs(path, names, in); err != nil {
			return err
		}
		files = append(files, path)
	}
	if c.Json {
		return c.PrintJSON(struct {
			Files []string `json:"files"`
		}{files})
	}
	for k, f := range files {
		c.Printf("%s  %s\n", cli.Clean(f), modelProbes[k].what)
	}
	return nil
}
