package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/big"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// file builds a file of version 1.0 of a header and n bytes of data.
func file(dict string, n int) []byte {
	return version(1, 0, dict, n)
}

func version(major, minor byte, dict string, n int) []byte {
	b := append([]byte(magic), major, minor)
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)))
	}
	return append(append(b, dict...), make([]byte, n)...)
}

// of builds a file of a type and a shape, both as the header spells them.
func of(descr, shape string, n int) []byte {
	return file("{'descr': "+descr+", 'fortran_order': False, 'shape': "+shape+"}", n)
}

func parse(path string, data []byte) (*Array, error) {
	return Parse(path, bytes.NewReader(data), int64(len(data)))
}

// refused checks an error: one short line that begins with the path and says
// what was wanted, found with little memory.
func refused(t *testing.T, path, want string, most uint64, read func() error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := read()
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Fatal("accepted")
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T: %v", err, err)
	}
	line := err.Error()
	if !strings.HasPrefix(line, path+": "+want) || !strings.Contains(line, ": want ") {
		t.Errorf("got  %s\nwant %s: %s", line, path, want)
	}
	if strings.ContainsAny(line, "\n\r") || len(line) > 400 {
		t.Errorf("not one short line: %q", line)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("%d bytes allocated to refuse it, want at most %d", got, most)
	}
}

// Every way in which a file can lie is one line that names the file, the field,
// what was found and what would have been right, and costs no memory to find.
func TestHostile(t *testing.T) {
	good := "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"empty", `file: 0 bytes: want at least the 10 bytes of magic, version and header length`, nil},
		{"nine bytes", `file: 9 bytes: want at least the 10`, []byte(magic + "\x01\x00\x00")},
		{"version 2 of eleven bytes", `file: 11 bytes: want at least the 12`, []byte(magic + "\x02\x00\x00\x00\x00")},
		{"magic", `magic: "\x93NUMPX": want "\x93NUMPY"`, []byte("\x93NUMPX\x01\x00\x00\x00")},
		{"magic's first byte", `magic: "\x92NUMPY": want "\x93NUMPY"`, []byte("\x92NUMPY\x01\x00\x00\x00")},
		{"a zip file", `magic: "PK\x03\x04\x00\x00": want "\x93NUMPY"`, []byte("PK\x03\x04\x00\x00\x00\x00\x00\x00")},
		{"version 0.0", `version: 0.0: want 1.0, 2.0 or 3.0`, version(0, 0, good, 8)},
		{"version 1.1", `version: 1.1: want 1.0, 2.0 or 3.0`, version(1, 1, good, 8)},
		{"version 4.0", `version: 4.0: want 1.0, 2.0 or 3.0`, version(4, 0, good, 8)},
		{"length one too many", `header length: 5: want at most 4, the lesser of the 4 bytes left in the file ` +
			`and 10000`, []byte(magic + "\x01\x00\x05\x00{   ")},
		{"length 2^32-1", `header length: 4294967295: want at most 2, `, []byte(magic + "\x02\x00\xff\xff\xff\xff{}")},
		{"length over the limit", `header length: 10001: want at most 10000, `,
			version(3, 0, good+strings.Repeat(" ", 10001-len(good)), 8)},

		{"no header", `header: "": want a Python dict, beginning with {`, file("", 0)},
		{"header a list", `header: "[1]": want a Python dict, `, file("[1]", 0)},
		{"header truncated", `header: "": want 'key': or }`, file("{'descr': '<f4',", 0)},
		{"header ends in a string", `descr: "'<f": want in quotes a number type`, file("{'descr': '<f", 0)},
		{"header ends in a tuple", `shape: "": want integers from 0 to 2^63-1`, file("{'shape': (1,", 0)},
		{"no colon", `header: "'<f4'}": want 'key': or }`, file("{'descr' '<f4'}", 0)},
		{"only a comma", `header: ",}": want 'key': or }`, file("{,}", 0)},
		{"two commas", `header: ", 'shape'`, file("{'descr': '<f4',, 'shape'", 0)},
		{"no comma", `descr: "'shape': ()}": want , or } after the value`, file("{'descr': '<f4' 'shape': ()}", 0)},
		{"key no string", `header: "1: 2}": want 'key': or }`, file("{1: 2}", 0)},
		{"quotes mixed", `header: "\"descr': '<f4'}": want 'key': or }`, file("{\"descr': '<f4'}", 0)},
		{"key escaped", `header: "'desc\\x72': '<f4'}": want 'key': or }`, file(`{'desc\x72': '<f4'}`, 0)},
		{"key prefixed", `header: "b'descr': '<f4'}": want 'key': or }`, file(`{b'descr': '<f4'}`, 0)},
		{"a call", `shape: "__import__('os')}": want a tuple, beginning with (`, file("{'shape': __import__('os')}", 0)},
		{"key unknown", `header: "strides": want only the keys descr, fortran_order, shape`, file("{'strides': (1,)}", 0)},
		{"key empty", `header: "": want only the keys`, file("{'': (1,)}", 0)},
		{"key twice", `header: "shape": want each key once`, file("{'shape': (1,), 'shape': (2,)}", 0)},
		{"empty dict", `descr: missing: want the keys descr, fortran_order, shape`, file("{}", 0)},
		{"no descr", `descr: missing: want`, file("{'fortran_order': False, 'shape': ()}", 4)},
		{"no order", `fortran_order: missing: want`, file("{'descr': '<f4', 'shape': ()}", 4)},
		{"no shape", `shape: missing: want`, file("{'descr': '<f4', 'fortran_order': False}", 4)},
		{"after the dict", `header: "{}": want only spaces and a newline after the dict`, file(good+" {}", 8)},
		{"a zero after the dict", `header: "\x00": want only spaces`, file(good+"\x00", 8)},
		{"a comment", `header: "# end": want only spaces`, file(good+" # end", 8)},

		{"type unknown", `descr: "<f3": want a number type f2, f4, f8, i1 to i8 or u1 to u8 with its byte order, ` +
			`such as <f4: no pickled objects, no structures`, of("'<f3'", "()", 3)},
		{"type without order", `descr: "f4": want a number type`, of("'f4'", "()", 4)},
		{"type in native order", `descr: "=f4": want a number type`, of("'=f4'", "()", 4)},
		{"type of no order", `descr: "|f4": want a number type`, of("'|f4'", "()", 4)},
		{"type of half a byte", `descr: "<f0": want a number type`, of("'<f0'", "()", 0)},
		{"type of 16 bytes", `descr: "<f16": want a number type`, of("'<f16'", "()", 16)},
		{"type f1", `descr: "<f1": want a number type`, of("'<f1'", "()", 1)},
		{"type i3", `descr: "<i3": want a number type`, of("'<i3'", "()", 3)},
		{"type empty", `descr: "": want a number type`, of("''", "()", 0)},
		{"type structured", `descr: "[('x', '<f4')], 'fortran_order': False, ` +
			`'shape': ()}": want in quotes a number type`, of("[('x', '<f4')]", "()", 4)},
		{"type None", `descr: "None, 'fortran_order': False, 'shape': ()}": want in quotes`, of("None", "()", 4)},
		{"type long", `descr: "` + long[:60] + `...": want a number type`, of("'"+long+"'", "()", 4)},
		{"type of two lines", `descr: "'<f4\n', 'fortran_order'`, of("'<f4\n'", "()", 4)},
		{"type not UTF-8", `descr: "<\xff4": want a number type`, of("'<\xff4'", "()", 4)},

		{"order a number", `fortran_order: "0}": want True or False`, file("{'fortran_order': 0}", 0)},
		{"order lower case", `fortran_order: "true}": want True or False`, file("{'fortran_order': true}", 0)},
		{"order longer", `fortran_order: "r}": want , or }`, file("{'fortran_order': Truer}", 0)},

		{"shape a number", `shape: "4}": want a tuple, beginning with (`, of("'<f4'", "4", 16)},
		{"shape a list", `shape: "[4]}": want a tuple, beginning with (`, of("'<f4'", "[4]", 16)},
		{"shape in brackets", `shape: (4): want a tuple, (4,)`, of("'<f4'", "(4)", 16)},
		{"shape a comma", `shape: ",)}": want integers from 0 to 2^63-1`, of("'<f4'", "(,)", 4)},
		{"shape two commas", `shape: ",)}": want integers`, of("'<f4'", "(1,,)", 4)},
		{"shape without comma", `shape: "2)}": want , or )`, of("'<f4'", "(1 2)", 8)},
		{"shape negative", `shape: "-1,)}": want integers from 0 to 2^63-1`, of("'<f4'", "(-1,)", 0)},
		{"shape two negatives", `shape: "-1, -1)}": want integers`, of("'<f4'", "(-1, -1)", 4)},
		{"shape with a sign", `shape: "+1,)}": want integers`, of("'<f4'", "(+1,)", 4)},
		{"shape octal", `shape: "01,)}": want integers`, of("'<f4'", "(01,)", 4)},
		{"shape hexadecimal", `shape: "x1,)}": want , or )`, of("'<f4'", "(0x1,)", 4)},
		{"shape of Python 2", `shape: "L,)}": want , or )`, of("'<f4'", "(1L,)", 4)},
		{"shape a fraction", `shape: ".0,)}": want , or )`, of("'<f4'", "(1.0,)", 4)},
		{"shape grouped", `shape: "_0,)}": want , or )`, of("'<f4'", "(1_0,)", 40)},
		{"shape None", `shape: "None,)}": want integers`, of("'<f4'", "(None,)", 4)},
		{"shape True", `shape: "True,)}": want integers`, of("'<f4'", "(True,)", 4)},
		{"shape nested", `shape: "(1,),)}": want integers`, of("'<f4'", "((1,),)", 4)},
		{"shape 2^63", `shape: "9223372036854775808,)}": want integers`, of("'|u1'", "(9223372036854775808,)", 0)},
		{"shape long", `shape: "` + strings.Repeat("1", 60) + `...": want integers`,
			of("'|u1'", "("+strings.Repeat("1", 1000)+",)", 0)},
		{"size overflow to 0", `shape: [4294967296,4294967296]: want fewer bytes of data than an int counts`,
			of("'|u1'", "(4294967296, 4294967296)", 0)},
		{"size overflow by type", `shape: [2305843009213693952]: want fewer bytes`, of("'<f8'", "(2305843009213693952,)", 0)},
		{"size 2^63", `shape: [1152921504606846976]: want fewer bytes`, of("'<f8'", "(1152921504606846976,)", 0)},
		{"size overflow beside a zero", `shape: [0,4294967296,4294967296]: want fewer bytes`,
			of("'|u1'", "(0, 4294967296, 4294967296)", 0)},
		{"65 dimensions", `shape: 65 dimensions: want at most 64`, of("'|u1'", "("+strings.Repeat("1,", 65)+")", 1)},
		{"4000 dimensions", `shape: 4000 dimensions: want at most 64`, of("'|u1'", "("+strings.Repeat("1,", 4000)+")", 1)},

		{"no data", `data: 0 bytes: want exactly 8 for <f4 [2]`, file(good, 0)},
		{"one byte short", `data: 7 bytes: want exactly 8 for <f4 [2]`, file(good, 7)},
		{"one byte more", `data: 9 bytes: want exactly 8 for <f4 [2]`, file(good, 9)},
		{"a scalar without data", `data: 0 bytes: want exactly 4 for <f4 []`, of("'<f4'", "()", 0)},
		{"an empty array with data", `data: 1 byte: want exactly 0 for <f4 [0]`, of("'<f4'", "(0,)", 1)},
		{"a claim of 2^62 bytes", `data: 4 bytes: want exactly 4611686018427387904 for <f4 [1152921504606846976]`,
			of("'<f4'", "(1152921504606846976,)", 4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, "dir/x.npy", c.want, 1<<18, func() error {
				_, err := parse("dir/x.npy", c.data)
				return err
			})
		})
	}
}

// What the format allows though it looks odd.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name  string
		data  []byte
		shape []int
		order bool
	}{
		{"no padding", file("{'descr':'<f4','fortran_order':False,'shape':(2,3)}", 24), []int{2, 3}, false},
		{"double quotes, other order, newlines", file("\n{\"shape\" : ( 2 ,\t3, ) ,\r\n"+
			"\"fortran_order\":True , \"descr\": \"<f4\" , } \n\n", 24), []int{2, 3}, true},
		{"scalar", of("'<f4'", "()", 4), []int{}, false},
		{"scalar with a space", of("'<f4'", "( )", 4), []int{}, false},
		{"empty", of("'<f4'", "(3, 0, 2)", 0), []int{3, 0, 2}, false},
		{"empty and long", of("'<f4'", "(0, 1152921504606846976)", 0), []int{0, 1 << 60}, false},
		{"bytes with an order", of("'>u1'", "(2,)", 2), []int{2}, false},
		{"64 dimensions", of("'|i1'", "("+strings.Repeat("1,", 64)+")", 1), slices.Repeat([]int{1}, 64), false},
		{"version 2 and a short header", version(2, 0, "{'descr':'<f8','fortran_order':False,'shape':()}", 8),
			[]int{}, false},
		{"version 3 and a long header", version(3, 0,
			"{'descr':'<f8','fortran_order':False,'shape':()}"+strings.Repeat(" ", maxHeader-48), 8), []int{}, false},
	} {
		a, err := parse(c.name, c.data)
		if err != nil {
			t.Error(err)
			continue
		}
		v, err := a.Float64s()
		if err != nil || !slices.Equal(a.Shape, c.shape) || a.FortranOrder != c.order || len(v) != a.Len() {
			t.Errorf("%s: %v, %v values, %v", c.name, a, len(v), err)
		}
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open("testdata"); err == nil || !strings.HasSuffix(err.Error(), "want a regular file") {
		t.Error(err)
	}
	if _, err := Open("testdata/none.npy"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open("testdata/README.md"); err == nil ||
		!strings.HasPrefix(err.Error(), `testdata/README.md: magic: "Files `) {
		t.Error(err)
	}
	if _, err := OpenArchive("testdata"); err == nil || !strings.HasSuffix(err.Error(), "want a regular file") {
		t.Error(err)
	}
	if _, err := OpenArchive("testdata/README.md"); err == nil ||
		err.Error() != `testdata/README.md: file: "zip: not a valid zip file": want a zip archive` {
		t.Error(err)
	}
	a, err := Open(filepath.Join("testdata", "scalar.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.Float64s(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read from a closed file: %v", err)
	}
}

// All 65536 half and bfloat16 numbers in both byte orders, against their
// definitions: read exactly, and written back as the same bits, NaNs as the
// one NaN.
func TestHalves(t *testing.T) {
	for _, c := range []struct {
		format  fp16.Format
		descr   string
		p, emax int
		nan     uint16
	}{{fp16.Float16, "f2", 11, 15, 0x7e00}, {fp16.BFloat16, "u2", 8, 127, 0x7fc0}} {
		want, wantBits := make([]float64, 1<<16), []byte{}
		for i := range want {
			m, e, b := i&(1<<(c.p-1)-1), i&0x7fff>>(c.p-1), uint16(i)
			v := math.Ldexp(float64(m+1<<(c.p-1)), e-c.emax-(c.p-1))
			switch {
			case e == 2*c.emax+1 && m != 0:
				v, b = fp16.NaN, c.nan
			case e == 2*c.emax+1:
				v = math.Inf(1)
			case e == 0:
				v = math.Ldexp(float64(m), 1-c.emax-(c.p-1))
			}
			if i >= 1<<15 && v == v {
				v = -v
			}
			want[i], wantBits = v, binary.LittleEndian.AppendUint16(wantBits, b)
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			descr := "<" + c.descr
			if order == binary.BigEndian {
				descr = ">" + c.descr
			}
			data := of("'"+descr+"'", "(65536,)", 0)
			for i := range 1 << 16 {
				data = order.AppendUint16(data, uint16(i))
			}
			a, err := parse("x", data)
			if err != nil {
				t.Fatal(err)
			}
			if c.format == fp16.BFloat16 {
				if a, err = a.BFloat16(); err != nil {
					t.Fatal(err)
				}
			}
			got, err := a.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			if f, ok := a.Format(); f != c.format || !ok {
				t.Errorf("%s: format %v", descr, f)
			}
			same(t, descr, got, want)
		}
		back := write(t, c.format, []int{1 << 16}, want)
		if !bytes.Equal(back[len(back)-1<<17:], wantBits) {
			t.Errorf("%v: bits differ after a round trip", c.format)
		}
	}
}

// same compares bits.
func same(t *testing.T, name string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", name, len(got), len(want))
	}
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: value %d is %v (%#x), want %v (%#x)", name, i,
				got[i], math.Float64bits(got[i]), want[i], math.Float64bits(want[i]))
		}
	}
}

// write returns a file.
func write(t *testing.T, f fp16.Format, shape []int, values []float64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, f, shape)
	if err == nil {
		err = errors.Join(w.Write(values), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Every NaN of every width is read as the one NaN.
func TestNaNs(t *testing.T) {
	for _, c := range []struct{ descr, bits string }{
		{"<f8", "\x01\x00\x00\x00\x00\x00\xf0\x7f\xff\xff\xff\xff\xff\xff\xff\xff"},
		{">f4", "\x7f\x80\x00\x01\xff\xc1\x23\x45"},
	} {
		a, err := parse("x", append(of("'"+c.descr+"'", "(2,)", 0), c.bits...))
		if err != nil {
			t.Fatal(err)
		}
		v, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		same(t, c.descr, v, []float64{fp16.NaN, fp16.NaN})
	}
}

// Integers around the powers of two are read exactly or refused, as math/big
// says.
func TestIntegers(t *testing.T) {
	exact, inexact := 0, 0
	for _, size := range []int{1, 2, 4, 8} {
		for _, kind := range "iu" {
			e := element{kind: byte(kind), size: size}
			for k := range 64 {
				for d := range uint64(9) {
					u := (uint64(1)<<k + d - 4) & (math.MaxUint64 >> (64 - 8*size))
					n := new(big.Int).SetUint64(u)
					if kind == 'i' && n.Bit(8*size-1) == 1 {
						n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
					}
					want, accuracy := new(big.Float).SetInt(n).Float64()
					got, ok := e.value(u)
					if ok != (accuracy == big.Exact) || ok && got != want || e.integer(u) != n.String() {
						t.Fatalf("%c%d %v: got %v, %v, %s", kind, size, n, got, ok, e.integer(u))
					}
					if ok {
						exact++
					} else {
						inexact++
					}
				}
			}
		}
	}
	if exact < 1000 || inexact < 100 {
		t.Errorf("%d exact, %d not: want both", exact, inexact)
	}
}

// Only u2 can be the bits of bfloat16 numbers.
func TestBFloat16Refuses(t *testing.T) {
	for _, descr := range []string{"<i2", "<f2", "|u1", "<u4"} {
		a, err := parse("x", of("'"+descr+"'", "(0,)", 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.BFloat16(); err == nil ||
			err.Error() != `x: descr: "`+descr+`": want <u2 or >u2, the bits of bfloat16 numbers` {
			t.Error(err)
		}
		if a, _ = parse("x", of("'<u2'", "(1,)", 2)); a == nil {
			t.Fatal("no u2")
		}
		if _, ok := a.Format(); ok {
			t.Error("u2 has a format before BFloat16")
		}
	}
}

// Any part, in both orders of the file, is that part of the whole.
func TestReadFloat64s(t *testing.T) {
	for _, order := range []string{"False", "True"} {
		data := file("{'descr': '>i2', 'fortran_order': "+order+", 'shape': (3, 1, 4, 2)}", 0)
		for i := range 24 {
			data = binary.BigEndian.AppendUint16(data, uint16(i*i-100))
		}
		a, err := parse("x", data)
		if err != nil {
			t.Fatal(err)
		}
		all, err := a.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range all {
			k := i
			if order == "True" { // i = (x*4 + y)*2 + z lies at x + 3*(y + 4*z)
				k = i/8 + 3*(i/2%4+4*(i%2))
			}
			if v != float64(k*k-100) {
				t.Fatalf("Fortran order %s: value %d is %v, want %d", order, i, v, k*k-100)
			}
		}
		for at := range 25 {
			for n := range 25 - at {
				part := make([]float64, n)
				if err := a.ReadFloat64s(part, at); err != nil {
					t.Fatal(err)
				}
				same(t, "part", part, all[at:at+n])
			}
		}
	}
	a, _ := parse("x", of("'<f8'", "(3,)", 24))
	for _, c := range []struct {
		n, at int
		want  string
	}{
		{1, -1, "x: elements: 1 from -1 on: want some of the array's 3"},
		{1, 3, "x: elements: 1 from 3 on: want some of the array's 3"},
		{4, 0, "x: elements: 4 from 0 on: want some of the array's 3"},
		{2, 2, "x: elements: 2 from 2 on: want some of the array's 3"},
		{2, math.MaxInt, "x: elements: 2 from 9223372036854775807 on: want some of the array's 3"},
		{0, 4, "x: elements: 0 from 4 on: want some of the array's 3"},
	} {
		if err := a.ReadFloat64s(make([]float64, c.n), c.at); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// A part of a large file is read without the rest.
func TestLargeFile(t *testing.T) {
	const count = 1 << 40
	head := of("'<f4'", "(1099511627776,)", 0)
	r := &sparse{head: head, size: int64(len(head)) + 4*count}
	a, err := Parse("x", r, r.size)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float64, 50_000) // more than one buffer
	if err := a.ReadFloat64s(v, count-len(v)); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(v, func(v float64) bool { return v != 3.0009765625 }); i >= 0 { // 0x40401000
		t.Errorf("value %d: %v", i, v[i])
	}
	if most := len(head) + 4*len(v) + 100; r.read > most {
		t.Errorf("%d bytes read, want at most %d", r.read, most)
	}
	// A file that was cut since.
	r.size -= 4
	if err := a.ReadFloat64s(v[:2], count-2); err == nil ||
		err.Error() != "x: data: end early: want the bytes that size and header promise" {
		t.Error(err)
	}
}

// sparse is a file of a header and of bytes 00 10 40 40 repeated.
type sparse struct {
	head []byte
	size int64
	read int
}

func (s *sparse) ReadAt(b []byte, at int64) (n int, err error) {
	for ; n < len(b) && at < s.size; n, at = n+1, at+1 {
		if k := at - int64(len(s.head)); k < 0 {
			b[n] = s.head[at]
		} else {
			b[n] = "\x00\x10\x40\x40"[k%4]
		}
	}
	s.read += n
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}
