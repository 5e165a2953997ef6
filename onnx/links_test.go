package onnx_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/onnx"
)

// TestOutsideThroughLinks: a model's numbers come from its folder. Links within it are followed,
// and those of a cache that has model and numbers beside each other elsewhere; any other link is
// refused, whatever it leads to and by however many steps.
func TestOutsideThroughLinks(t *testing.T) {
	of := func(location string) []byte {
		entry := message{}.text(1, "location").text(2, location)
		w := message{}.num(1, 2).num(2, 1).text(8, "w").in(13, entry).num(14, 1)
		return modelOf(18, graphIs(all(nodeOf("Identity", names("w"), names("y"))), all(w), nil, all(valueOf("y", 1))))
	}
	const refused = "is a link out of the model's folder: want a file in it"
	for _, c := range []struct {
		name, location string
		links          [][2]string // what it leads to, and the link, in the folder of all
		model          string      // "" for models/m.onnx
		want           string      // part of the error, "" for none
	}{
		{"a file", "w.bin", nil, "", ""},
		{"a file below", "below/w.bin", nil, "", ""},
		{"a link in the folder", "l.bin", [][2]string{{"w.bin", "models/l.bin"}}, "", ""},
		{"a link in the folder, as a whole path", "l.bin", [][2]string{{"/models/w.bin", "models/l.bin"}}, "", ""},
		{"a link up from below", "below/l.bin", [][2]string{{"../w.bin", "models/below/l.bin"}}, "", ""},
		{"a link to a folder in the folder", "l/w.bin", [][2]string{{"below", "models/l"}}, "", ""},
		{"a link to a file outside", "l.bin", [][2]string{{"../outside/w.bin", "models/l.bin"}}, "", refused},
		{"as a whole path", "l.bin", [][2]string{{"/outside/w.bin", "models/l.bin"}}, "", refused},
		{"by two links", "l.bin", [][2]string{{"k.bin", "models/l.bin"}, {"../outside/w.bin", "models/k.bin"}}, "", refused},
		{"a link to a folder outside", "l/w.bin", [][2]string{{"../outside", "models/l"}}, "", refused},
		{"a link to the folder of all", "l/outside/w.bin", [][2]string{{"..", "models/l"}}, "", refused},
		{"a link to a folder whose name begins alike", "l.bin",
			[][2]string{{"../models2/w.bin", "models/l.bin"}}, "", refused},
		{"a link to a device", "l.bin", [][2]string{{os.DevNull, "models/l.bin"}}, "", refused},
		{"a link to nothing", "l.bin", [][2]string{{"none", "models/l.bin"}}, "", "no such file"},
		{"a link to itself", "l.bin", [][2]string{{"l.bin", "models/l.bin"}}, "", "too many links"},
		{"a folder", "below", nil, "", "a directory"},
		{"up", "../outside/w.bin", nil, "", "want the name of a file in the model's folder"},
		{"up and down", "below/../../outside/w.bin", nil, "", "want the name of a file in the model's folder"},
		{"a folder of models that is a link", "w.bin", [][2]string{{"models", "l"}}, "l/m.onnx", ""},
		{"a cache", "w.bin", [][2]string{{"../models/m.onnx", "cache/m.onnx"}, {"../models/w.bin", "cache/w.bin"}},
			"cache/m.onnx", ""},
		{"a cache, and a link elsewhere", "w.bin", [][2]string{
			{"../models/m.onnx", "cache/m.onnx"}, {"../outside/w.bin", "cache/w.bin"},
		}, "cache/m.onnx", refused},
	} {
		root := t.TempDir()
		var errs []error
		for _, dir := range []string{"models/below", "models2", "outside", "cache"} {
			errs = append(errs, os.MkdirAll(filepath.Join(root, dir), 0o777))
			if dir != "cache" {
				errs = append(errs, os.WriteFile(filepath.Join(root, dir, "w.bin"), make([]byte, 8), 0o666))
			}
		}
		errs = append(errs, os.WriteFile(filepath.Join(root, "models/w.bin"), make([]byte, 8), 0o666),
			os.WriteFile(filepath.Join(root, "models/m.onnx"), of(c.location), 0o666))
		for _, l := range c.links {
			if strings.HasPrefix(l[0], "/") && l[0] != os.DevNull {
				l[0] = filepath.Join(root, l[0])
			}
			errs = append(errs, os.Symlink(l[0], filepath.Join(root, l[1])))
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if c.model == "" {
			c.model = "models/m.onnx"
		}
		t.Chdir(root)
		for _, path := range []string{filepath.Join(root, c.model), c.model} {
			m, err := onnx.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = m.Graph(nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.want)
			}
			m.Close()
		}
	}
}
