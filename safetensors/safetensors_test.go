package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/x448/float16"
)

// file builds a file of a header, with its length, and n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func claim(length uint64, rest string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, length), rest...)
}

// Every way in which a file can lie is one line that names the file, the field,
// what was found and what would have been right, and costs no memory to find.
func TestHostile(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"empty", `file: 0 bytes: want at least the 8 bytes of a header length`, nil},
		{"half a length", `file: 7 bytes: want at least the 8 bytes of a header length`, make([]byte, 7)},
		{"length 2^60", `header length: 1152921504606846976: want at most 2, `, claim(1<<60, "{}")},
		{"length 2^64-1", `header length: 18446744073709551615: want at most 2, `, claim(math.MaxUint64, "{}")},
		{"length one too many", `header length: 3: want at most 2, `, claim(3, "{}")},
		{"npy", `file: a NumPy array (.npy): want a safetensors file`, []byte("\x93NUMPY\x01\x00v\x00{'descr'")},
		{"npz and pt", `file: a ZIP archive, such as .npz and .pt are: want a safetensors file`,
			[]byte("PK\x03\x04\x14\x00\x00\x00rest")},
		{"hdf5", `file: an HDF5 file: want a safetensors file`, []byte("\x89HDF\r\n\x1a\n rest")},
		{"gguf", `file: a GGUF file: want a safetensors file`, []byte("GGUF\x03\x00\x00\x00rest")},
		{"pickle", `file: a pickle: want a safetensors file`, []byte("\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00")},
		{"gzip", `file: a gzip file: want a safetensors file`, []byte("\x1f\x8b\x08\x08\x9a\x1b\x2c\x67\x02\xff")},
		{"png", `file: a picture (PNG): want a safetensors file`, []byte("\x89PNG\r\n\x1a\nrest")},
		{"csv", `file: text: want a safetensors file`, []byte("1,2\n3,4\n")},
		{"a few letters", `file: 3 bytes: want at least the 8 bytes of a header length`, []byte("abc")},
		{"a sentence", `file: text: want a safetensors file`, []byte("a,b,c\n1,2,3\n")},
		{"json", `file: JSON: want a safetensors file`, []byte(`{"a":1}`)},
		{"onnx", `file: an ONNX model, by its first byte: want a safetensors file`, []byte("\x08\x08\x12\x07pytorch")},
		{"header truncated", `header: not JSON: want a JSON object`, file(`{"a":{"dtype":"F3`, 0)},
		{"no header", `header: "": want a JSON object, beginning with {`, file("", 0)},
		{"header an array", `header: "[1]": want a JSON object, beginning with {`, file("[1]", 0)},
		{"header a number", `header: "17": want a JSON object, beginning with {`, file("17", 0)},
		{"space before", `header: " {}": want a JSON object, beginning with {`, file(" {}", 0)},
		{"newline in value", `header: "\n\n": want a JSON object, beginning with {`, file("\n\n", 0)},
		{"not UTF-8", `header: not UTF-8: want a JSON object`, file("{\"a\xff\":1}", 0)},
		{"comma at the end", `header: not JSON: want a JSON object`, file(`{"__metadata__":{},}`, 0)},
		{"two objects", `header: not JSON: want a JSON object`, file(`{}{}`, 0)},
		{"deep", `header: not JSON: want a JSON object`, file(`{"a":`+strings.Repeat("[", 1<<17), 0)},
		{"deep but valid", `"a" shape: an array: want integers from 0 to 2^63-1`,
			file(`{"a":{"shape":`+strings.Repeat("[", 999)+strings.Repeat("]", 999)+`}}`, 0)},

		{"names twice", `header: "a": want each name once`,
			file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],`+
				`"data_offsets":[1,2]}}`, 2)},
		{"names twice, one escaped", `header: "a": want each name once`,
			file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],`+
				`"data_offsets":[1,2]}}`, 2)},
		{"metadata twice", `header: "__metadata__": want each name once`, file(`{"__metadata__":{},"__metadata__":{}}`, 0)},
		{"metadata key twice", `__metadata__: "k": want each name once`, file(`{"__metadata__":{"k":"1","k":"2"}}`, 0)},
		{"metadata not an object", `__metadata__: "text": want an object`, file(`{"__metadata__":"text"}`, 0)},
		{"metadata null", `__metadata__: null: want an object`, file(`{"__metadata__":null}`, 0)},
		{"metadata a number", `__metadata__ "k": 1: want a string`, file(`{"__metadata__":{"k":1}}`, 0)},
		{"metadata an object", `__metadata__ "k": an object: want a string`, file(`{"__metadata__":{"k":{}}}`, 0)},
		{"metadata a truth value", `__metadata__ "k": true: want a string`, file(`{"__metadata__":{"k":true}}`, 0)},

		{"tensor not an object", `"a": 3: want an object`, file(`{"a":3}`, 0)},
		{"key twice", `"a": "shape": want each name once`, file(`{"a":{"shape":[1],"shape":[2]}}`, 0)},
		{"unknown key", `"a" "strides": unknown key: want only dtype, shape and data_offsets`,
			file(`{"a":{"strides":[1]}}`, 0)},
		{"no dtype", `"a" dtype: missing: want dtype, shape and data_offsets`,
			file(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"no shape", `"a" shape: missing: want dtype, shape and data_offsets`,
			file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4)},
		{"no offsets", `"a" data_offsets: missing: want dtype, shape and data_offsets`,
			file(`{"a":{"dtype":"F32","shape":[1]}}`, 4)},
		{"dtype a number", `"a" dtype: 32: want a string`, file(`{"a":{"dtype":32}}`, 0)},
		{"dtype unknown", `"a" dtype: "F31": want one of BF16, BOOL, C64, `, tensorFile("F31", "[1]", "[0,4]", 4)},
		{"dtype lower case", `"a" dtype: "f32": want one of BF16, `, tensorFile("f32", "[1]", "[0,4]", 4)},
		{"dtype packed", `"a" dtype: "F4": want one of BF16, `, tensorFile("F4", "[2]", "[0,1]", 1)},

		{"shape a number", `"a" shape: 4: want an array of integers`, tensorFile("F32", "4", "[0,4]", 4)},
		{"shape negative", `"a" shape: -1: want integers from 0 to 2^63-1`, tensorFile("F32", "[-1]", "[0,4]", 4)},
		{"shape two negatives", `"a" shape: -1: want integers from 0 to 2^63-1`, tensorFile("F32", "[-1,-1]", "[0,4]", 4)},
		{"shape minus zero", `"a" shape: -0: want integers from 0 to 2^63-1`, tensorFile("F32", "[-0]", "[0,0]", 0)},
		{"shape a fraction", `"a" shape: 1.0: want integers from 0 to 2^63-1`, tensorFile("F32", "[1.0]", "[0,4]", 4)},
		{"shape an exponent", `"a" shape: 1e3: want integers from 0 to 2^63-1`, tensorFile("F32", "[1e3]", "[0,4000]", 4000)},
		{"shape text", `"a" shape: "1": want integers from 0 to 2^63-1`, tensorFile("F32", `["1"]`, "[0,4]", 4)},
		{"shape null", `"a" shape: null: want integers from 0 to 2^63-1`, tensorFile("F32", `[null]`, "[0,4]", 4)},
		{"shape 2^63", `"a" shape: 9223372036854775808: want integers from 0 to 2^63-1`,
			tensorFile("U8", "[9223372036854775808]", "[0,0]", 0)},
		{"size overflow to 0", `"a" shape: [4294967296,4294967296]: want fewer bytes of U8 than an int counts`,
			tensorFile("U8", "[4294967296,4294967296]", "[0,0]", 0)},
		{"size overflow by dtype", `"a" shape: [2305843009213693952]: want fewer bytes of F64 than an int counts`,
			tensorFile("F64", "[2305843009213693952]", "[0,0]", 0)},
		{"size overflow beside a zero", `"a" shape: [0,4294967296,4294967296]: want fewer bytes of U8 than an int counts`,
			tensorFile("U8", "[0,4294967296,4294967296]", "[0,0]", 0)},

		{"offsets one", `"a" data_offsets: [4]: want [begin,end]`, tensorFile("F32", "[1]", "[4]", 4)},
		{"offsets three", `"a" data_offsets: [0,4,4]: want [begin,end]`, tensorFile("F32", "[1]", "[0,4,4]", 4)},
		{"offsets negative", `"a" data_offsets: -4: want integers from 0 to 2^63-1`, tensorFile("F32", "[1]", "[-4,0]", 4)},
		{"offsets reversed", `"a" data_offsets: [4,0]: want begin <= end`, tensorFile("F32", "[1]", "[4,0]", 4)},
		{"data truncated", `"a" data_offsets: [0,4]: want an end within the 3 bytes after the header`,
			tensorFile("F32", "[1]", "[0,4]", 3)},
		{"offsets huge", `"a" data_offsets: [0,9223372036854775807]: want an end within the 4 bytes after the header`,
			tensorFile("F32", "[1]", "[0,9223372036854775807]", 4)},
		{"size too small", `"a" data_offsets: [0,4]: want the 8 bytes of F32 [2]`, tensorFile("F32", "[2]", "[0,4]", 4)},
		{"size too large", `"a" data_offsets: [0,8]: want the 4 bytes of F32 [1]`, tensorFile("F32", "[1]", "[0,8]", 8)},
		{"size of a scalar", `"a" data_offsets: [0,0]: want the 4 bytes of F32 []`, tensorFile("F32", "[]", "[0,0]", 0)},
		{"gap before", `"a" data_offsets: [4,8]: want to begin at 0, where the data before it end`,
			tensorFile("F32", "[1]", "[4,8]", 8)},
		{"gap between", `"b" data_offsets: [5,6]: want to begin at 4, where the data before it end`,
			file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],`+
				`"data_offsets":[5,6]}}`, 6)},
		{"overlap", `"b" data_offsets: [3,6]: want to begin at 4, where the data before it end`,
			file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[3],`+
				`"data_offsets":[3,6]}}`, 6)},
		{"shared data", `"b" data_offsets: [0,4]: want to begin at 4, where the data before it end`,
			file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],`+
				`"data_offsets":[0,4]}}`, 4)},
		{"empty tensor inside another", `"b" data_offsets: [2,2]: want to begin at 4, where the data before it end`,
			file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],`+
				`"data_offsets":[2,2]}}`, 4)},
		{"garbage after", `file: 1 byte after the last tensor: want the data to end with the file`,
			tensorFile("F32", "[1]", "[0,4]", 5)},
		{"only garbage", `file: 9 bytes after the last tensor: want the data to end with the file`, file(`{}`, 9)},
		{"long names", `"` + long[:60] + `...": 1: want an object`, file(`{"`+long+`":1}`, 0)},
		{"long numbers", `"a" shape: ` + strings.Repeat("1", 60) + `...: want integers`,
			tensorFile("U8", "["+strings.Repeat("1", 1000)+"]", "[0,0]", 0)},
		{"long shapes", `...]: want fewer bytes of U8 than an int counts`,
			tensorFile("U8", "["+strings.Repeat("10000,", 50)+"1]", "[0,0]", 0)},
		{"more axes", `"a" shape: more than 64 numbers: want at most that many`,
			tensorFile("U8", "[1"+strings.Repeat(",1", 64)+"]", "[0,1]", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, err := Parse("dir/w.safetensors", c.data)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("accepted: %v", f.Names())
			}
			var e *failure
			if !errors.As(err, &e) {
				t.Fatalf("%T: %v", err, err)
			}
			line := err.Error()
			if !strings.HasPrefix(line, "dir/w.safetensors: ") || !strings.Contains(line, c.want) {
				t.Errorf("got  %s\nwant dir/w.safetensors: %s", line, c.want)
			}
			if strings.ContainsAny(line, "\n\r") || len(line) > 400 {
				t.Errorf("not one short line: %q", line)
			}
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<16+32*len(c.data)); got > most {
				t.Errorf("%d bytes allocated to refuse %d bytes of file, want at most %d", got, len(c.data), most)
			}
		})
	}
}

// tensorFile has one tensor "a".
func tensorFile(dtype, shape, offsets string, n int) []byte {
	return file(fmt.Sprintf(`{"a":{"dtype":%q,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets), n)
}

// A header of too many names is refused, and not written.
func TestTooManyNames(t *testing.T) {
	var h strings.Builder
	tensors := make([]*Tensor, maxNames)
	for i := range tensors {
		fmt.Fprintf(&h, `,"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
		tensors[i] = &Tensor{Name: strconv.Itoa(i), DType: U8, Shape: []int{0}}
	}
	for _, extra := range []string{"", `,"x":1`} {
		f, err := Parse("w", file("{"+h.String()[1:]+extra+"}", 0))
		if extra == "" && (err != nil || len(f.Names()) != maxNames) ||
			extra != "" && (err == nil || err.Error() != "w: header: more than 131072 names: want at most that many") {
			t.Error(err)
		}
	}
	if _, err := Header(tensors[1:], nil); err != nil {
		t.Error(err)
	}
	if _, err := Header(tensors, nil); err == nil || err.Error() != "names: 131073: want at most 131072" {
		t.Error(err)
	}
}

// A header over 32 MiB is refused however long the file is.
func TestHeaderTooLong(t *testing.T) {
	data := make([]byte, 8+maxHeader+1)
	binary.LittleEndian.PutUint64(data, maxHeader+1)
	_, err := Parse("w", data)
	if err == nil || !strings.HasPrefix(err.Error(), "w: header length: 33554433: want at most 33554432, ") {
		t.Error(err)
	}
}

// What the format allows though it looks odd.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name  string
		data  []byte
		names []string
	}{
		{"nothing", file("{}", 0), nil},
		{"padding", file("{}      ", 0), nil},
		{"newlines", file("{\n\"a\" : {\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}\n}", 1), []string{"a"}},
		{"scalar", tensorFile("F32", "[]", "[0,4]", 4), []string{"a"}},
		{"empty", tensorFile("F32", "[3,0,2]", "[0,0]", 0), []string{"a"}},
		{"empty name", file(`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), []string{""}},
		{"data in another order than the header", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]},`+
			`"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 5), []string{"b", "a"}},
		{"empty at the same offset", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"e":{"dtype":"U8",`+
			`"shape":[0],"data_offsets":[0,0]}}`, 1), []string{"e", "a"}},
	} {
		f, err := Parse(c.name, c.data)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Equal(f.Names(), c.names) || f.Metadata == nil {
			t.Errorf("%s: %v, metadata %v", c.name, f.Names(), f.Metadata)
		}
		for _, name := range c.names {
			if x, err := f.Tensor(name); err != nil || len(x.Bytes()) != x.Len()*x.DType.Size() {
				t.Errorf("%s: %v %v", c.name, x, err)
			}
		}
	}
}

// The element types are those of the format, with its sizes.
func TestSizes(t *testing.T) {
	want := map[DType]int{"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1,
		"F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4,
		"F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8}
	if !maps.Equal(sizes, want) || DType("F4").Size() != 0 {
		t.Errorf("got %v", sizes)
	}
}

func le16(v ...uint16) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint16(b, x)
	}
	return b
}

// All 65536 half and bfloat16 numbers, against their definitions: read
// exactly, and stored back as the same bits, NaNs as the one NaN.
func TestHalves(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	for _, c := range []struct {
		dtype     DType
		p, emax   int
		quietBits uint16
	}{{F16, 11, 15, 0x7e00}, {BF16, 8, 127, 0x7fc0}} {
		x, err := New("x", c.dtype, []int{1 << 16}, le16(all...))
		if err != nil {
			t.Fatal(err)
		}
		v, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		wantBits := slices.Clone(all)
		for i, got := range v {
			m, e := i&(1<<(c.p-1)-1), i&0x7fff>>(c.p-1)
			var want float64
			switch {
			case e == 2*c.emax+1 && m != 0:
				want, wantBits[i] = fp16.NaN, c.quietBits
			case e == 2*c.emax+1:
				want = math.Inf(1)
			case e == 0:
				want = math.Ldexp(float64(m), 1-c.emax-(c.p-1))
			default:
				want = math.Ldexp(float64(m+1<<(c.p-1)), e-c.emax-(c.p-1))
			}
			if i >= 1<<15 && want == want {
				want = -want
			}
			if math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s %#04x: got %v (%#x), want %v", c.dtype, i, got, math.Float64bits(got), want)
			}
		}
		back, err := OfFloat64s("x", c.dtype, x.Shape, v)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back.Bytes(), le16(wantBits...)) {
			t.Errorf("%s: bits differ after a round trip", c.dtype)
		}
	}
}

// Special values of the wide types, by their bits.
func TestWide(t *testing.T) {
	f32 := []uint32{0, 1 << 31, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001,
		0xffc12345, 0x3f800001}
	want := []uint64{0, 1 << 63, 0x36a0000000000000, 0xb6a0000000000000, 0x380fffffc0000000, 0x3810000000000000,
		0x47efffffe0000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff8000000000000,
		0x3ff0000020000000}
	var raw32, raw64, same64 []byte
	for _, u := range f32 {
		raw32 = binary.LittleEndian.AppendUint32(raw32, u)
	}
	nans := append(slices.Clone(want), 1, 0x7ff0000000000001, 0xffffffffffffffff)
	for _, u := range nans {
		raw64 = binary.LittleEndian.AppendUint64(raw64, u)
	}
	copy(nans[len(want)+1:], []uint64{0x7ff8000000000000, 0x7ff8000000000000})
	for _, u := range nans {
		same64 = binary.LittleEndian.AppendUint64(same64, u)
	}
	for _, c := range []struct {
		dtype DType
		raw   []byte
		want  []uint64
	}{{F32, raw32, want}, {F64, raw64, nans}} {
		x, err := New("x", c.dtype, []int{len(c.want)}, c.raw)
		if err != nil {
			t.Fatal(err)
		}
		v, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		for i := range v {
			if math.Float64bits(v[i]) != c.want[i] {
				t.Errorf("%s %d: got %#x, want %#x", c.dtype, i, math.Float64bits(v[i]), c.want[i])
			}
		}
		wide, err := OfFloat64s("x", F64, x.Shape, v)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(wide.Bytes(), same64[:8*len(v)]) {
			t.Errorf("%s: F64 bits differ", c.dtype)
		}
	}
}

// Storing never rounds.
func TestOfFloat64sRefuses(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		v     float64
		want  string
	}{
		{F32, 0.1, `"x" value 1: 0.1: want a float32 number`},
		{F16, 2049, `"x" value 1: 2049: want a float16 number`},
		{F16, 65520, `"x" value 1: 65520: want a float16 number`},
		{BF16, 257, `"x" value 1: 257: want a bfloat16 number`},
		{F32, 0x1p-150, `"x" value 1: 7.006492321624085e-46: want a float32 number`},
		{I64, 1, `"x" dtype: "I64": want F64, F32, F16 or BF16`},
	} {
		if _, err := OfFloat64s("x", c.dtype, []int{2}, []float64{0, c.v}); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if _, err := OfFloat64s("x", F32, []int{3}, []float64{0, 1}); err == nil ||
		err.Error() != `"x" data: 8 bytes: want 12 bytes for F32 [3]` {
		t.Error(err)
	}
}

func TestInt64s(t *testing.T) {
	raw := []byte{0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		dtype DType
		n     int
		want  []int64
	}{
		{I8, 3, []int64{-128, -1, -1}},
		{U8, 3, []int64{128, 255, 255}},
		{I16, 2, []int64{-128, -1}},
		{U16, 2, []int64{65408, 65535}},
		{I32, 2, []int64{-128, -1}},
		{U32, 2, []int64{1<<32 - 128, 1<<32 - 1}},
		{I64, 2, []int64{-128, 0x07060504_0302017f}},
	} {
		x, err := New("x", c.dtype, []int{c.n}, raw[:c.n*c.dtype.Size()])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.Int64s(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v %v, want %v", c.dtype, got, err, c.want)
		}
		if _, err := x.Float64s(); err == nil || err.Error() != `"x" dtype: `+string(c.dtype)+`: want F64, F32, F16 or BF16` {
			t.Errorf("%s: %v", c.dtype, err)
		}
	}
	u, _ := New("x", U64, []int{1}, raw[8:])
	if got, err := u.Int64s(); err != nil || got[0] != 0x07060504_0302017f {
		t.Error(got, err)
	}
	u, _ = New("x", U64, []int{1}, raw[:8])
	if _, err := u.Int64s(); err == nil || err.Error() != `"x" value 0: 18446744073709551488: want at most 2^63-1` {
		t.Error(err)
	}
	b, _ := New("x", BOOL, []int{3}, []byte{0, 1, 7})
	if got, err := b.Int64s(); err != nil || !slices.Equal(got, []int64{0, 1, 1}) {
		t.Error(got, err)
	}
	f, _ := New("x", F32, []int{0}, nil) // refused even without elements
	if _, err := f.Int64s(); err == nil ||
		err.Error() != `"x" dtype: F32: want an integer type, I8 to I64 or U8 to U64, or BOOL` {
		t.Error(err)
	}
}

func TestMissingTensor(t *testing.T) {
	var tensors []*Tensor
	for i := range 10 {
		x, err := New(fmt.Sprint("t", i), U8, []int{1}, []byte{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, x)
	}
	for _, c := range []struct {
		n    int
		want string
	}{
		{0, `w: tensor: "no": want no tensor: the file has none`},
		{2, `w: tensor: "no": want one of "t0", "t1"`},
		{8, `w: tensor: "no": want one of "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"`},
		{10, `w: tensor: "no": want one of "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7" and 2 more`},
	} {
		var b bytes.Buffer
		if err := Write(&b, tensors[:c.n], nil); err != nil {
			t.Fatal(err)
		}
		f, err := Parse("w", b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Tensor("no"); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// A small file, byte by byte.
func TestWriteBytes(t *testing.T) {
	a, _ := OfFloat64s("a<b", F32, []int{2}, []float64{1, -2})
	s, _ := New("s", U8, nil, []byte{7})
	var b bytes.Buffer
	if err := Write(&b, []*Tensor{a, s}, map[string]string{"k": "v\n", "j": "é"}); err != nil {
		t.Fatal(err)
	}
	head := `{"__metadata__":{"j":"é","k":"v\n"},"a<b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},` +
		`"s":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}`
	for len(head)%8 != 0 {
		head += " "
	}
	want := string(claim(uint64(len(head)), head)) + "\x00\x00\x80\x3f\x00\x00\x00\xc0\x07"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

func TestWriteRefuses(t *testing.T) {
	x := func(name string, shape ...int) *Tensor {
		return &Tensor{Name: name, DType: F64, Shape: shape, raw: make([]byte, 8)}
	}
	for _, c := range []struct {
		tensors  []*Tensor
		metadata map[string]string
		want     string
	}{
		{[]*Tensor{x("a"), x("a")}, nil, `"a" name: "a": want UTF-8, each name once, none __metadata__`},
		{[]*Tensor{x("__metadata__")}, nil,
			`"__metadata__" name: "__metadata__": want UTF-8, each name once, none __metadata__`},
		{[]*Tensor{x("\xff")}, nil, `"\xff" name: "\xff": want UTF-8, each name once, none __metadata__`},
		{[]*Tensor{x("a", -1)}, nil, `"a" shape: [-1]: want dimensions of 0 or more`},
		{[]*Tensor{x("a", 2)}, nil, `"a" data: 8 bytes: want 16 bytes`},
		{[]*Tensor{x("a", 1<<59), x("b", 1<<59)}, nil,
			`"b" shape: [576460752303423488]: want a file of fewer bytes than an int counts`},
		{[]*Tensor{{Name: "a", DType: "F4", Shape: []int{2}}}, nil, `"a" dtype: "F4": want one of ` + dtypeNames()},
		{nil, map[string]string{"k": "\xff"}, `__metadata__ "k": "\xff": want UTF-8`},
	} {
		var b bytes.Buffer
		if err := Write(&b, c.tensors, c.metadata); err == nil || err.Error() != c.want || b.Len() > 0 {
			t.Errorf("got  %v (%d bytes written)\nwant %s", err, b.Len(), c.want)
		}
	}
}

// A file takes its name only when it is whole, and a failure leaves nothing.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.safetensors")
	files := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	a, _ := OfFloat64s("a", F16, []int{2, 1}, []float64{0.5, -65504})
	for range 2 { // the second replaces the first
		if err := WriteFile(path, []*Tensor{a}, map[string]string{"k": "v"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(path, []*Tensor{a, a}, nil); err == nil ||
		err.Error() != path+`: "a" name: "a": want UTF-8, each name once, none __metadata__` {
		t.Error(err)
	}
	if got := files(); !slices.Equal(got, []string{"w.safetensors"}) {
		t.Errorf("left behind: %v", got)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	v, err := x.Float64s()
	if err != nil || !slices.Equal(v, []float64{0.5, -65504}) || !slices.Equal(x.Shape, []int{2, 1}) ||
		f.Metadata["k"] != "v" {
		t.Error(v, x.Shape, f.Metadata, err)
	}
	if err := WriteFile(filepath.Join(dir, "none", "w"), []*Tensor{a}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Error(err)
	}
	if _, err := Open(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Every file of testdata, written by PyTorch, is read, and what is written of
// it is read as the same.
func TestTestdata(t *testing.T) {
	count := 0
	err := filepath.WalkDir("../testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".safetensors" {
			return err
		}
		count++
		f, err := Open(path)
		if err != nil {
			return err
		}
		roundTrip(t, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 40 {
		t.Errorf("%d files, want the fixtures", count)
	}
}

// roundTrip writes f, reads it again and compares everything.
func roundTrip(t *testing.T, f *File) {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, f.tensors, f.Metadata); err != nil {
		t.Fatal(err)
	}
	if n := binary.LittleEndian.Uint64(b.Bytes()); n%8 != 0 {
		t.Errorf("%s: header of %d bytes", f.Path, n)
	}
	g, err := Parse("again", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Names(), g.Names()) || !maps.Equal(f.Metadata, g.Metadata) {
		t.Fatalf("%s: names or metadata differ after a round trip", f.Path)
	}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		y, _ := g.Tensor(name)
		if x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(x.Bytes(), y.Bytes()) {
			t.Fatalf("%s: %q differs after a round trip", f.Path, name)
		}
		if format, ok := x.DType.Format(); ok {
			v, err := x.Float64s()
			if err != nil || len(v) != x.Len() {
				t.Fatal(err)
			}
			z, err := OfFloat64s(name, DTypeOf(format), x.Shape, v)
			if err != nil {
				t.Fatal(err)
			}
			w, err := z.Float64s()
			if err != nil ||
				!slices.EqualFunc(v, w, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
				t.Fatalf("%s: numbers of %q differ after a round trip: %v", f.Path, name, err)
			}
		}
	}
}

// FuzzParse: any bytes are refused in one line or are a file that survives a
// round trip.
func FuzzParse(f *testing.F) {
	half := le16(float16.Fromfloat32(1).Bits(), 0x7c01)
	f.Add(append(file(`{"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, 0), half...))
	f.Add(file("{}", 0))
	f.Add(claim(1<<60, "{}"))
	f.Add(tensorFile("F32", "[4294967296,4294967296]", "[0,0]", 0))
	f.Add(tensorFile("BF16", "[3,0,2]", "[0,0]", 0))
	f.Add(file(`{"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"F64",`+
		`"shape":[],"data_offsets":[4,12]}}  `, 12))
	f.Add(file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"I64","shape":[1],`+
		`"data_offsets":[1,9]}}`, 9))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data)
		if err != nil {
			if line := err.Error(); strings.ContainsAny(line, "\n\r") || !strings.HasPrefix(line, "f: ") ||
				!strings.Contains(line, ": want ") {
				t.Errorf("not the form of an error: %q", line)
			}
			return
		}
		roundTrip(t, file)
	})
}

// TestParseAt: a file left on disk gives the same tensors, whole and in parts,
// and what was cut off since is an error that names it.
func TestParseAt(t *testing.T) {
	a, err := OfFloat64s("a", F16, []int{2, 3}, []float64{1, 2, 3, 4, -5, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	b, err := OfFloat64s("b", F32, []int{2}, []float64{7, 8})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, []*Tensor{a, b}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := ParseAt("p", bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := x.Float64s(); err != nil || !slices.Equal(v, []float64{1, 2, 3, 4, -5, 0.5}) || x.Bytes() != nil {
		t.Errorf("read %v, %v, %d bytes in memory", v, err, len(x.Bytes()))
	}
	part := make([]float64, 2)
	if err := x.Read(3, part); err != nil || !slices.Equal(part, []float64{4, -5}) {
		t.Errorf("read %v, %v: want 4, -5", part, err)
	}
	if _, err := ParseAt("p", bytes.NewReader(out.Bytes()), int64(out.Len())-1); err == nil {
		t.Error("a file that is a byte short is read")
	}
	cut, err := ParseAt("p", bytes.NewReader(out.Bytes()[:out.Len()-4]), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	y, err := cut.Tensor("b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.Float64s(); err == nil || !strings.HasPrefix(err.Error(), "p: b: ") {
		t.Errorf("got %v: want an error that names p and b", err)
	}
}
