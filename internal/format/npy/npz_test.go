package npy

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

func parseArchive(path string, data []byte) (*Archive, error) {
	return ParseArchive(path, bytes.NewReader(data), int64(len(data)))
}

// lie is an entry of an archive whose directory may say anything of it.
type lie struct {
	name   string
	packed []byte
	method uint16
	flags  uint16
	size   uint64
	crc    uint32
}

// stored and deflated are true; tests then change what they like.
func stored(name string, content []byte) lie {
	return lie{name, content, zip.Store, 0, uint64(len(content)), crc32.ChecksumIEEE(content)}
}

func deflated(name string, content []byte) lie {
	e := stored(name, content)
	e.method, e.packed = zip.Deflate, deflate(content)
	return e
}

func deflate(content []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	w.Write(content)
	w.Close()
	return b.Bytes()
}

func (e lie) with(change func(*lie)) lie {
	change(&e)
	return e
}

func archive(entries ...lie) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.CreateRaw(&zip.FileHeader{Name: e.name, Method: e.method, Flags: e.flags, CRC32: e.crc,
			CompressedSize64: uint64(len(e.packed)), UncompressedSize64: e.size})
		if err == nil {
			_, err = w.Write(e.packed)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// inDirectory changes n bytes at an offset of the last entry of the directory.
func inDirectory(data []byte, offset int, value uint32) []byte {
	at := bytes.LastIndex(data, []byte("PK\x01\x02")) + offset
	binary.LittleEndian.PutUint32(data[at:], value)
	return data
}

// Every way in which an archive can lie is found before or while an array is
// read, in one line, with memory bounded by what is really there.
func TestHostileArchives(t *testing.T) {
	one := of("'<f4'", "(2,)", 8)
	zeros := make([]byte, 1<<23)
	huge := of("'<f4'", "(268435456,)", 0) // claims 2^30 bytes
	badChild := of("'<f4'", "(-1,)", 0)
	const start = 16 << 10 // an archive's directory and flate's tables
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"empty file", `file: "zip: not a valid zip file": want a zip archive`, nil},
		{"an array", `file: "zip: not a valid zip file": want`, one},
		{"cut", `file: "zip: not a valid zip file": want`, archive(stored("a.npy", one))[:150]},
		{"directory beyond the file",
			`"a" place: "bytes.Reader.ReadAt: negative offset": want the header of the entry`, func() []byte {
				b := archive(stored("a.npy", one))
				binary.LittleEndian.PutUint32(b[len(b)-6:], 1<<31) // its offset
				return b
			}()},

		{"no .npy", `entry: "a": want the name of an array, ending in .npy`, archive(stored("a", one))},
		{"upper case", `entry: "a.NPY": want the name of an array`, archive(stored("a.NPY", one))},
		{"no name", `entry: ".npy": want a name in UTF-8 without`, archive(stored(".npy", one))},
		{"a directory", `entry: "a.npy/": want a name in`, archive(stored("a.npy/", nil))},
		{"absolute", `entry: "/etc/a.npy": want a name in UTF-8 without empty, . or .. parts, ` +
			`\, : and control characters`, archive(stored("/etc/a.npy", one))},
		{"parent", `entry: "../a.npy": want a name in`, archive(stored("../a.npy", one))},
		{"parent inside", `entry: "b/../../a.npy": want a name in`, archive(stored("b/../../a.npy", one))},
		{"parent by name", `entry: "..npy": want a name in`, archive(stored("..npy", one))},
		{"parent of parent by name", `entry: "../...npy": want a name in`, archive(stored("../...npy", one))},
		{"here", `entry: "./a.npy": want a name in`, archive(stored("./a.npy", one))},
		{"two slashes", `entry: "b//a.npy": want a name in`, archive(stored("b//a.npy", one))},
		{"backslash", `entry: "..\\a.npy": want a name in`, archive(stored(`..\a.npy`, one))},
		{"drive", `entry: "C:a.npy": want a name in`, archive(stored("C:a.npy", one))},
		{"zero", `entry: "a\x00b.npy": want a name in`, archive(stored("a\x00b.npy", one))},
		{"newline", `entry: "a\nb.npy": want a name in`, archive(stored("a\nb.npy", one))},
		{"not UTF-8", `entry: "a\xff.npy": want a name in`, archive(stored("a\xff.npy", one))},
		{"long name", `entry: "/` + strings.Repeat("x", 59) + `...": want a name in`,
			archive(stored("/"+strings.Repeat("x", 1000)+".npy", one))},
		{"same name", `entry: "a.npy": want each name once`,
			archive(stored("a.npy", one), stored("b.npy", one), stored("a.npy", one))},

		{"encrypted", `"a" flags: encrypted: want an entry that is not`,
			archive(stored("a.npy", one).with(func(e *lie) { e.flags = 1 }))},
		{"bzip2", `"a" method: 12: want 0 (stored) or 8 (deflated)`,
			archive(stored("a.npy", one).with(func(e *lie) { e.method = 12 }))},
		{"zstd", `"a" method: 93: want 0`, archive(stored("a.npy", one).with(func(e *lie) { e.method = 93 }))},
		{"stored of other size", `"a" size: 1000: want the 73 of its stored bytes`,
			archive(stored("a.npy", one).with(func(e *lie) { e.size = 1000 }))},
		{"size 2^63", `"a" size: 9223372036854775808: want a size that an int counts`,
			archive(deflated("a.npy", one).with(func(e *lie) { e.size = 1 << 63 }))},
		{"packed size beyond the file", `"a" packed size: 4000000000: want to end within the `,
			inDirectory(archive(deflated("a.npy", one)), 20, 4e9)},
		{"offset beyond the file", `"a" place: "EOF": want the header of the entry`,
			inDirectory(archive(stored("a.npy", one)), 42, 1e9)},
		{"offset of no header", `"a" place: "zip: not a valid zip file": want the header of the entry`,
			inDirectory(archive(stored("a.npy", one)), 42, 1)},
		{"shared bytes", `"b" place: 35: want 108 or more, where "a" ends`,
			inDirectory(archive(stored("a.npy", one), stored("b.npy", one)), 42, 0)},

		{"not an array", `"a" magic: "hello,": want "\x93NUMPY"`, archive(stored("a.npy", []byte("hello, world")))},
		{"a pickle", `"a" descr: "|O": want a number type`, archive(deflated("a.npy", of("'|O'", "(1,)", 8)))},
		{"a negative shape", `"a" shape: "-1,)}": want integers`, archive(deflated("a.npy", badChild))},
		{"short", `"a" data: 7 bytes: want exactly 8 for <f4 [2]`, archive(deflated("a.npy", one[:len(one)-1]))},
		{"long", `"a" data: 9 bytes: want exactly 8 for <f4 [2]`, archive(deflated("a.npy", append(slices.Clone(one), 0)))},
		{"nothing", `"a" file: 0 bytes: want at least the 10`, archive(deflated("a.npy", nil))},
		{"wrong CRC", `"a" data: CRC-32 `, archive(stored("a.npy", one).with(func(e *lie) { e.crc ^= 1 }))},
		{"CRC of zero", `"a" data: CRC-32 `, archive(deflated("a.npy", one).with(func(e *lie) { e.crc = 0 }))},
		{"not deflated", `"a" data: flate: corrupt input before offset 1: want deflated bytes`,
			archive(deflated("a.npy", one).with(func(e *lie) { e.packed = []byte("\xff\xff\xff\xff") }))},
		{"corrupt in the data", `"a" data: flate: corrupt input before offset`,
			archive(deflated("a.npy", one).with(func(e *lie) {
				e.packed = append([]byte("\x00\x46\x00\xb9\xff"), one[:70]...) // a stored block, and then none
				e.packed = append(e.packed, 0xff)
			}))},
		{"deflated end missing", `"a" data: end early: want the bytes that size and header promise`,
			archive(deflated("a.npy", one).with(func(e *lie) { e.packed = e.packed[:len(e.packed)-1] }))},
		{"bytes after deflate's end", `"a" data: packed bytes after the last: want none`,
			archive(deflated("a.npy", one).with(func(e *lie) { e.packed = append(e.packed, 0) }))},

		{"claims 2^30 bytes, has none", `"a" size: 1073741897: want at most 3355`,
			archive(deflated("a.npy", huge).with(func(e *lie) { e.size += 1 << 30 }))},
		{"unpacks to 8 MiB, claims 8 bytes", `"a" data: more bytes: want exactly the 73 of the entry`,
			archive(deflated("a.npy", append(slices.Clone(one), zeros...)).with(func(e *lie) { e.size = uint64(len(one)) }))},
		{"unpacks to 8 MiB, declared for the entry only", `"a" data: 8388616 bytes: want exactly 8 for <f4 [2]`,
			archive(deflated("a.npy", append(slices.Clone(one), zeros...)))},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, "x.npz", c.want, start+200_000, func() error {
				z, err := parseArchive("x.npz", c.data)
				if err == nil {
					_, err = z.Array("a")
				}
				return err
			})
		})
	}
}

// The directory need not list entries in the order of their bytes.
func TestDirectoryOrder(t *testing.T) {
	one, two := of("'|u1'", "()", 1), of("'|u1'", "()", 1)
	one[len(one)-1], two[len(two)-1] = 1, 2
	data := archive(stored("a.npy", two), stored("a.npy", one))
	// The second entry of the directory becomes b, which lies before a.
	second := bytes.LastIndex(data, []byte("PK\x01\x02"))
	first := bytes.LastIndex(data[:second], []byte("PK\x01\x02"))
	for k := range second - first { // all but the name: CRC, sizes, offset
		data[first+k], data[second+k] = data[second+k], data[first+k]
	}
	data[second+46] = 'b'
	z, err := parseArchive("x", data)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"a": 1, "b": 2} {
		a, err := z.Array(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, v, []float64{want})
	}
}

// A few bytes that shall become many are refused before they are unpacked; what is
// allowed to is unpacked without keeping it.
func TestUnpacked(t *testing.T) {
	array := func(data []byte) func() error {
		return func() error {
			z, err := parseArchive("x.npz", data)
			if err == nil {
				_, err = z.Array("a")
			}
			return err
		}
	}
	content := append(of("'<f4'", "(268435456,)", 0), make([]byte, 1<<23)...)
	data := archive(deflated("a.npy", content).with(func(e *lie) { e.size += 1<<30 - 1<<23 }))
	refused(t, "x.npz", fmt.Sprintf(`"a" size: %d: want at most `, len(content)+1<<30-1<<23), 200_000, array(data))

	content = append(of("'<f4'", "(8388608,)", 0), make([]byte, 1<<24)...)
	data = archive(deflated("a.npy", content).with(func(e *lie) { e.size += 1 << 24 }))
	refused(t, "x.npz", `"a" data: end early: want`, 300_000, array(data))
	data = archive(deflated("a.npy", content[:len(content)-1<<20]).with(func(e *lie) { e.size = 1 << 24 }))
	refused(t, "x.npz", `"a" data: 16777`, 300_000, array(data))
	ok := archive(deflated("a.npy", append(of("'<f4'", "(4194304,)", 0), make([]byte, 1<<24)...)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := array(ok)(); err != nil {
		t.Error(err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 300_000 {
		t.Errorf("%d bytes allocated to look at an entry of 16 MiB", after.TotalAlloc-before.TotalAlloc)
	}
}

// A deflated array is read at any place, in any order.
func TestInflatedPlaces(t *testing.T) {
	const n = 100_000
	var content []byte
	for i := range n {
		content = binary.LittleEndian.AppendUint32(content, math.Float32bits(float32(i)))
	}
	z, err := parseArchive("x", archive(deflated("a.npy", append(of("'<f4'", fmt.Sprintf("(%d,)", n), 0), content...))))
	if err != nil {
		t.Fatal(err)
	}
	a, err := z.Array("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 10, 50_000, 50_003, 3, n - 7, n - 7, 0} {
		v := make([]float64, 7)
		if err := a.ReadFloat64s(v, at); err != nil {
			t.Fatal(err)
		}
		for i := range v {
			if v[i] != float64(at+i) {
				t.Fatalf("element %d is %v", at+i, v[i])
			}
		}
	}
}

// An archive of too many entries is not an archive of arrays.
func TestDirectorySize(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range 100_000 {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%040d.npy", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := parseArchive("x", b.Bytes()); err == nil ||
		err.Error() != "x: directory: more than 8 MiB: want a few arrays" {
		t.Error(err)
	}
}

// Arrays of all formats are written stored and deflated, and read back.
func TestArchive(t *testing.T) {
	formats := []fp16.Format{fp16.Float64, fp16.Float32, fp16.Float16, fp16.BFloat16}
	for _, packed := range []bool{false, true} {
		var files [2]bytes.Buffer
		for i := range files {
			w := NewArchiveWriter(&files[i], packed)
			for k, f := range formats {
				a, err := w.Create("layer/"+f.String(), f, []int{k, 3})
				if err == nil {
					err = errors.Join(a.Write(quarters(3*k)), a.Close())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
			t.Error("equal arrays give different bytes")
		}
		z, err := parseArchive("x", files[0].Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if names := z.Names(); !slices.Equal(names,
			[]string{"layer/float64", "layer/float32", "layer/float16", "layer/bfloat16"}) {
			t.Errorf("%q", names)
		}
		for k, f := range formats {
			a, err := z.Array("layer/" + f.String())
			if err == nil && f == fp16.BFloat16 {
				a, err = a.BFloat16()
			}
			if err != nil {
				t.Fatal(err)
			}
			if g, ok := a.Format(); g != f || !ok || !slices.Equal(a.Shape, []int{k, 3}) {
				t.Errorf("%v: read as %v of %v", f, a.Shape, g)
			}
			v, err := a.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			same(t, f.String(), v, quarters(3*k))
		}
		// The zip reader that everyone has reads it, and sees how it is packed.
		std, err := zip.NewReader(bytes.NewReader(files[0].Bytes()), int64(files[0].Len()))
		// 1980
		if err != nil || len(std.File) != 4 || (std.File[0].Method == zip.Deflate) != packed ||
			std.File[0].Modified.Unix() != 315532800 {
			t.Errorf("packed %v: %v", packed, err)
		}
	}
}

// TestColons: an array may have a colon in its name, where it is not that of a drive.
func TestColons(t *testing.T) {
	z, err := parseArchive("x.npz", archive(stored("input_2:0.npy", of("'<f4'", "(2,)", 8))))
	if err != nil || !slices.Equal(z.Names(), []string{"input_2:0"}) {
		t.Errorf("%v", err)
	}
}

func TestArchiveWithout(t *testing.T) {
	for _, c := range []struct {
		n    int
		want string
	}{
		{0, `x: array: "no": want no array: the archive has none`},
		{2, `x: array: "no": want one of "t0", "t1"`},
		{8, `x: array: "no": want one of "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"`},
		{10, `x: array: "no": want one of "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7" and 2 more`},
	} {
		var b bytes.Buffer
		w := NewArchiveWriter(&b, false)
		for i := range c.n {
			a, err := w.Create(fmt.Sprint("t", i), fp16.Float64, []int{0})
			if err != nil || a.Close() != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		z, err := parseArchive("x", b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Array("no"); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// What cannot be written is refused and leaves an archive that does not open.
func TestArchiveWriterRefuses(t *testing.T) {
	create := func(z *ArchiveWriter, name string, shape ...int) error {
		_, err := z.Create(name, fp16.Float16, shape)
		return err
	}
	whole := func(z *ArchiveWriter, name string) error {
		w, err := z.Create(name, fp16.Float16, []int{1})
		if err != nil {
			return err
		}
		return errors.Join(w.Write([]float64{1}), w.Close())
	}
	for _, c := range []struct {
		name, want string
		do         func(z *ArchiveWriter) error
	}{
		{"same name", `"a" name: "a": want each name once`, func(z *ArchiveWriter) error {
			return errors.Join(whole(z, "a"), whole(z, "b"), whole(z, "a"))
		}},
		{"no name", `name: "": want a name in UTF-8 without`, func(z *ArchiveWriter) error { return create(z, "") }},
		{"parent", `"../a" name: "../a": want a name in`, func(z *ArchiveWriter) error { return create(z, "../a") }},
		{"not UTF-8", `"\xff" name: "\xff": want a name in`, func(z *ArchiveWriter) error { return create(z, "\xff") }},
		{"long name", `zip: FileHeader.Name too long`,
			func(z *ArchiveWriter) error { return create(z, strings.Repeat("x", 1<<16)) }},
		{"shape", `"a" shape: [-1]: want dimensions of 0 or more`,
			func(z *ArchiveWriter) error { return create(z, "a", -1) }},
		{"value", `"a" value 0: 0.1: want a float16 number`, func(z *ArchiveWriter) error {
			w, _ := z.Create("a", fp16.Float16, []int{1})
			return w.Write([]float64{0.1})
		}},
		{"not whole", `"a" data: 0 values: want 1`, func(z *ArchiveWriter) error {
			w, _ := z.Create("a", fp16.Float16, []int{1})
			return w.Close()
		}},
		{"open", `"a" array: open: want it closed before what follows`, func(z *ArchiveWriter) error {
			w, _ := z.Create("a", fp16.Float16, []int{1})
			return errors.Join(w.Write([]float64{math.Inf(-1)}), whole(z, "b"))
		}},
		{"open at the end", `"a" array: open: want it closed before what follows`, func(z *ArchiveWriter) error {
			create(z, "a", 0)
			return z.Close()
		}},
	} {
		var b bytes.Buffer
		z := NewArchiveWriter(&b, false)
		if err := c.do(z); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got  %v\nwant %s", c.name, err, c.want)
		}
		for _, err := range []error{whole(z, "next"), z.Close()} { // the first error stays
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s: later %v\nwant %s", c.name, err, c.want)
			}
		}
		if _, err := parseArchive("x", b.Bytes()); err == nil {
			t.Errorf("%s: the archive opens", c.name)
		}
	}
}

// What goes wrong while writing an archive is passed on.
func TestArchiveWriterFails(t *testing.T) {
	for n := range 1000 {
		z := NewArchiveWriter(&full{n}, true)
		w, err := z.Create("a", fp16.Float64, []int{200})
		if err == nil {
			err = errors.Join(w.Write(quarters(200)), w.Close())
		}
		if last := z.Close(); last == nil {
			break
		} else if !errors.Is(last, errFull) || err != nil && !errors.Is(err, errFull) {
			t.Fatalf("room for %d bytes: %v, then %v", n, err, last)
		} else if n == 999 {
			t.Fatal("never enough room")
		}
	}
}
