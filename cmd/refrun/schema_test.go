package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/oracle/report"
	"github.com/refrun/refrun/rollout"
)

// schema is a JSON schema of docs/schema: of its language, what these schemas use.
type schema map[string]any

func readSchema(t *testing.T, name string) schema {
	t.Helper()
	return schema(anObject(t, readFile(t, "../../docs/schema/"+name)))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func anObject(t *testing.T, data []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // seeds are 64 bits wide
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// wrong returns the places where v is not what the rule s says. A keyword of the language that it does
// not know is wrong too, so that none is without effect.
func (root schema) wrong(at string, s map[string]any, v any) (out []string) {
	fail := func(format string, args ...any) { out = append(out, at+": "+fmt.Sprintf(format, args...)) }
	number, isNumber := 0.0, false
	if n, ok := v.(json.Number); ok {
		number, _ = n.Float64()
		isNumber = true
	}
	members, isObject := v.(map[string]any)
	elements, isArray := v.([]any)
	text, isText := v.(string)
	bound := func(w any) float64 { x, _ := w.(json.Number).Float64(); return x }
	for keyword, w := range s {
		switch keyword {
		case "$schema", "$defs", "title", "description":
		case "$ref":
			out = append(out, root.wrong(at,
				root["$defs"].(map[string]any)[strings.TrimPrefix(w.(string), "#/$defs/")].(map[string]any), v)...)
		case "anyOf":
			var all []string
			for _, one := range w.([]any) {
				problems := root.wrong(at, one.(map[string]any), v)
				if all = append(all, problems...); len(problems) == 0 {
					all = nil
					break
				}
			}
			out = append(out, all...)
		case "type":
			kinds, ok := w.([]any)
			if !ok {
				kinds = []any{w}
			}
			kind := map[bool]string{
				v == nil: "null", isObject: "object", isArray: "array", isText: "string", isNumber: "number",
			}[true]
			if _, ok := v.(bool); ok {
				kind = "boolean"
			}
			whole := isNumber && number == math.Trunc(number)
			if !slices.Contains(kinds, any(kind)) && !(whole && slices.Contains(kinds, any("integer"))) {
				fail("%v: want %v", v, kinds)
			}
		case "enum":
			if !slices.Contains(w.([]any), v) {
				fail("%v: want one of %v", v, w)
			}
		case "const":
			if v != w {
				fail("%v: want %v", v, w)
			}
		case "minimum":
			if isNumber && number < bound(w) {
				fail("%v: want %v or more", v, w)
			}
		case "maximum":
			if isNumber && number > bound(w) {
				fail("%v: want %v or less", v, w)
			}
		case "exclusiveMinimum":
			if isNumber && number <= bound(w) {
				fail("%v: want more than %v", v, w)
			}
		case "exclusiveMaximum":
			if isNumber && number >= bound(w) {
				fail("%v: want less than %v", v, w)
			}
		case "minItems":
			if isArray && float64(len(elements)) < bound(w) {
				fail("%d elements: want %v or more", len(elements), w)
			}
		case "maxItems":
			if isArray && float64(len(elements)) > bound(w) {
				fail("%d elements: want %v or fewer", len(elements), w)
			}
		case "pattern":
			if isText && !regexp.MustCompile(w.(string)).MatchString(text) {
				fail("%q: want %s", text, w)
			}
		case "required":
			for _, key := range w.([]any) {
				if _, ok := members[key.(string)]; isObject && !ok {
					fail("%s is missing", key)
				}
			}
		case "items":
			for i, e := range elements {
				out = append(out, root.wrong(fmt.Sprintf("%s[%d]", at, i), w.(map[string]any), e)...)
			}
		case "properties":
			for key, rule := range w.(map[string]any) {
				if e, ok := members[key]; ok {
					out = append(out, root.wrong(at+"."+key, rule.(map[string]any), e)...)
				}
			}
		case "additionalProperties":
			known, _ := s["properties"].(map[string]any)
			for key, e := range members {
				rule, isRule := w.(map[string]any)
				if _, ok := known[key]; !ok && isRule {
					out = append(out, root.wrong(at+"."+key, rule, e)...)
				} else if !ok && w == false {
					fail("%s: unknown key", key)
				}
			}
		default:
			fail("the schema's %s: not known to this test", keyword)
		}
	}
	return out
}

// TestCaseSchema: docs/schema/case.schema.json takes every case of this repository, refuses what
// the program refuses, and has the keys that the program has.
func TestCaseSchema(t *testing.T) {
	s, cases := readSchema(t, "case.schema.json"), 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "case.json" {
			cases++
			for _, problem := range s.wrong("", s, anObject(t, readFile(t, path))) {
				t.Errorf("%s%s", path, problem)
			}
		}
		return err
	})
	if err != nil || cases < 30 {
		t.Fatalf("%d cases, %v", cases, err)
	}
	good := readFile(t, "../../testdata/rollouts/seed_small/case.json")
	for _, c := range []struct {
		place, key string
		value      any
	}{
		{"operator", "num_layers", 1025}, {"operator", "kernel_size", 256}, {"operator", "activation", "glu"},
		{"operator", "nodes_", 1}, {"operator", "base_channels", "8"},
		{"operator", "operator_type", "mlp"}, {"operator", "dropout_rate", 2}, {"operator", "noise_type", "pink"},
		{"operator", "grid_size", 1.5},
		{"rollout", "alpha", 1}, {"rollout", "alpha", -0.1}, {"rollout", "dt", 0}, {"rollout", "precision", "fp16"},
		{"rollout", "autocast", "tpu"}, {"rollout", "clamp_range", []any{1}},
		{"rollout", "num_timesteps", 0}, {"rollout", "policy_type", "mixed"}, {"rollout", "state", "float64"},
		{"rollout", "timesteps", 3}, {"rollout", "engine_batch", 0},
		{"", "version", 2}, {"", "weights_seed", "1"}, {"", "noise", "known"},
	} {
		v := anObject(t, good)
		to := v
		if c.place != "" {
			to = v[c.place].(map[string]any)
		}
		to[c.key] = c.value
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rollout.ParseCase("case.json", text); err == nil {
			t.Errorf("%s.%s %v: the program takes it", c.place, c.key, c.value)
		}
		if len(s.wrong("", s, anObject(t, text))) == 0 {
			t.Errorf("%s.%s %v: the schema takes it", c.place, c.key, c.value)
		}
	}
	// A key that the program does not know is refused, and a null one is as good as none.
	defs := s["$defs"].(map[string]any)
	for kind, place := range map[string]string{
		"cnn": "operator", "u_afno": "operator", "fno": "operator", "rollout": "rollout",
	} {
		for key := range defs[kind].(map[string]any)["properties"].(map[string]any) {
			v := anObject(t, good)
			of := v[place].(map[string]any)
			if kind == "u_afno" || kind == "fno" {
				of = map[string]any{"operator_type": kind}
				v["operator"] = of
			}
			if key != "operator_type" {
				of[key] = nil
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rollout.ParseCase("case.json", text); err != nil && strings.Contains(err.Error(), "unknown key") {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	formats := string(readFile(t, "../../docs/FORMATS.md"))
	for kind, heading := range map[string]string{
		"cnn": "### operator\n", "u_afno": "### operator of operator_type u_afno\n",
		"fno": "### operator of operator_type fno\n", "rollout": "### rollout\n", "torch": "### torch\n",
	} {
		_, table, _ := strings.Cut(formats, heading)
		table, _, _ = strings.Cut(table, "\n#")
		known, rows := defs[kind].(map[string]any)["properties"].(map[string]any), 0
		for line := range strings.Lines(table) {
			if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `") {
				for _, key := range strings.Split(first, ", ") {
					rows++
					if _, ok := known[strings.Trim(key, "`")]; !ok {
						t.Errorf("docs/FORMATS.md has %s of %s, and the schema does not", key, kind)
					}
				}
			}
		}
		if rows < 5 {
			t.Errorf("%s: %d keys in docs/FORMATS.md", kind, rows)
		}
	}
}

// TestReportSchema: docs/schema/report.schema.json has every key that a report has, and takes what check prints.
func TestReportSchema(t *testing.T) {
	s := readSchema(t, "report.schema.json")
	has := func(of reflect.Type, rule map[string]any) {
		for i := range of.NumField() {
			f := of.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || key == "-" || key == "" {
				continue
			}
			if _, ok := rule["properties"].(map[string]any)[key]; !ok {
				t.Errorf("%s.%s: %s is not in the schema", of.Name(), f.Name, key)
			}
		}
	}
	properties := s["properties"].(map[string]any)
	items := func(key string) map[string]any {
		return properties[key].(map[string]any)["items"].(map[string]any)
	}
	has(reflect.TypeFor[report.Report](), s)
	has(reflect.TypeFor[report.LayerRow](), items("layers"))
	has(reflect.TypeFor[report.Finding](), items("findings"))
	has(reflect.TypeFor[report.Element](), items("worst"))
	has(reflect.TypeFor[report.Blind](), items("blind"))
	has(reflect.TypeFor[report.NoiseReport](), properties["noise"].(map[string]any))

	right := clitest.NewFolder(t).Write()
	wrong := clitest.NewFolder(t)
	wrong.Set("rollout.policy_type", "residual")
	for _, dir := range []string{right, wrong.Write()} {
		r := refrun(t, "check", dir, "--json")
		if r.Code == cli.ExitUsage {
			t.Fatal(r.Stderr)
		}
		v := anObject(t, []byte(r.Stdout))
		for _, problem := range s.wrong("", s, v) {
			t.Errorf("%v%s", v["verdict"], problem)
		}
		for key, bad := range map[string]any{"verdict": "PASS", "shape": []any{json.Number("1")}, "first_step": "1",
			"more": true, "one_step": map[string]any{}} {
			was, there := v[key]
			if v[key] = bad; len(s.wrong("", s, v)) == 0 {
				t.Errorf("%s: %v: the schema takes it", key, bad)
			}
			if v[key] = was; !there {
				delete(v, key)
			}
		}
	}
}
