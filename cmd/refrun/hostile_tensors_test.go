package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
)

// npyOf is a .npy file of a header's text and n bytes of data.
func npyOf(header string, n int) []byte {
	b := []byte("\x93NUMPY\x02\x00")
	b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// zipped is an archive of entries of that content, deflated or stored.
func zipped(t *testing.T, method uint16, content []byte, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		e, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hostileTensors: files of the four formats that are none, or that promise what they do
// not hold, for every verb and flag that reads them.
func hostileTensors(t *testing.T) (all []hostile) {
	t.Helper()
	const many = 1 << 20
	times := strings.Repeat
	files := map[string][][]byte{}
	add := func(ext string, data []byte) { files[ext] = append(files[ext], data) }

	for _, h := range []string{
		"", "{}", "{", "[]", "1", "null", "{}{}", "{}x", times("x", many), "{" + times("x", many), times("{", many),
		"{\"a\":" + times("[", many), times("[", many), "{\"" + times("a", many) + "\":1}", times(" ", many),
		"{\"a\":{}}", "{\"a\":1}", "{\"a\":[]}",
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, `{"a":{"dtype":"F32",` +
			`"shape":[1],"shape":[1],"data_offsets":[0,4]}}`, `{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"\u001b[2J","shape":[1],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, `{"a":{"dtype":"F32","shape":[1e3],` +
			`"data_offsets":[0,4]}}`, `{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`,
		`{"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551616]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775807]}}`, `{"a":{"dtype":"F32","shape":[1],` +
			`"data_offsets":[0]}}`, `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`,
		`{"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}}`, `{"a":{"dtype":"F32","shape":{"x":1},` +
			`"data_offsets":[0,4]}}`, `{"__metadata__":[],"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`,
		`{"__metadata__":{"a":1}}`, `{"__metadata__":{"a":"` + times("x", many) + `"}}`,
		`{"a":{"dtype":"F32","shape":[1` + times(",1", many) + `],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F32","shape":[0` + times(",9", many) + `],"data_offsets":[0,0]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0` + times(",1", many) + `]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "{\"\xff\":1}",
		`{"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}}`,
		"{" + repeated(4*many, func(i int) string {
			return fmt.Sprintf(`"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},`, i)
		}) + `"trajectory":{"dtype":"F32","shape":[0],"data_offsets":[0,4]}}`,
	} {
		add(".safetensors", withHeader(h, 4))
	}
	for _, length := range []uint64{3, 1 << 30, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		add(".safetensors", append(binary.LittleEndian.AppendUint64(nil, length), "{}"...))
	}

	for _, h := range []string{
		"", "{}", "{", "x", times("x", 20_000), "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), ",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1" + times(",1", 4000) + "), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1" + times(",1", 10_000_000) + "), }",
		"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
		"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "{'descr': " +
			"'<f4', 'fortran_order': 0, 'shape': (1,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
		"{'descr': '<f4', 'fortran_order': True, 'shape': (0, 9223372036854775807, 9), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "{'descr': '<f4', 'descr': '<f4', " +
			"'fortran_order': False, 'shape': (1,), }", "{'descr': '\x1b[2J', 'fortran_order': False, 'shape': (1,), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }", "{'descr': '<i4', 'fortran_order': " +
			"False, 'shape': (1,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (1), }",
		"__import__('os').system('x')", times("(", 9000), times("{'a':", 1900),
	} {
		add(".npy", npyOf(h, 4))
	}
	add(".npy", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"))
	add(".npy", []byte("\x93NUMPY\x09\x00\x00\x00"))
	add(".npy", []byte("PK\x03\x04"))

	one := npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4)
	bomb := func(n int) []byte {
		return npyOf(fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }", n/4), n)
	}
	huge := zipped(t, zip.Deflate, bomb(40<<20), "trajectory.npy")
	for _, b := range [][]byte{
		nil, []byte("PK"), []byte("PK\x05\x06"), zipped(t, zip.Store, one), zipped(t, zip.Store, one, "a.npy", "a.npy"),
		zipped(t, zip.Store, one, "../a.npy"), zipped(t, zip.Store, one, "/a.npy"), zipped(t, zip.Store, one,
			"a\x00.npy"), zipped(t, zip.Store, one, "a"), zipped(t, zip.Store, one, "\xff.npy"),
		zipped(t, zip.Store, one, `a\b.npy`), zipped(t, zip.Store, one, "\x1b[2J.npy"), zipped(t, zip.Store, one,
			"a.npy", "b.npy"), zipped(t, zip.Deflate, nil, "a.npy"), zipped(t, zip.Deflate, []byte("x"), "a.npy"), huge,
		huge[:len(huge)-1], huge[:len(huge)/2], zipped(t, zip.Deflate, make([]byte, 40<<20), "trajectory.npy"),
		zipped(t, zip.Store, one, strings.Split(
			strings.TrimSuffix(repeated(4*many, func(i int) string { return fmt.Sprintf("%d.npy,", i) }), ","), ",",
		)...),
	} {
		add(".npz", b)
	}
	lying := bytes.Clone(huge)
	dir := bytes.LastIndex(lying, []byte("PK\x01\x02"))
	for _, change := range []func(b []byte){
		func(b []byte) { binary.LittleEndian.PutUint32(b[24:], 1<<31) },           // size
		func(b []byte) { binary.LittleEndian.PutUint32(b[20:], 1<<31) },           // packed size
		func(b []byte) { binary.LittleEndian.PutUint32(b[42:], 1<<31) },           // place
		func(b []byte) { binary.LittleEndian.PutUint16(b[10:], 14) },              // method
		func(b []byte) { b[8] |= 1 },                                              // encrypted
		func(b []byte) { binary.LittleEndian.PutUint32(b[24:], 100) },             // size
		func(b []byte) { b[16]++; binary.LittleEndian.PutUint32(b[24:], 16<<20) }, // CRC
	} {
		b := bytes.Clone(lying)
		change(b[dir:])
		add(".npz", b)
	}

	hostileHDF5(t, add)

	// It can be compared, block by block, but not be held.
	name := put(t, "zeros.h5", zerosHDF5(t, []int{3, 2048, 2048}, []int{1, 64, 2048}))
	all = append(all, hostile{"tensors .h5", []string{"run", "--config", "good.yaml", "--x0", name}})
	add(".h5", zerosHDF5(t, []int{3, 4096, 4096}, []int{3, 4096, 4096})) // one chunk
	for ext, list := range files {
		for i, data := range list {
			name := put(t, fmt.Sprintf("tensor%d%s", i, ext), data)
			all = append(all, hostile{"tensors " + ext, []string{"compare", name, name}})
			start := hostile{"tensors " + ext, []string{"run", "--config", "good.yaml", "--x0", name}}
			if ext != ".safetensors" {
				all = append(all, start)
				continue
			}
			// One reader is behind all flags: each file comes by one of them.
			flag := []string{"--weights", "--trajectory", "--layers", "--tape"}[i/3%4]
			args := []string{"check", "--config", "good.yaml", flag, name}
			if flag != "--trajectory" {
				args = append(args, "--trajectory", "good.safetensors")
			}
			all = append(all, []hostile{start, {"tensors " + ext, args},
				{"tensors " + ext, []string{"run", "--config", "good.yaml", "--x0", "zeros", "--weights", name}}}[i%3])
		}
	}
	return all
}

// TestCutFiles: of files of all formats, none that ends early is read, wherever it ends.
func TestCutFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	whole := npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12)
	for name, data := range map[string][]byte{
		"x.npy": whole, "x.h5": goodHDF5(t),
		"x.npz":         zipped(t, zip.Deflate, whole, "x.npy"),
		"x.safetensors": withHeader(`{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}`, 12),
	} {
		put(t, name, data)
		if r := refrun(t, "compare", name, name); r.Code != 0 {
			t.Fatalf("%s: %s", name, r.Stderr)
		}
		step := 1
		if name == "x.h5" { // internal/format/hdf5 cuts its files everywhere
			step = 13
		}
		for n := len(data) - 1; n >= 0; n -= step {
			if err := os.Truncate(name, int64(n)); err != nil {
				t.Fatal(err)
			}
			r := refrun(t, "compare", name, name)
			if wrong := judgeHostile(r.Code, r.Stdout, r.Stderr); wrong != "" {
				t.Errorf("%d bytes of %d of %s: %s", n, len(data), name, wrong)
			}
		}
	}
}
