package dataset

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/disk"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/safetensors"
)

// Merge writes all units into one safetensors file:
//
//	parameters        [N,P]          F64, the points of the unit cube
//	metrics.NAME      [N,M,T]        F64
//	trajectories      [N,M,T,C,H,W]  as the units store them
//
// It copies a piece at a time, so that memory does not grow with the dataset, and returns
// the SHA-256 of the file. All units must have been made, as safetensors files, and be of
// one size.
func (p *Plan) Merge(path string, progress func(done, total int)) (string, error) {
	if filepath.Ext(path) != ".safetensors" {
		return "", fmt.Errorf("%s: file type %q: want .safetensors", path, filepath.Ext(path))
	}
	if p.units.File != ".safetensors" {
		return "", fmt.Errorf("%s: files of the units: %s: want .safetensors, to merge them", p.Dir, p.units.File)
	}
	if missing := p.Missing(); len(missing) > 0 {
		return "", fmt.Errorf("%s: %d of %d units missing, the first is %d: want all of them", p.Dir, len(missing), len(p.Lines), missing[0])
	}
	shape, err := p.same()
	if err != nil {
		return "", err
	}
	n, store := len(p.Lines), p.units.Store
	all := []*safetensors.Tensor{{Name: "parameters", DType: safetensors.F64, Shape: []int{n, p.units.Sample.Dims}}}
	names := []string{}
	for _, name := range rollout.DiagnosticNames {
		names = append(names, "metrics."+name)
		all = append(all, &safetensors.Tensor{Name: "metrics." + name, DType: safetensors.F64, Shape: []int{n, shape[0], shape[1]}})
	}
	names = append(names, "trajectory")
	all = append(all, &safetensors.Tensor{Name: "trajectories", DType: safetensors.DTypeOf(store), Shape: append([]int{n}, shape...)})
	head, err := safetensors.Header(all, map[string]string{"dataset": p.Identity, "name": p.Name, "contract": p.Contract})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	var broken error // of a unit; others are of the file that is written
	err = disk.Replace(path, 0o666, func(w io.Writer) error {
		b := bufio.NewWriterSize(io.MultiWriter(w, h), 1<<20)
		b.Write(head)
		for i := range n {
			u, err := p.Unit(i)
			if err != nil {
				broken = err
				return err
			}
			b.Write(fp16.Float64.Append(nil, u.Point))
		}
		for k, name := range names {
			for i := range n {
				if err := p.copy(b, i, name); err != nil {
					broken = err
					return err
				}
				if progress != nil {
					progress(k*n+i+1, len(names)*n)
				}
			}
		}
		return b.Flush()
	})
	switch {
	case broken != nil:
		return "", broken
	case err != nil:
		return "", fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// same returns the one shape [M,T,C,H,W] of all units.
func (p *Plan) same() ([]int, error) {
	var first []int
	for i := range p.Lines {
		u, err := p.Unit(i)
		if err != nil {
			return nil, err
		}
		s := u.Shape()
		dims := []int{u.Rollout.Realizations, u.Rollout.Timesteps, s.C, s.H, s.W}
		if first == nil {
			first = dims
		}
		if fmt.Sprint(dims) != fmt.Sprint(first) {
			return nil, fmt.Errorf("%s: unit %d: [M,T,C,H,W] %v: want %v, those of unit 0, to merge them", p.Dir, i, dims, first)
		}
	}
	return first, nil
}

// copy writes the bytes of a tensor of a unit's file.
func (p *Plan) copy(w io.Writer, i int, name string) error {
	path := filepath.Join(p.Dir, filepath.FromSlash(p.Path(i)))
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	file, err := safetensors.ParseAt(path, f, size)
	if err != nil {
		return err
	}
	t, err := file.Tensor(name)
	if err != nil {
		return err
	}
	at, n := t.Place()
	if _, err := io.Copy(w, io.NewSectionReader(f, at, n)); err != nil {
		return fmt.Errorf("%s: %w", path, fault.Cause(err))
	}
	return nil
}
