package rollout

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/format/npy"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/tensor"
)

// parseNpy reads the file of hashes beside a .npy file.
func parseNpy(path string, f io.ReaderAt, size int64) (*sealed, error) {
	a, err := npy.Parse(path, f, size)
	if err != nil {
		return nil, err
	}
	sums, n, err := fault.OpenRegular(sumsPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no %s: %w", path, filepath.Base(sumsPath(path)), errNoSeal)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want a file that can be read", sumsPath(path), fault.Cause(err))
	}
	defer sums.Close()
	s := newSealed(path, f, size)
	return s, s.readSums(a, sums, n)
}

// readSums reads what [npyOutput] wrote. It is held in memory: 33 bytes and the numbers
// of each state.
func (s *sealed) readSums(a *npy.Array, r io.Reader, size int64) error {
	path := sumsPath(s.path)
	wrong := func(what string) error {
		return fmt.Errorf("%s: %s: want the hashes that were written with %s", path, what, filepath.Base(s.path))
	}
	seal := sha256.New()
	in := bufio.NewReaderSize(r, 1<<16)
	left := size
	line := func(prefix string) (string, error) {
		var b []byte
		for {
			part, err := in.ReadSlice('\n')
			if b = append(b, part...); err == bufio.ErrBufferFull && len(b) < 1<<24 {
				continue
			}
			if err != nil && err != io.EOF {
				return "", fmt.Errorf("%s: %w: want a file that can be read", path, fault.Cause(err))
			}
			if err != nil {
				return "", wrong(fmt.Sprintf("ends in a line that should begin with %q", prefix))
			}
			break
		}
		left -= int64(len(b))
		text, ok := strings.CutPrefix(string(b), prefix)
		if !ok {
			return "", wrong(fmt.Sprintf("a line that does not begin with %q", prefix))
		}
		if prefix != sumsSeal {
			seal.Write(b)
		}
		return strings.TrimSuffix(text, "\n"), nil
	}
	texts := map[string]string{}
	for _, prefix := range []string{sumsBegin, "# trajectory ", "# metadata ", "# digest "} {
		var err error
		if texts[prefix], err = line(prefix); err != nil {
			return err
		}
	}
	_, name, _ := strings.Cut(texts["# trajectory "], " in ")
	format, err := fp16.ParseFormat(name)
	if err != nil || npy.TypeOf(format) != a.DType || a.FortranOrder {
		return wrong(fmt.Sprintf("numbers of format %s for type %s", fault.Text(name), fault.Text(a.DType)))
	}
	s.format = format
	json.Unmarshal([]byte(texts["# metadata "]), &s.metadata)
	if s.digest, err = hex.DecodeString(texts["# digest "]); err != nil {
		return wrong("a digest that is no hexadecimal number")
	}
	if len(a.Shape) < 3 || slices.Min(a.Shape) < 1 || int64(a.Shape[0])*int64(a.Shape[1]) > left/sha256.Size {
		return wrong(fmt.Sprintf("%d bytes for shape %s", size, fault.Dims(a.Shape)))
	}
	m, t := a.Shape[0], a.Shape[1]
	sums, err := stateSums(m, t, line, wrong)
	if err != nil {
		return err
	}
	text, err := line("")
	if err != nil {
		return err
	}
	whole, _, _ := strings.Cut(text, "  ")
	if err := s.whole.UnmarshalText([]byte(whole)); err != nil {
		return wrong("a hash of the whole that is none")
	}
	seal.Sum(s.said[:0])
	if text, err = line(sumsSeal); err != nil {
		return err
	}
	if err := s.saidSeal.UnmarshalText([]byte(text)); err != nil || left != 0 {
		return wrong("a seal that is none, or text after it")
	}
	n := int64(m) * int64(t)
	states := n * int64(tensor.Size(a.Shape[2:])) * int64(format.Bytes())
	data := extent{s.size - states, states}
	if err := s.flatten(a.Shape, data, nil, extent{0, int64(len(sums))}, extent{0, sha256.Size}); err != nil {
		return err
	}
	s.list = bytes.NewReader(sums)
	return nil
}

// stateSums reads the hashes of the states of m realizations of t steps, a line each.
func stateSums(m, t int, line func(prefix string) (string, error), wrong func(what string) error) ([]byte, error) {
	sums := make([]byte, 0, m*t*sha256.Size)
	one := strings.TrimSuffix(sumsLine(m, t), "%x\n")
	for i := range m * t {
		text, err := line(fmt.Sprintf(one, i/t, i%t))
		if err != nil {
			return nil, err
		}
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != sha256.Size {
			return nil, wrong("a hash that is none")
		}
		sums = append(sums, b...)
	}
	return sums, nil
}
