package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/files"
)

// repeated returns f(0)f(1)... up to about n bytes.
func repeated(n int, f func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(f(i))
	}
	return b.String()
}

// utf16le is a text in UTF-16 with its mark.
func utf16le(s string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

// hostileConfigs: texts that are no configuration, as long as one may be where that is
// what hurts a parser.
func hostileConfigs(t *testing.T) (all []hostile) {
	t.Helper()
	const n = files.MostConfig - 100
	times := strings.Repeat
	laughs := "a0: &a0 x\n" + repeated(n/2, func(i int) string {
		return fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, times(fmt.Sprintf("*a%d,", i), 9))
	})
	for i, text := range []string{
		"", "\n", "---\n", "---\n---\n", "...", "null", "1", "x", "[]", "{}", "[1, 2]", "- a\n- b", "\xef\xbb\xbf",
		"\x00", "\xff\xfe\x00", "\xfe\xff",
		utf16le(clitest.GoodConfig) + "\xd8", times("\xff", 1000), times("\x00", n), "a: \"\\ud800\"", "a: \x1b[2J", "\r",
		"\r\n\r\n", "a\r\nb: 1",
		times("[", n), times("{", n), times("{a: ", n/4), times("[", n/2) + times("]", n/2), times("- ", n/2),
		times("? ", n/2), times("[a: ", n/4), times("[,", n/2),
		times("[", 9000) + times("]", 9000), times("{a: ", 9000) + "1" + times("}", 9000), times("[", 40) + times("]", 40),
		"operator: " + times("[", 40) + times("]", 40), "operator: " + times("{a: ", 40) + "1" + times("}", 40),
		repeated(n, func(i int) string { return times(" ", i) + "a:\n" }),
		"a: [" + times("1,", n/2-10) + "1]", "a: [" + times("{},", n/3-10) + "{}]", "a:\n" + times("- 1\n", n/4),
		times("- []\n", n/5), times("{}\n", n/3),
		repeated(n, func(i int) string { return fmt.Sprintf("k%d: 1\n", i) }),
		"{" + repeated(n, func(i int) string { return fmt.Sprintf("k%d: 1,", i) }) + "}",
		clitest.GoodConfig + repeated(n/2, func(i int) string { return fmt.Sprintf("k%d: {a: 1, a: 2}\n", i) }),
		times("- &a 1\n", n/7), "a: &a 1\nb: [" + times("*a,", n/3-10) + "*a]", laughs, "a: &a [*a]", "a: *b",
		"a: &a {<<: *a}", "<<: {a: 1}", "a: &" + times("a", n), "a: *" + times("a", n),
		"a: &a {b: 1}\n" + times("? {<<: *a}\n: 1\n", n/16), "? [a]\n: b", "? {a: b}\n: c",
		"a: !!binary aGk=", "a: !!binary " + times("=", n), "a: !!float x", "a: " + times("!", n), "!!set {a}",
		"!!omap [a: 1]", "a: !<x> 1",
		"a: " + times("x", n), "a: \"" + times("\\x41", n/4-10) + "\"", "a: >\n" + times("  x\n", n/4),
		"a: '" + times("\n", n), times("'", n), times("\"", n), "a: |\n" + times("\n", n),
		times("# x\n", n/4), times("#", n), "a:\n" + times("- # x\n", n/6), times("a:\n # x\n\n", n/9),
		times(":", n), times(": ", n/2),
		times("%\n", n/2), times("%YAML 1.1\n", n/10), "%YAML 9.9\n---\na: 1", times("%TAG !a! b\n", n/11),
		repeated(n, func(i int) string { return fmt.Sprintf("%%TAG !a%d! b\n", i) }) + "---\na: 1",
		times("---\n", n/4), times(" ", n), times("\t", n), times("a ", n/2), times("a: |\n", n/5),
		times("\u2028", n/3), times("@", n), times("`", n),
		"{" + times("a: 1, ", n/6) + "}", "{" + times("? ", n/2) + "}", clitest.GoodConfig + "---\n" + clitest.GoodConfig,
		clitest.GoodConfig + "\x00", clitest.GoodConfig + "rollout: 1\n", clitest.GoodConfig + "operator: {}\n",
		"a: " + times("9", n), "a: 1e" + times("9", n), "a: 0x" + times("f", n), "a: " + times("9", n) + ".5",
		"a: " + times("1:", n/2), "a: 2026-01-01T00:00:00." + times("9", n),
		times("x", files.MostConfig+1), times("a: 1\n", files.MostConfig), "{\"operator\": " + times("[", 9999),
		"{\"operator\"",
		"{\"operator\": \"", "{\"a\": 1,}", "{'a': 1}", "{a: 1} {b: 2}", "a: b: c", "a:\n\t- b", "a: [", "a: {",
		"a: \"", "a: '", "a: |x",
	} {
		name := put(t, fmt.Sprintf("config%d.yaml", i), []byte(text))
		v := []string{"run", "plan", "bench", "check", "study"}[i%5]
		all = append(all, hostile{"configurations", []string{v, "--config", name}})
	}
	return all
}

// hostileFields: a configuration whose fields cannot be, or ask for what no machine has.
func hostileFields(t *testing.T) (all []hostile) {
	t.Helper()
	const operator, rollout = "num_layers: 1, base_channels: 2, grid_size: 4, noise_type: gaussian, noise_scale: 0.01",
		"num_timesteps: 3, num_realizations: 2"
	// make writes a configuration in which these fields, separated by commas, replace
	// others of a section.
	make := func(class, section, fields string) string {
		set := func(s string) string {
			kept := strings.Split(fields, ", ")
			for _, f := range strings.Split(s, ", ") {
				name, _, _ := strings.Cut(f, ":")
				if !strings.Contains(", "+fields, ", "+name+":") {
					kept = append(kept, f)
				}
			}
			return strings.Join(kept, ", ")
		}
		o, r := operator, rollout
		if section == "operator" {
			o = set(o)
		} else {
			r = set(r)
		}
		name := put(t, fmt.Sprintf("field%d.yaml", len(all)),
			[]byte("operator: {"+o+"}\nrollout: {"+r+"}\nweights_seed: 1\n"))
		all = append(all, hostile{class, []string{"run", "--config", name, "--x0", "zeros"}})
		return name
	}
	wrong := []string{
		"-1", "1e400", ".nan", ".inf", "-.inf", "NaN", "1.5", "x", "[1]", "{a: 1}", "true", "99999999999999999999",
		strings.Repeat("9", 10_000), "0x10", "1_0", "010", "\"\\u001b[2J\"", "2026-01-01", "!!int null",
	}
	for _, f := range []string{"num_layers", "base_channels", "grid_size", "input_channels", "kernel_size"} {
		for _, v := range append(wrong, "2147483647", "9223372036854775807") {
			make("values", "operator", f+": "+v)
		}
	}
	for _, f := range []string{"num_timesteps", "num_realizations", "engine_batch"} {
		for _, v := range append(wrong, "2147483648", "9223372036854775807") {
			make("values", "rollout", f+": "+v)
		}
	}
	for _, v := range []string{"activation", "normalization", "noise_type", "nodes", "outputs"} {
		for _, w := range []string{"1", "[[]]", "{}", "x", "\"\\u202e\"", "\"" + strings.Repeat("x", 100_000) + "\""} {
			make("values", "operator", v+": "+w)
		}
	}
	for _, v := range []string{"policy_type", "precision", "autocast", "clamp_range", "alpha", "dt", "base_seed"} {
		for _, w := range []string{
			".nan", ".inf", "[1]", "{}", "\"\\u202e\"", "\"" + strings.Repeat("x", 100_000) + "\"", "1e400",
		} {
			make("values", "rollout", v+": "+w)
		}
	}
	for _, k := range [][2]string{
		{"rollout", "num_timesteps: 2147483647"}, {"rollout", "num_timesteps: 16777217"},
		{"rollout", "num_realizations: 2147483647"}, {"rollout", "num_realizations: 1048577"},
		{"operator", "grid_size: 65536"}, {"operator", "base_channels: 65536"},
		{"operator", "input_channels: 65536, output_channels: 65536, grid_size: 65536"},
		{"operator", "base_channels: 4096, num_layers: 1024"}, {"operator", "num_layers: 1025"},
		{"operator", "kernel_size: 255, base_channels: 4096"}, {"operator", "input_channels: 2"},
	} {
		name := make("asks for too much", k[0], k[1])
		all = append(all, hostile{
			"asks for too much", []string{"study", "--config", name, "--x0", "zeros", "--steps", "99999999"},
		}, hostile{"asks for too much",
			[]string{"run", "--config", name, "--x0", "zeros", "--steps", "2147483647", "-o", "much.h5"}})
	}
	return all
}

// hostileCases: folders whose case.json is no JSON object of a case.
func hostileCases(t *testing.T) (all []hostile) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(clitest.Template, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	var good map[string]any
	if err := json.Unmarshal(data, &good); err != nil {
		t.Fatal(err)
	}
	const n = 1 << 18
	text := string(data)
	times := strings.Repeat
	for i, s := range []string{
		"", " ", "null", "1", "\"x\"", "[]", "{}", "{", "{}}", "{} {}", text + text, text + "\x00", text[:len(text)/2],
		text[1:], "\xef\xbb\xbf" + text, utf16le(text),
		times("[", n), times("{\"a\":", n/5), "{\"operator\":" + times("[", n), "{\"operator\":" +
			times("[", 5000) + times("]", 5000) + "}", times("{", n), times("\"", n), "\"" + times("\\", n),
		"{\"a\":" + times("9", n) + "}", "{\"a\":1e" + times("9", n) + "}", "{\"" + times("k", n) + "\":1}",
		"{\"operator\":\"" + times("x", n) + "\"}", "{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":-Infinity}",
		"{\"a\":01}", "{\"a\":+1}", "{\"a\":.5}", "{\"a\":1.}", "{\"a\":0x1}",
		"{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":1}", "{\"\xff\":1}",
		"{\"\x1b[2J\":1}", "{\"operator\":{\"\\u001b[2J\":1},\"rollout\":{}}", "{\"a\":\"\x00\"}", "{'a':1}",
		"{a:1}", "{\"a\":1,}", "{\"a\" 1}", "{\"a\":}", "// x\n{}", "{\"a\":\"\\ud800\"", "{\"a\":\"\\x41\"}",
		times("\x00", n), times(" ", n),
		"{" + repeated(n, func(i int) string { return fmt.Sprintf("\"k%d\":1,", i) }) + "\"k\":1}", "{\"operator\":{" +
			repeated(n, func(i int) string { return fmt.Sprintf("\"k%d\":1,", i) }) + "\"k\":1},\"rollout\":{}}",
		"{\"operator\":[" + times("{},", n/3) + "{}],\"rollout\":{}}", "{\"version\":2,\"operator\":{},\"rollout\":{}}",
		"{\"operator\":{},\"rollout\":{}}",
		"{\"operator\":{\"nodes\":[" + times("{},", n/3) + "{}]},\"rollout\":{\"num_timesteps\":1,\"num_realizations\":1}}",
		"{\"operator\":{\"nodes\":" + times("[", 500) + times("]", 500) +
			"},\"rollout\":{\"num_timesteps\":1,\"num_realizations\":1}}",
		strings.Replace(text, "\"rollout\"", "\"rollout\": 1, \"rollout\"", 1), strings.Replace(text, "{",
			"{\"torch\": 1, ", 1), strings.Replace(text, "{", "{\"noise\": \"\\u001b[2J\", ", 1),
	} {
		dir := fmt.Sprintf("case%d", i)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		put(t, dir+"/case.json", []byte(s))
		v := []string{"run", "check", "probe", "study"}[i%4]
		args := []string{v, "--case", dir}
		if v == "probe" {
			args = append(args, "-o", "probes")
		}
		all = append(all, hostile{"case.json", args})
	}
	return all
}
