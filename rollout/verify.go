package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/safetensors"
)

// Verdict is what [Verify] found of one file.
type Verdict struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	// Sealed says that the file speaks of its own bytes; of one that does not nothing
	// could be verified.
	Sealed bool   `json:"sealed"`
	Kind   string `json:"kind,omitempty"`   // trajectory, tape or case
	States int    `json:"states,omitempty"` // or steps of a tape, or files of a case
	Digest string `json:"digest,omitempty"` // of the states as they are stored, formed from them
	Format string `json:"format,omitempty"` // of the stored states
	// Seal is the SHA-256 of all other bytes of the file, of a trajectory in a .safetensors or an
	// HDF5 file but for those of the states, of which it covers the digest: see docs/FORMATS.md.
	Seal string `json:"seal,omitempty"`
	// Error is why it cannot be verified, "" if it can; Verify itself returns it as an error.
	Error string `json:"error,omitempty"`
	// Differ lists what is not as it was written, the first of them.
	Differ []string `json:"differ,omitempty"`
}

// Verify reads a finished output or tape and compares its bytes with what it says of
// them; of the folder of a case, its files with its SHA256SUMS. What cannot be read, or
// is no file of this project, is an error. It takes memory for 48 bytes a state at most.
func Verify(path string) (*Verdict, error) {
	if info, err := disk.Stat(path); err == nil && info.IsDir() {
		return verifyCase(path)
	}
	v := &Verdict{File: path}
	s, close, err := openSealed(path)
	if errors.Is(err, errNoSeal) {
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	defer close()
	v.Sealed, v.Kind, v.States = true, "tape", s.count[0]*s.count[1]
	d := s.newDigest()
	if d != nil {
		v.Kind, v.Format = "trajectory", s.format.String()
	}
	b, err := s.check(d)
	if err != nil {
		return nil, err
	}
	v.Differ = s.differences(b)
	if v.OK = len(v.Differ) == 0; v.OK {
		v.Seal = s.seal.hex()
		if d != nil {
			v.Digest = d.Hex()
		}
	}
	return v, nil
}

// checkSealed reports a safetensors file that is not as it was written, if it speaks of
// its own bytes.
func checkSealed(file *safetensors.File, f io.ReaderAt, size int64) error {
	s, err := sealedOf(file, f, size)
	if errors.Is(err, errNoSeal) {
		return nil
	}
	if err != nil {
		return err
	}
	var d *Digest
	if s.crc { // without it a SHA-256 of the states is missing
		d = s.newDigest()
	}
	b, err := s.check(d)
	if all := s.differences(b); err == nil && len(all) > 0 {
		err = fmt.Errorf("%s: %s: not what was written: want the file as the run that made it left it", file.Path, all[0])
	}
	return err
}

// newDigest returns an empty digest of a trajectory's states as they are stored.
func (s *sealed) newDigest() *Digest {
	if s.digest == nil {
		return nil
	}
	t := s.shape
	return NewDigest(s.format, t.M, t.T, t.State...)
}

// differences words what differs.
func (s *sealed) differences(b broken) (all []string) {
	for _, i := range b.records {
		if s.digest == nil {
			all = append(all, fmt.Sprintf("engine batch %d, step %d: the draws or their hash", i/s.count[1], i%s.count[1]+1))
		} else {
			all = append(all, s.call(i)+": the state, its diagnostics or their hash")
		}
	}
	if b.more > 0 {
		all = append(all, fmt.Sprintf("and %d more", b.more))
	}
	return append(all, b.parts...)
}

// complete checks an output that is there under its final name: that it is of this run,
// and as it was written; the tape as well. It returns the digest of the states as they
// are stored, and the seal.
func (j *Job) complete(s Trajectory) (digest, seal string, err error) {
	digest, seal, err = j.own(j.Path, func(f *sealed) error {
		switch stored := storedFormat(j.Path, j.Store); {
		case f.digest == nil:
			return foreign(j.Path, "file", "a tape", "a trajectory")
		case !slices.Equal(f.shape.dims(), s.dims()):
			return foreign(j.Path, "trajectory shape", f.shape.dims(), s.dims())
		case f.format != stored:
			return foreign(j.Path, "trajectory type", f.format, stored)
		}
		return nil
	})
	if err == nil && j.Record != "" {
		_, _, err = j.own(j.Record, func(f *sealed) error {
			if f.digest != nil {
				return foreign(j.Record, "file", "a trajectory", "a tape")
			}
			return nil
		})
	}
	return digest, seal, err
}

// own checks one finished file of the job.
func (j *Job) own(path string, is func(*sealed) error) (digest, seal string, err error) {
	f, close, err := openSealed(path)
	if errors.Is(err, errNoSeal) {
		return "", "",
			fmt.Errorf("%w and nothing says which run made it: want the output of this run; --force overwrites it", err)
	}
	if err != nil {
		return "", "", err
	}
	defer close()
	if err := j.identical(path, f.metadata[identityKey]); err != nil {
		return "", "", err
	}
	if err := is(f); err != nil {
		return "", "", err
	}
	d := f.newDigest()
	b, err := f.check(d)
	if err != nil {
		return "", "", err
	}
	if all := f.differences(b); len(all) > 0 {
		return "", "", fmt.Errorf(
			"%s: %s: not what was written: want the file as the run left it; --force makes it again", path, all[0],
		)
	}
	if d != nil {
		digest = d.Hex()
	}
	return digest, f.seal.hex(), nil
}

// identical compares the identity in a complete output with the job's.
func (j *Job) identical(path, text string) error {
	if text == "" {
		return fmt.Errorf("%s: metadata %s: missing: want the output of this run; --force overwrites it", path, identityKey)
	}
	var was [][2]string
	if err := json.Unmarshal([]byte(text), &was); err != nil {
		return fmt.Errorf("%s: metadata %s: not a JSON array of names and values: want the output of this run; "+
			"--force overwrites it", path, identityKey)
	}
	if d := differ("finished", was, j.Identity); d != "" {
		return fmt.Errorf("%s: %s: want the same run, another name, or --force to overwrite it", path, d)
	}
	return nil
}

// foreign reports a part of a complete output that is not what the job writes.
func foreign(path, what string, is, want any) error {
	return fmt.Errorf("%s: %s %v: want %v, as this run writes it; --force overwrites it", path, what, is, want)
}

// storedFormat returns the format in which a file holds states that are stored as f.
func storedFormat(path string, f fp16.Format) fp16.Format {
	switch ext := filepath.Ext(path); {
	case ext == ".h5", ext == ".hdf5":
		return storedHDF5(f)
	case f == fp16.TF32:
		return fp16.Float32
	}
	return f
}
