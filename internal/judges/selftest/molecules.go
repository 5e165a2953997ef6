package selftest

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/molecule"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// molecules returns cases of energies and forces: three molecules side by side, of each network in
// each precision.
func molecules() []Case {
	var all []Case
	for _, kind := range []molecule.Kind{molecule.PaiNN, molecule.PaiNNFilter, molecule.SchNet} {
		for _, precision := range []string{"float64", "float32", "tf32", "float16", "bfloat16"} {
			all = append(all, Case{"molecule-" + string(kind) + "/" + precision, func(int) (string, error) {
				mode, err := graph.ParseMode(precision, "")
				if err != nil {
					return "", err
				}
				m, err := network(kind)
				if err != nil {
					return "", err
				}
				r, err := m.Evaluator(mode).Evaluate(m.Batch(atoms()...))
				if err != nil {
					return "", err
				}
				return hashed(mode.Wide(), slices.Concat(r.Energies, r.AtomEnergies, r.Forces)), nil
			}})
		}
	}
	return all
}

// network returns one of two layers, whose weights are normals over the root of what they add.
func network(kind molecule.Kind) (*molecule.Model, error) {
	sizes := molecule.Sizes{Elements: 10, Hidden: 8, Radial: 5, Layers: 2}
	shapes := sizes.Weights(kind)
	var all []*safetensors.Tensor
	for site, name := range slices.Sorted(maps.Keys(shapes)) {
		shape := shapes[name]
		v := normals(400+site, tensor.Size(shape))
		for i := range v {
			switch name {
			case "rbf.centers", "distance_expansion.offset":
				v[i] = float64(i)
			case "rbf.widths":
				v[i] = 1
			default:
				v[i] = fp16.Float32.Round(v[i] / math.Sqrt(float64(shape[len(shape)-1])))
			}
		}
		t, err := safetensors.OfFloat64s(name, safetensors.F32, shape, v)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, all, nil); err != nil {
		return nil, err
	}
	f, err := safetensors.Parse("selftest", b.Bytes())
	if err != nil {
		return nil, err
	}
	return molecule.New(molecule.Config{Kind: kind, Cutoff: 4}, sizes, f)
}

// atoms returns molecules of 7, 2 and 12 atoms near the points of a lattice, 1.5 apart.
func atoms() []*molecule.Molecule {
	var all []*molecule.Molecule
	for k, n := range []int{7, 2, 12} {
		m := new(molecule.Molecule)
		away := normals(500+k, 3*n)
		for i := range n {
			m.Numbers = append(m.Numbers, 1+(5*i+k)%9)
			for c, at := range []int{i % 3, i / 3 % 3, i / 9} {
				m.Positions = append(m.Positions, fp16.Float32.Round(float64(1.5*float64(at))+float64(away[3*i+c]/8)))
			}
		}
		all = append(all, m)
	}
	return all
}
