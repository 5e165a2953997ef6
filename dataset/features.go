package dataset

import (
	"bufio"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/hdf5"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// distil writes the unit's file from what was measured of its states, [M,T] each, and from the
// initial condition [C,H,W].
func (p *Dataset) distil(u *Unit, job *rollout.Job, all *rollout.Measures) error {
	x0 := job.Start(0)
	size := []int{u.Rollout.Realizations, u.Rollout.Timesteps}
	about := u.about(p)
	maps.Copy(about, job.Metadata)
	shape := []int{u.Shape().C, u.Shape().H, u.Shape().W}
	path := p.place(u.Index)
	if filepath.Ext(path) == ".h5" {
		return named(path, featuresHDF5(path, size, shape, all, x0, about))
	}
	return named(path, featuresTensors(path, size, shape, all, x0, about))
}

func featuresTensors(
	path string, size, shape []int, all *rollout.Measures, x0 []float64, about map[string]string,
) error {
	tensors := []*safetensors.Tensor{{Name: "initial", DType: safetensors.F32, Shape: shape}}
	for _, name := range rollout.DiagnosticNames {
		tensors = append(tensors, &safetensors.Tensor{Name: "metrics." + name, DType: safetensors.F64, Shape: size})
	}
	head, err := safetensors.Header(tensors, about)
	if err != nil {
		return err
	}
	return disk.Replace(path, 0o666, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		b.Write(head) // an error stays with b
		b.Write(fp16.Float32.Append(nil, x0))
		for _, v := range all {
			b.Write(fp16.Float64.Append(nil, v))
		}
		return b.Flush()
	})
}

func featuresHDF5(path string, size, shape []int, all *rollout.Measures, x0 []float64, about map[string]string) error {
	specs := []hdf5.Spec{{Path: "/inputs/fields", Type: hdf5.Float32, Shape: append([]int{1}, shape...)}}
	for _, name := range rollout.DiagnosticNames {
		specs = append(specs, hdf5.Spec{Path: "/metrics/" + name, Type: hdf5.Float64, Shape: append([]int{1}, size...)})
	}
	return disk.ReplaceAlone(path, 0o666, func(f disk.File) error {
		w, err := hdf5.Create(f, specs)
		if err != nil {
			return err
		}
		if err := w.Write("/inputs/fields", []int{0, 0, 0, 0}, x0); err != nil {
			return err
		}
		for k, name := range rollout.DiagnosticNames {
			if err := w.Write("/metrics/"+name, []int{0, 0, 0}, all[k]); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(about)) {
			if err := w.Attr("/metadata", name, about[name]); err != nil {
				return err
			}
		}
		return w.Finish()
	})
}
