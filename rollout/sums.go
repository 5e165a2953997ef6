package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// sumsFile is the file of a case folder that holds the SHA-256 of the others, a line
// "HASH  NAME" for each, as sha256sum writes them.
const sumsFile = "SHA256SUMS"

// listedSum is a line of it.
type listedSum struct {
	name string
	sum  sum
}

// readSums reads the hashes of a folder; none if it has no such file. dir is what
// messages call the folder.
func readSums(fsys fs.FS, dir string) ([]listedSum, error) {
	as := path.Join(dir, sumsFile)
	data, err := readFile(fsys, sumsFile, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want lines of a SHA-256 and a name", as, fault.Cause(err))
	}
	var all []listedSum
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		digits, name, ok := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
		if ok && name != "" && (name[0] == ' ' || name[0] == '*') { // text or binary
			name = name[1:]
		}
		b, err := hex.DecodeString(digits)
		if !ok || err != nil || len(b) != sha256.Size || !fs.ValidPath(name) || name == sumsFile || seen[name] {
			return nil, fmt.Errorf("%s:%d: %s: want a SHA-256 in hexadecimal, "+
				"two spaces and the name of a file of the folder, each once", as, i+1, fault.Text(line))
		}
		seen[name] = true
		all = append(all, listedSum{name, sum(b)})
	}
	return all, nil
}

// sumOf returns the SHA-256 of a file.
func sumOf(fsys fs.FS, name string) (s sum, err error) {
	info, err := fs.Stat(fsys, name)
	if err == nil && !info.Mode().IsRegular() {
		err = irregular(info)
	}
	if err != nil {
		return s, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return s, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return s, err
	}
	h.Sum(s[:0])
	return s, nil
}

// checkSums reports the first file of a folder that is not the one that its SHA256SUMS
// lists.
func checkSums(fsys fs.FS, dir string) error {
	all, err := readSums(fsys, dir)
	if err != nil {
		return err
	}
	for _, l := range all {
		is, err := sumOf(fsys, l.name)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w: want the file that %s lists", path.Join(dir, l.name), fault.Cause(err), sumsFile)
		case is != l.sum:
			return fmt.Errorf("%s: SHA-256 %x...: want %x..., as %s says (remove it if the file was meant to change)",
				path.Join(dir, l.name), is[:6], l.sum[:6], sumsFile)
		}
	}
	return nil
}

// verifyCase compares the files of a case folder with its SHA256SUMS.
func verifyCase(dir string) (*Verdict, error) {
	fsys := disk.Dir(dir)
	v := &Verdict{File: dir}
	if _, err := fs.Stat(fsys, "case.json"); err != nil {
		return nil, fmt.Errorf("%s: %w: want a case folder with a case.json", path.Join(dir, "case.json"), fault.Cause(err))
	}
	all, err := readSums(fsys, dir)
	if err != nil || all == nil {
		return v, err
	}
	v.Sealed, v.Kind, v.States = true, "case", len(all)
	for _, l := range all {
		is, err := sumOf(fsys, l.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			v.Differ = append(v.Differ, l.name+": missing")
		case err != nil:
			return nil, fmt.Errorf("%s: %w: want a file that can be read", path.Join(dir, l.name), fault.Cause(err))
		case is != l.sum:
			v.Differ = append(v.Differ, l.name)
		}
	}
	v.OK = len(v.Differ) == 0
	return v, nil
}
