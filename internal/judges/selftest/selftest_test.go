package selftest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/judges/randgraph"
)

var update = flag.Bool("update", false, "record the digests of this build in known.json")

// TestKnown computes every known answer; with -update it records them.
func TestKnown(t *testing.T) {
	if *update {
		known := map[string]string{}
		for _, c := range Cases() {
			d, err := c.digest(0)
			if err != nil {
				t.Fatal(err)
			}
			known[c.Name] = d
		}
		record(t, "known.json", known)
		known = map[string]string{}
		for _, name := range randgraph.Names() {
			known[name] = graphs(name, []int{1, 2, 7})
		}
		record(t, "graphs.json", known)
		return
	}
	r, err := Run([]int{1, 2, 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failed {
		t.Error(f)
	}
	t.Logf("%d cases, %d runs, %d operations", r.Cases, r.Runs, r.Operations)
	if r.Operations < 150 || r.Operations != len(KnownGraphs()) {
		t.Errorf("graphs of %d operations: want all %d known", r.Operations, len(KnownGraphs()))
	}
	if r.Cases != len(Known()) || r.Cases < 200 || r.Runs <= 3*r.Cases {
		t.Errorf("%d cases, %d runs: want all %d known, each with three numbers of threads", r.Cases, r.Runs, len(Known()))
	}
}

func record(t *testing.T, file string, known map[string]string) {
	t.Helper()
	b, err := json.MarshalIndent(known, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil || z.Close() != nil {
		t.Fatal("the digests cannot be packed")
	}
	for name, data := range map[string][]byte{file: b, file + ".gz": packed.Bytes()} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPacked: the digests that people read are those of the program.
func TestPacked(t *testing.T) {
	for file, packed := range map[string]map[string]string{"known.json": Known(), "graphs.json": KnownGraphs()} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var known map[string]string
		if err := json.Unmarshal(data, &known); err != nil || len(known) == 0 || !maps.Equal(known, packed) {
			t.Errorf("%s differs from what the program has (%v)", file, err)
		}
	}
}

// TestDistinct: cases that differ in what they compute have other digests, so
// that none is the digest of nothing.
func TestDistinct(t *testing.T) {
	by := map[string]string{}
	for name, d := range Known() {
		if other, ok := by[d]; ok && !sameArithmetic(name, other) {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		by[d] = name
	}
}

// sameArithmetic reports cases that must agree: resampling by copy keeps what
// the bits say, a correlated field makes half and float32 outputs float32,
// releases whose rules agree for an operator agree, and a small rollout need
// not meet a tie between TF32 numbers.
func sameArithmetic(a, b string) bool {
	cut := func(s string) string {
		s = strings.TrimSuffix(s, ":1.13")
		if strings.HasPrefix(s, rolloutPrefix) {
			s = strings.TrimSuffix(s, ":away")
		}
		if strings.HasPrefix(s, "noise-correlated/") {
			s = strings.TrimSuffix(s, "-to-float32")
		}
		return s
	}
	return cut(a) == cut(b)
}
