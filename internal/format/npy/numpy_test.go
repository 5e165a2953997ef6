package npy

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// quarters are the numbers of an array of n in testdata: -1, -0.75, ...
func quarters(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i)/4 - 1
	}
	return v
}

// Files written by numpy are read as what was written, and written as the same
// bytes where numpy writes what is written here.
func TestNumpyFiles(t *testing.T) {
	special := func(format fp16.Format, largest, tiny, least float64) testFile {
		return testFile{"", []int{10}, []float64{
			0, math.Copysign(0, -1), 1, -2.5, math.Inf(1), math.Inf(-1), fp16.NaN, largest, -tiny, least,
		}, format}
	}
	const none = fp16.Format(255)
	f8 := special(fp16.Float64, math.MaxFloat64, 0x1p-1022, 0x1p-1074)
	f4 := special(fp16.Float32, math.MaxFloat32, 0x1p-126, 0x1p-149)
	f2 := special(fp16.Float16, 65504, 0x1p-14, 0x1p-24)
	files := []testFile{
		f8.as("special_be_f8", none), f8.as("special_le_f8", fp16.Float64),
		f4.as("special_be_f4", none), f4.as("special_le_f4", fp16.Float32),
		f2.as("special_be_f2", none), f2.as("special_le_f2", fp16.Float16),
		{"integer_i1", []int{2, 3}, []float64{0, 1, 100, -128, -127, 64}, none},
		{"integer_u1", []int{2, 3}, []float64{0, 1, 100, 0, 1, 128}, none},
		{"integer_le_i2", []int{2, 3}, []float64{0, 1, 100, -1 << 15, -1<<15 + 1, 1 << 14}, none},
		{"integer_be_i2", []int{2, 3}, []float64{0, 1, 100, -1 << 15, -1<<15 + 1, 1 << 14}, none},
		{"integer_le_u2", []int{2, 3}, []float64{0, 1, 100, 0, 1, 1 << 15}, none},
		{"integer_le_i4", []int{2, 3}, []float64{0, 1, 100, -1 << 31, -1<<31 + 1, 1 << 30}, none},
		{"integer_be_u4", []int{2, 3}, []float64{0, 1, 100, 0, 1, 1 << 31}, none},
		{"integer_le_u8", []int{2, 3}, []float64{0, 1, 100, 0, 1, 1 << 63}, none},
		{"fortran_2", []int{2, 3}, quarters(6), none},
		{"fortran_3", []int{2, 3, 4}, quarters(24), none},
		{"fortran_4", []int{2, 3, 4, 3}, quarters(72), none},
		{"fortran_5", []int{2, 3, 4, 3, 2}, quarters(144), none},
		{"version_1", []int{3, 2}, quarters(6), fp16.Float32},
		{"version_2", []int{3, 2}, quarters(6), none},
		{"version_3", []int{3, 2}, quarters(6), none},
		{"scalar", []int{}, []float64{0.75}, fp16.Float32},
		{"empty", []int{3, 0, 2}, nil, fp16.Float64},
		// a header that just needs one more block of 64
		{"padding", append(slices.Repeat([]int{1}, 13), 111), make([]float64, 111), fp16.Float32},
		{"bfloat16", []int{4}, []float64{1, -2.5, math.Inf(1), 0x1p-133}, fp16.BFloat16},
	}
	for _, f := range files {
		path := "testdata/" + f.name + ".npy"
		a, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		defer a.Close()
		if f.format == fp16.BFloat16 {
			if a, err = a.BFloat16(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := a.Float64s()
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Equal(a.Shape, f.shape) || a.FortranOrder != strings.HasPrefix(f.name, "fortran") {
			t.Errorf("%s: shape %v, Fortran order %v", f.name, a.Shape, a.FortranOrder)
		}
		same(t, f.name, got, f.want)
		if f.format == none {
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b := write(t, f.format, f.shape, f.want); !bytes.Equal(b, want) {
			t.Errorf("%s: written as\n%q\nnumpy wrote\n%q", f.name, b, want)
		}
	}

	names, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".npy") {
			tested++
		}
	}
	if others := len(refusedByNumpyName) + 2; tested != len(files)+others {
		t.Errorf("%d files, want %d: one of testdata is not tested", tested, len(files)+others)
	}
}

type testFile struct {
	name   string
	shape  []int
	want   []float64
	format fp16.Format // of an equal file written here
}

func (f testFile) as(name string, format fp16.Format) testFile {
	f.name, f.format = name, format
	return f
}

var refusedByNumpyName = map[string]string{
	"bool":       `descr: "|b1": want a number type`,
	"complex":    `descr: "<c8": want a number type`,
	"object":     `descr: "|O": want a number type`,
	"text":       `descr: "<U2": want a number type`,
	"structured": `descr: "[('x', '<f4'), ('y', '<i2', (2,))], 'fortran_order': False, ...": want in quotes a number type`,
}

func TestNumpyRefused(t *testing.T) {
	for name, want := range refusedByNumpyName {
		path := "testdata/" + name + ".npy"
		refused(t, path, want, 1<<18, func() error {
			_, err := Open(path)
			return err
		})
	}
}

// Of 0, 1, 100, -2^63, -2^63+1, 2^62 float64 contains all but one.
func TestNumpyInt64(t *testing.T) {
	for _, name := range []string{"le", "be"} {
		path := "testdata/integer_" + name + "_i8.npy"
		a, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if _, err := a.Float64s(); err == nil ||
			err.Error() != path+": value 4: -9223372036854775807: want an integer that float64 contains" {
			t.Error(err)
		}
		v := make([]float64, 4)
		if err := a.ReadFloat64s(v, 0); err != nil {
			t.Error(err)
		}
		same(t, name, v, []float64{0, 1, 100, -1 << 63})
		if err := a.ReadFloat64s(v[:1], 5); err != nil || v[0] != 1<<62 {
			t.Error(v[0], err)
		}
	}
}

func TestNumpyArchives(t *testing.T) {
	for _, path := range []string{"testdata/stored.npz", "testdata/deflated.npz"} {
		z, err := OpenArchive(path)
		if err != nil {
			t.Fatal(err)
		}
		if names := z.Names(); !slices.Equal(names, []string{"a", "layer/b", "é"}) {
			t.Errorf("%s: %q", path, names)
		}
		var arrays []*Array
		for _, name := range z.Names() {
			a, err := z.Array(name)
			if err != nil {
				t.Fatal(err)
			}
			arrays = append(arrays, a)
		}
		for i, shape := range [][]int{{2, 3}, {3, 2}, {}} {
			a := arrays[i]
			v, err := a.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			same(t, path, v, quarters(a.Len()))
			if !slices.Equal(a.Shape, shape) || a.FortranOrder != (i == 1) || a.Close() != nil {
				t.Errorf("%s: %v", path, a)
			}
		}
		if err := z.Close(); err != nil {
			t.Error(err)
		}
	}
}
