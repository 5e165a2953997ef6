package strict

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func parse(t *testing.T, data string) *Object {
	t.Helper()
	o, err := Parse("f.json", "a.b", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestValues reads every kind of value, and refuses what is none of its kind.
func TestValues(t *testing.T) {
	for _, k := range []struct {
		value string
		get   func(o *Object) any
		want  any    // the value,
		err   string // or the message after "f.json: a.b.k: "
	}{
		{`7`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, int64(7), ""},
		{`-0`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, int64(0), ""},
		{`null`, func(o *Object) any { return o.Int("k", 1, 5, 9) }, int64(1), ""}, // a default may lie outside
		{`9`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, int64(9), ""},
		{`10`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, nil, "10: want an integer from 0 to 9"},
		{`-1`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, nil, "-1: want an integer from 0 to 9"},
		{`7.0`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, nil, "7.0: want an integer from 0 to 9"},
		{`"7"`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, nil, `"7": want an integer from 0 to 9`},
		{`[7]`, func(o *Object) any { return o.Int("k", 1, 0, 9) }, nil, "[7]: want an integer from 0 to 9"},
		{`9223372036854775808`, func(o *Object) any { return o.Int("k", 1, 0, math.MaxInt64) }, nil,
			"9223372036854775808: want an integer from 0 to 9223372036854775807"},
		{`3`, func(o *Object) any { return o.Int("k", 2, 2, 2) }, nil, "3: want 2"},
		{`true`, func(o *Object) any { return o.Int("k", 2, 2, 2) }, nil, "true: want 2"},

		{`5`, seed, uint64(5), ""},
		{`-1`, seed, uint64(math.MaxUint64), ""},
		{`18446744073709551615`, seed, uint64(math.MaxUint64), ""},
		{`-9223372036854775808`, seed, uint64(1 << 63), ""},
		{`null`, seed, nil, ""},
		{`18446744073709551616`, seed, nil, "18446744073709551616: want an integer of 64 bits"},
		{`-9223372036854775809`, seed, nil, "-9223372036854775809: want an integer of 64 bits"},
		{`1e3`, seed, nil, "1e3: want an integer of 64 bits"},

		{`1e3`, func(o *Object) any { return o.Float("k", 1) }, 1000., ""},
		{`1e-400`, func(o *Object) any { return o.Float("k", 1) }, 0., ""},
		{`null`, func(o *Object) any { return o.Float("k", 0.5) }, 0.5, ""},
		{`1e400`, func(o *Object) any { return o.Float("k", 1) }, nil, "1e400: want a finite number"},
		{`-1e400`, func(o *Object) any { return o.Float("k", 1) }, nil, "-1e400: want a finite number"},
		{`"inf"`, func(o *Object) any { return o.Float("k", 1) }, nil, `"inf": want a finite number`},
		{`{ "x" : 1 }`, func(o *Object) any { return o.Float("k", 1) }, nil, `{ "x" : 1 }: want a finite number`},

		{`[1, -2.5]`, func(o *Object) any { return o.Floats("k") }, []float64{1, -2.5}, ""},
		{`[]`, func(o *Object) any { return o.Floats("k") }, []float64{}, ""},
		{`null`, func(o *Object) any { return o.Floats("k") }, []float64(nil), ""},
		{`[1, null]`, func(o *Object) any { return o.Floats("k") }, nil, "[1, null]: want a list of finite numbers"},
		{`[1, "2"]`, func(o *Object) any { return o.Floats("k") }, nil, `[1, "2"]: want a list of finite numbers`},
		{`[1e400]`, func(o *Object) any { return o.Floats("k") }, nil, "[1e400]: want a list of finite numbers"},
		{`1`, func(o *Object) any { return o.Floats("k") }, nil, "1: want a list of finite numbers"},

		{`["a", ""]`, func(o *Object) any { return o.Strings("k") }, []string{"a", ""}, ""},
		{`[]`, func(o *Object) any { return o.Strings("k") }, []string{}, ""},
		{`null`, func(o *Object) any { return o.Strings("k") }, []string(nil), ""},
		{`["a", null]`, func(o *Object) any { return o.Strings("k") }, nil, `["a", null]: want a list of strings`},
		{`["a", 1]`, func(o *Object) any { return o.Strings("k") }, nil, `["a", 1]: want a list of strings`},
		{`"a"`, func(o *Object) any { return o.Strings("k") }, nil, `"a": want a list of strings`},

		{`"a\u0062\n"`, func(o *Object) any { return o.String("k", "") }, "ab\n", ""},
		{`""`, func(o *Object) any { return o.String("k", "x") }, "", ""},
		{`null`, func(o *Object) any { return o.String("k", "x") }, "x", ""},
		{`1`, func(o *Object) any { return o.String("k", "") }, nil, "1: want a string"},
		{`true`, func(o *Object) any { return o.Bool("k", false) }, true, ""},
		{`null`, func(o *Object) any { return o.Bool("k", true) }, true, ""},
		{`0`, func(o *Object) any { return o.Bool("k", true) }, nil, "0: want true or false"},
		{`"true"`, func(o *Object) any { return o.Bool("k", true) }, nil, `"true": want true or false`},
		{`[1]`, child, nil, "want a JSON object"},
		{`{"x": 1, "x": 1}`, child, nil, "x: given twice: want it once"},
		{`null`, child, nil, ""},
		{`"` + strings.Repeat("ä", 100) + `"`, child, nil, "want a JSON object"},
		{`"` + strings.Repeat("ä", 100) + `"`, func(o *Object) any { return o.Float("k", 1) }, nil,
			`"` + strings.Repeat("ä", 28) + `...: want a finite number`},
	} {
		o := parse(t, `{"k": `+k.value+`}`)
		got := k.get(o)
		err := o.Close()
		if k.err == "" {
			if err != nil || !reflect.DeepEqual(got, k.want) {
				t.Errorf("%s is %#v (%v), want %#v", k.value, got, err, k.want)
			}
			continue
		}
		sep := ": "
		if strings.HasPrefix(k.err, "x: ") { // the field of a child
			sep = "."
		}
		if want := "f.json: a.b.k" + sep + k.err; err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", k.value, err, want)
		}
	}
}

func seed(o *Object) any {
	if s, ok := o.Seed("k"); ok {
		return s
	}
	return nil
}

func child(o *Object) any {
	if c := o.Child("k"); c != nil {
		return c
	}
	return nil
}

// TestClose: keys that nobody asked for are named, with those that are known;
// where there are none the first error stays.
func TestClose(t *testing.T) {
	for _, k := range []struct {
		data, want string
		read       func(o *Object)
	}{
		{`{}`, "", func(*Object) {}},
		{`{"b": 1, "a": 2}`, "f.json: a.b.a: unknown key: want one of c, d", func(o *Object) { o.Has("d"); o.Ignore("c") }},
		{`{"b": 1, "a": 2}`, "", func(o *Object) { o.Open() }},
		{`{"b": 1}`, "", func(o *Object) { o.Ignore("b") }},
		{`{"b": null}`, "f.json: a.b.b: missing: want a value", func(o *Object) { o.Need("b", "c") }},
		{`{"b": 1}`, "f.json: a.b.c: missing: want a value", func(o *Object) { o.Need("b", "c") }},
		{`{"b": 1, "c": 2}`, `f.json: a.b.b: 1: want a string`, func(o *Object) { o.String("b", ""); o.Bool("c", true) }},
		{`{"b": 1, "c": 2}`, `f.json: a.b.c: unknown key: want one of b`, func(o *Object) { o.String("b", "") }},
		{`{}`, `f.json: a.b.b: 1 is wrong`, func(o *Object) { o.Fail("b", "%d is wrong", 1); o.Fail("b", "again") }},
		{`{"\n": 1}`, `f.json: a.b."\n": unknown key: want one of `, func(*Object) {}},
		{`{"` + strings.Repeat("k", 100) + `": 1}`,
			`f.json: a.b."` + strings.Repeat("k", 57) + `...": unknown key: want one of `, func(*Object) {}},
	} {
		o := parse(t, k.data)
		k.read(o)
		err := o.Close()
		if (err == nil) != (k.want == "") || err != nil && err.Error() != k.want {
			t.Errorf("%s: error %v, want %s", k.data, err, k.want)
		}
	}
}

// FuzzParse: whatever a file holds, reading it ends with values in range or
// with one line that names the file; what is accepted is one JSON object, of
// which no key is lost.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"k": 1}`, `{"k": [1, null]}`, `{"k": 1, "k": 2}`, `{"k": 1, "\u006b": 2}`, `{}}`, `{} {}`, `[{}]`,
		`{"k": 1e400}`, `{"k": -1}`,
		`{"k": {"x": null}}`, "\xef\xbb\xbf{}", `{"k": "\ud800"}`, "{\"\xff\": 1, \"\xfe\": 2}",
		`{"k": 18446744073709551615}`, `{,}`, `{"k":}`, `{"k" 1}`, strings.Repeat("9", 5000), "{\"k\": 1}\x00",
	} {
		f.Add([]byte(s))
	}
	line := func(t *testing.T, err error) {
		if s := err.Error(); !strings.HasPrefix(s, "f.json: ") || strings.ContainsAny(s, "\n\r") || len(s) > 1000 {
			t.Errorf("error %.200q: want one line that begins with the file", s)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var all map[string]json.RawMessage
		valid := json.Unmarshal(data, &all) == nil && all != nil
		o, err := Parse("f.json", "", data)
		if err != nil {
			line(t, err)
			if valid && !strings.Contains(err.Error(), "given twice") {
				t.Errorf("a JSON object is refused: %v", err)
			}
			return
		}
		if !valid || len(all) != len(o.raw) {
			t.Fatalf("%d of %d keys read, valid %v", len(o.raw), len(all), valid)
		}
		for key := range all {
			for _, read := range []func(o *Object){
				func(o *Object) {
					if v := o.Int(key, -5, -4, 4); v < -5 || v > 4 {
						t.Errorf("integer %d", v)
					}
				},
				func(o *Object) {
					if v := o.Float(key, 0); !Finite(v) {
						t.Errorf("number %v", v)
					}
				},
				func(o *Object) {
					for _, v := range o.Floats(key) {
						if !Finite(v) {
							t.Errorf("number %v", v)
						}
					}
				},
				func(o *Object) { o.Seed(key) },
				func(o *Object) { o.String(key, "") },
				func(o *Object) { o.Bool(key, false) },
				func(o *Object) { o.Child(key) },
			} {
				o, err := Parse("f.json", "", data)
				if err != nil {
					t.Fatal(err)
				}
				o.Need(key)
				read(o)
				if err := o.Close(); err != nil {
					line(t, err)
				} else if len(all) > 1 {
					t.Errorf("%d keys were not read, and nobody says so", len(all)-1)
				}
			}
		}
	})
}
