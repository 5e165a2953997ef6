package rollout

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
)

// npyOutput is a .npy output: the trajectory [M,T,C,H,W] and nothing else. numpy has no
// bfloat16: its numbers are stored as their bits, <u2. The hashes stand behind the array
// while the run is under way, and end in a file beside it, as does what other formats
// hold as metadata.
type npyOutput struct {
	*flat
	metadata map[string]string
}

func createNpy(
	at partialFile, s Trajectory, c Config, f fp16.Format, metadata map[string]string, state []byte,
) (trajectory, error) {
	head, err := npyHead(f, s.dims())
	if err != nil {
		return nil, err
	}
	o := npyOutput{newFlat(at, s, c, f, head, true, false), metadata}
	if state != nil {
		// A process that died while it finished had cut the hashes off already.
		if err := o.openFile(true); err != nil {
			return nil, err
		}
		if is, err := o.f.Stat(); err == nil && is.Size() == o.table {
			if err := o.f.Truncate(o.size()); err != nil {
				return o, o.failed(err)
			}
		}
	}
	return o, o.begin(state)
}

// npyHead returns what stands before the elements of an array.
func npyHead(f fp16.Format, shape []int) ([]byte, error) {
	var head bytes.Buffer
	_, err := npy.NewWriter(&head, f, shape)
	return head.Bytes(), err
}

// Finish implements [Output]. The array gets its name last.
func (o npyOutput) Finish() error {
	if err := o.audit(); err != nil {
		return err
	}
	if err := o.writeSums(); err != nil {
		return err
	}
	if err := o.f.Truncate(o.table); err != nil {
		return o.failed(err)
	}
	if err := o.sync(o.table); err != nil {
		return err
	}
	if err := o.publish(partial(o.path)); err != nil {
		return err
	}
	return o.Close()
}

// sumsPath returns the name of the file of hashes beside a .npy file.
func sumsPath(path string) string { return path + ".sha256" }

// writeSums writes the file of hashes, whole or not at all:
//
//	# refrun 1
//	# trajectory [M,T,C,H,W] in FORMAT
//	# metadata {"identity": ..., ...}
//	# digest HASH of all states
//	#  m  t HASH of state t of realization m
//	HASH  NAME.npy
//	# seal HASH of the lines before
//
// The line without # is what sha256sum -c reads.
func (o npyOutput) writeSums() error {
	whole, err := rest(partial(o.path), o.f, o.table, nil)
	if err != nil {
		return err
	}
	meta, err := json.Marshal(o.metadata)
	if err != nil {
		return err
	}
	r, line := o.records(), sumsLine(o.shape.M, o.shape.T)
	err = disk.Replace(sumsPath(o.path), 0o644, func(to io.Writer) error {
		seal := sha256.New()
		w := bufio.NewWriterSize(io.MultiWriter(to, seal), 1<<16)
		fmt.Fprintf(w, "%s\n# trajectory %s in %v\n# metadata %s\n# digest %s\n",
			sumsBegin, fault.Dims(o.shape.dims()), o.format, meta, o.digest.Hex())
		for i := range o.shape.M * o.shape.T {
			s, err := r.listed(i)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, line, i/o.shape.T, i%o.shape.T, s[:])
		}
		fmt.Fprintf(w, "%x  %s\n", whole[:], filepath.Base(o.path))
		if err := w.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(to, "%s%x\n", sumsSeal, seal.Sum(nil))
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", sumsPath(o.path), fault.Cause(err))
	}
	return nil
}

const (
	sumsBegin = "# refrun 1"
	sumsSeal  = "# seal "
)

// sumsLine is the line of one state; all are of one length.
func sumsLine(m, t int) string {
	digits := func(n int) int { return len(fmt.Sprint(n - 1)) }
	return fmt.Sprintf("# %%%dd %%%dd %%x\n", digits(m), digits(t))
}

// npz is a .npz output: trajectory and metrics.<name>, as in a safetensors
// output, and metadata as bytes of JSON. Its partial file is flat; Finish packs it. The
// seal stands in the archive's comment.
type npz struct {
	*flat
	metadata map[string]string
}

// packSize is how many bytes are packed at a time.
const packSize = 1 << 16

func (o npz) held() int64 { return o.flat.held() + packSize }

func createNpz(
	at partialFile, s Trajectory, c Config, f fp16.Format, metadata map[string]string, state []byte,
) (trajectory, error) {
	o := npz{newFlat(at, s, c, f, nil, false, false), metadata}
	return o, o.begin(state)
}

// npzSeal begins the comment; the seal follows, in hexadecimal.
const npzSeal = "refrun seal "

// Finish implements [Output]. The archive is written beside the partial file
// and gets the final name when it is whole and was read again; a process that dies in
// between finds the partial file as it was.
func (o npz) Finish() (err error) {
	if err := o.sync(o.size()); err != nil {
		return err
	}
	packed := partial(o.path) + ".npz"
	out, err := disk.CreateNew(packed)
	if err != nil {
		return o.failed(err)
	}
	defer func() {
		out.Close()
		if err != nil {
			disk.Remove(packed)
		}
	}()
	if err := o.packAll(out); err != nil {
		return o.failed(err)
	}
	info, err := out.Stat()
	if err != nil {
		return o.failed(err)
	}
	z, err := parseNpz(partial(o.path), out, info.Size())
	if err != nil {
		return err
	}
	z.prints = o.prints
	if err := z.auditTable(o.ord, o.ledger); err != nil {
		return err
	}
	if err := z.audit(); err != nil {
		return err
	}
	s, err := rest(packed, out, info.Size(), z.kept)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(io.NewOffsetWriter(out, z.sealAt.at), "%x", s[:]); err != nil {
		return o.failed(err)
	}
	if err := out.Sync(); err != nil {
		return o.failed(err)
	}
	if err := o.kept(o.size()); err != nil {
		return err
	}
	if err := o.publish(packed); err != nil {
		return err
	}
	if err := o.Close(); err != nil {
		return err
	}
	return remove(partial(o.path))
}

// packAll writes the archive.
func (o npz) packAll(out disk.File) error {
	z := npy.NewArchiveWriter(out, false)
	m, t := o.shape.M, o.shape.T
	pack := func(name, descr string, shape []int, at, n int64) error {
		return z.Copy(name, descr, shape, io.NewSectionReader(o.f, at, n))
	}
	for k, name := range DiagnosticNames {
		if err := pack("metrics."+name, npy.TypeOf(fp16.Float64), []int{m, t}, o.metrics[k], 8*o.shape.states()); err != nil {
			return err
		}
	}
	if err := pack("trajectory", npy.TypeOf(o.format), o.shape.dims(), o.at, o.table-o.at); err != nil {
		return err
	}
	if err := pack(tableName, "|u1", []int{m, t, sha256.Size}, o.table, sha256.Size*o.shape.states()); err != nil {
		return err
	}
	meta, err := json.Marshal(o.metadata)
	if err != nil {
		return err
	}
	if err := z.Copy(digestName, "|u1", []int{sha256.Size}, bytes.NewReader(o.digest.sum())); err != nil {
		return err
	}
	if err := z.Copy("metadata", "|u1", []int{len(meta)}, bytes.NewReader(meta)); err != nil {
		return err
	}
	if err := z.Comment(npzSeal + fmt.Sprintf("%x", make([]byte, sha256.Size))); err != nil {
		return err
	}
	return z.Close()
}
