package molecule

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
)

const water = `3
Properties=species:S:1:pos:R:3:forces:R:3:tag:I:1 energy=-76.4 pbc="F F F" name="a \"wet\" thing" ` +
	`list=[[1, 2], [3, 4]] flag Lattice="9 0 0 0 9 0 0 0 9"
O 0 0 0.1 1 2 3 7
H 0.75 0 -0.5 -1 0 0.5 8
1 -0.75 0 -5.0d-1 0 -2 -3.5 9

2
a plain comment
C 0 0 0 extra
O 1.128 0 0
`

func TestXYZ(t *testing.T) {
	all, err := ReadXYZ("water.xyz", []byte(water))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || !reflect.DeepEqual(all[0].Numbers, []int{8, 1, 1}) || *all[0].Energy != -76.4 ||
		all[0].Forces[8] != -3.5 || all[0].Positions[8] != -0.5 {
		t.Errorf("%+v", all[0])
	}
	if got := all[0].Info; len(got) != 5 || got[1].Value != `a "wet" thing` || got[2].Value != "[[1, 2], [3, 4]]" ||
		got[3] != (Entry{"flag", "T"}) {
		t.Errorf("%q", got)
	}
	if all[1].Forces != nil || all[1].Energy != nil || all[1].Info[0] != (Entry{"", "a plain comment"}) ||
		all[1].Formula() != "CO" || all[0].Formula() != "H2O" {
		t.Errorf("%+v %s %s", all[1], all[1].Formula(), all[0].Formula())
	}
	var b bytes.Buffer
	if err := WriteXYZ(&b, all, fp16.Float64); err != nil {
		t.Fatal(err)
	}
	again, err := ReadXYZ("again.xyz", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	again[1].Info[0].Key = ""
	if !reflect.DeepEqual(again, all) {
		t.Errorf("read again:\n%+v\nwant\n%+v\n%s", again[0], all[0], b.String())
	}
}

func TestXYZErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "no molecule",
		"x\n\n":                       "line 1: \"x\": want the number of atoms",
		"2\n\nH 0 0 0\n":              "1 atoms: want 2",
		"1\n\nH 0 0\n":                "3 fields: want 4",
		"1\n\nQq 0 0 0\n":             "want a chemical symbol",
		"1\n\nH 0 0 z\n":              "\"z\": want a number",
		"1\npbc=\"T F F\"\nH 0 0 0\n": "periodic",
		"1\nname=\"x\nH 0 0 0\n":      "want a closing",
		"1\nProperties=pos:R:3\nH\n":  "want species:S:1 or Z:I:1",
		"1\nProperties=pos:R\nH\n":    "want name:type:columns",
		"1\nProperties=species:S:1:pos:R:3:pos:R:3\nH 0 0 0 0 0 0\n": "\"pos\" twice",
		"1\nProperties=species:S:1:pos:R:1:pos:R:3\nH 0 0 0 0\n":     "\"pos\" twice",
		"1\nenergy=low\nH 0 0 0\n":                                   "energy: \"low\"",
		"999999999999999999\nx\nH 0 0":                               "3 fields",
	} {
		_, err := ReadXYZ("f.xyz", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f.xyz: ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReadXYZ(f *testing.F) {
	f.Add([]byte(water))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ReadXYZ("f", data)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteXYZ(&b, all, fp16.Float64); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadXYZ("f", b.Bytes()); err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, b.String())
		}
	})
}
