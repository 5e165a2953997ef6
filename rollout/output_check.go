package rollout

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/fault"
	"github.com/refrun/refrun/internal/hdf5"
	"github.com/refrun/refrun/internal/npy"
)

// identityKey is the metadata under which an output keeps the identity of its
// run: a JSON array of [name,value].
const identityKey = "identity"

// metadata returns what is written into formats that can hold it.
func (j *Job) metadata() (map[string]string, error) {
	all := map[string]string{}
	for k, v := range j.Metadata {
		all[k] = v
	}
	b, err := json.Marshal(j.Identity)
	all[identityKey] = string(b)
	return all, err
}

// exists reports a file, or a link, even one to nothing: it is in the way, too.
func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// vacant reports files of other runs in the way of the job's, and holds its own.
func (j *Job) vacant(ck string) error {
	if !slices.Contains(extensions, filepath.Ext(j.Path)) {
		return j.badType()
	}
	if j.Resume && j.Force {
		return errors.New("--resume and --force: want one of them")
	}
	files := []string{j.Path}
	if j.Record != "" {
		files = append(files, j.Record)
		if filepath.Clean(j.Record) == filepath.Clean(j.Path) {
			return fmt.Errorf("%s: both the output and the tape: want two files", j.Path)
		}
	}
	for _, p := range files {
		if info, err := os.Stat(p); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %s: want a regular file, or none", p, fault.Kind(info.Mode()))
		}
		if err := j.hold(p); err != nil {
			return err
		}
	}
	switch {
	case j.Force:
		return nil
	case j.Resume:
		// A run that has an output has, or will have, its tape; one that has not
		// even begun does not resume another one's.
		switch begun := exists(partial(j.Path)); {
		case j.Record == "" || begun:
		case exists(j.Path) && !exists(j.Record):
			return fmt.Errorf("%s: missing, and %s is complete: want the tape that was recorded with it, or --force to run again", j.Record, j.Path)
		case !exists(j.Path) && exists(j.Record):
			return fmt.Errorf("%s: exists: want --force to overwrite it, or another name", j.Record)
		}
		return nil
	}
	for _, p := range append([]string{ck}, files...) {
		if p != ck {
			p = partial(p)
		}
		if exists(p) {
			return fmt.Errorf("%s: left by an unfinished run: want --resume to continue it, or --force to begin again", p)
		}
	}
	for _, p := range files {
		if exists(p) {
			return fmt.Errorf("%s: exists: want --force to overwrite it, another name, or --resume", p)
		}
	}
	return nil
}

// differ names the first difference of two identities, that of an earlier run,
// which is called unfinished or finished, and this one's; "" if there is none.
func differ(earlier string, was, is [][2]string) string {
	old := map[string]string{}
	for _, p := range was {
		old[p[0]] = p[1]
	}
	for _, p := range is {
		v, ok := old[p[0]]
		switch {
		case !ok:
			return fmt.Sprintf("%s: the %s run had none, this one has %q", p[0], earlier, p[1])
		case v != p[1]:
			return fmt.Sprintf("%s: the %s run had %q, this one has %q", p[0], earlier, v, p[1])
		}
		delete(old, p[0])
	}
	for _, p := range was {
		if v, ok := old[p[0]]; ok {
			return fmt.Sprintf("%s: the %s run had %q, this one has none", p[0], earlier, v)
		}
	}
	return ""
}

// check reports a complete output that another run left: the first difference
// of their identities, or, for .npy and .npz, which hold none, of shape and
// type. It reads no elements.
func (j *Job) check(s Trajectory) error {
	switch filepath.Ext(j.Path) {
	case ".safetensors":
		return j.checkSafetensors(s)
	case ".h5", ".hdf5":
		return j.checkHDF5(s)
	case ".npy":
		return j.checkNpy(s)
	case ".npz":
		return j.checkNpz(s)
	}
	return j.badType()
}

// identical compares the identity in a complete output with the job's.
func (j *Job) identical(text string) error {
	if text == "" {
		return fmt.Errorf("%s: metadata %s: missing: want the output of this run; --force overwrites it", j.Path, identityKey)
	}
	var was [][2]string
	if err := json.Unmarshal([]byte(text), &was); err != nil {
		return fmt.Errorf("%s: metadata %s: not a JSON array of names and values: want the output of this run; --force overwrites it", j.Path, identityKey)
	}
	if d := differ("finished", was, j.Identity); d != "" {
		return fmt.Errorf("%s: %s: want the same run, another name, or --force to overwrite it", j.Path, d)
	}
	return nil
}

// foreign reports a part of a complete output that is not what the job writes.
func (j *Job) foreign(what string, is, want any) error {
	return fmt.Errorf("%s: %s %v: want %v, as this run writes it; --force overwrites it", j.Path, what, is, want)
}

// checkSafetensors compares the header, which holds everything but the
// elements: the same run writes the same bytes.
func (j *Job) checkSafetensors(s Trajectory) error {
	metadata, err := j.metadata()
	if err != nil {
		return err
	}
	o, want, err := layOutSafetensors(partialFile{path: j.Path}, s, j.Store, metadata)
	if err != nil {
		return err
	}
	f, size, err := fault.OpenRegular(j.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	var length [8]byte
	if _, err := io.ReadFull(f, length[:]); err != nil {
		return j.foreign("file of bytes", size, o.size())
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > uint64(size-8) {
		return j.foreign("header length", n, len(want)-8)
	}
	// No more than 100 MB, as the format says, is read of any header.
	text := make([]byte, min(n, 100_000_000))
	if _, err := io.ReadFull(f, text); err != nil {
		return fmt.Errorf("%s: %w", j.Path, fault.Cause(err))
	}
	var header struct {
		Metadata map[string]string `json:"__metadata__"`
	}
	if err := json.Unmarshal(text, &header); err != nil {
		return j.foreign("header", "not JSON", "a JSON object")
	}
	if err := j.identical(header.Metadata[identityKey]); err != nil {
		return err
	}
	if !bytes.Equal(text, want[8:]) {
		return j.foreign("header", "of other tensors or metadata", fmt.Sprintf("trajectory %v in %v", s.dims(), j.Store))
	}
	if size != o.size() {
		return j.foreign("file of bytes", size, o.size())
	}
	return nil
}

func (j *Job) checkHDF5(s Trajectory) error {
	f, err := hdf5.Open(j.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := f.Attr("/metadata", identityKey)
	if err != nil {
		v = ""
	}
	text, _ := v.(string)
	if err := j.identical(text); err != nil {
		return err
	}
	d, err := f.Dataset("/trajectories")
	if err != nil {
		return err
	}
	if want := append([]int{1}, s.dims()...); !slices.Equal(d.Shape, want) {
		return j.foreign("/trajectories shape", d.Shape, want)
	}
	if want := hdf5.TypeOf(j.Store); d.Type != want {
		return j.foreign("/trajectories type", d.Type, want)
	}
	return nil
}

func (j *Job) checkNpy(s Trajectory) error {
	f, size, err := fault.OpenRegular(j.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	return j.sameArray("", f, size, j.Store, s.dims())
}

func (j *Job) checkNpz(s Trajectory) error {
	f, size, err := fault.OpenRegular(j.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zip.NewReader(f, size)
	if err != nil {
		return j.foreign("file", "no zip archive", "an archive of arrays")
	}
	for _, name := range append(metricNames(), "trajectory") {
		format, shape := fp16.Float64, []int{s.M, s.T}
		if name == "trajectory" {
			format, shape = j.Store, s.dims()
		}
		i := slices.IndexFunc(z.File, func(e *zip.File) bool { return e.Name == name+".npy" })
		if i < 0 {
			return j.foreign("array "+name, "missing", shape)
		}
		e := z.File[i]
		at, err := e.DataOffset()
		if err != nil || e.Method != zip.Store || at < 0 || e.CompressedSize64 > uint64(size-min(at, size)) {
			return j.foreign("array "+name, "compressed or cut short", "a stored one")
		}
		n := int64(e.CompressedSize64)
		if err := j.sameArray(name+" ", io.NewSectionReader(f, at, n), n, format, shape); err != nil {
			return err
		}
	}
	return nil
}

// sameArray compares the header of a .npy file of size bytes with the one that
// the job writes.
func (j *Job) sameArray(name string, r io.ReaderAt, size int64, f fp16.Format, shape []int) error {
	is, err := npy.Parse(j.Path, r, size)
	if err != nil {
		return err
	}
	head, err := npyHead(f, shape)
	if err != nil {
		return err
	}
	n := int64(f.Bytes())
	for _, d := range shape {
		n *= int64(d)
	}
	want, err := npy.Parse(j.Path, bytes.NewReader(head), int64(len(head))+n)
	switch {
	case err != nil:
		return err
	case !slices.Equal(is.Shape, want.Shape):
		return j.foreign(name+"shape", is.Shape, want.Shape)
	case is.DType != want.DType || is.FortranOrder:
		return j.foreign(name+"type", is.DType, want.DType)
	}
	return nil
}

// metricNames returns the names of the diagnostics' arrays.
func metricNames() []string {
	var all []string
	for _, name := range DiagnosticNames {
		all = append(all, "metrics."+name)
	}
	return all
}
