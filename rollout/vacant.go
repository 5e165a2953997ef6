package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
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

// exists reports a file, or a link, even one to nothing: it is in the way, too. What
// cannot be looked at is not missing.
func exists(path string) bool {
	_, err := disk.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// absent returns an error if there is a file, and what to do about it.
func absent(path, what string) error {
	_, err := disk.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w: want a place to write to", path, fault.Cause(err))
	}
	return fmt.Errorf("%s: %s", path, what)
}

// vacant reports files of other runs in the way of the job's, and holds its own.
func (j *Job) vacant(ck string) error {
	if j.Measured == nil && !slices.Contains(extensions, filepath.Ext(j.Path)) {
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
	if err := apart(j.names()); err != nil {
		return err
	}
	for _, p := range files {
		if info, err := disk.Stat(p); err == nil && !info.Mode().IsRegular() {
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
			return fmt.Errorf("%s: missing, and %s is complete: "+
				"want the tape that was recorded with it, or --force to run again", j.Record, j.Path)
		case !exists(j.Path):
			return absent(j.Record, "exists: want --force to overwrite it, or another name")
		}
		return nil
	}
	for _, p := range append([]string{ck}, files...) {
		if p != ck {
			p = partial(p)
		}
		if err := absent(p,
			"left by an unfinished run: want --resume to continue it, or --force to begin again"); err != nil {
			return err
		}
	}
	if filepath.Ext(j.Path) == ".npy" {
		files = append(files, sumsPath(j.Path))
	}
	for _, p := range files {
		if err := absent(p, "exists: want --force to overwrite it, another name, or --resume"); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names of all files that the job may write.
func (j *Job) names() []string {
	all := []string{j.Path, partial(j.Path), j.Path + ".resume"}
	switch filepath.Ext(j.Path) {
	case ".npy":
		all = append(all, sumsPath(j.Path))
	case ".npz":
		all = append(all, partial(j.Path)+".npz")
	}
	if j.Record != "" {
		all = append(all, j.Record, partial(j.Record))
	}
	return all
}

// apart reports two files of one name: one would be written over the other.
func apart(names []string) error {
	seen := map[string]bool{}
	for _, n := range names {
		n = filepath.Clean(n)
		if seen[n] {
			return fmt.Errorf("%s: two of the run's files: want a tape of another name, in another folder perhaps", n)
		}
		seen[n] = true
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
			return fmt.Sprintf("%s: the %s run had none, this one has %.100q", p[0], earlier, p[1])
		case v != p[1]:
			return fmt.Sprintf("%s: the %s run had %.100q, this one has %.100q", p[0], earlier, v, p[1])
		}
		delete(old, p[0])
	}
	for _, p := range was {
		if v, ok := old[p[0]]; ok {
			return fmt.Sprintf("%s: the %s run had %.100q, this one has none", p[0], earlier, v)
		}
	}
	return ""
}

// metricNames returns the names of the diagnostics' arrays.
func metricNames() []string {
	var all []string
	for _, name := range DiagnosticNames {
		all = append(all, "metrics."+name)
	}
	return all
}
