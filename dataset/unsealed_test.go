package dataset

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnsealed: datasets that were made when records had the SHA-256 of the files, and files the
// SHA-256 of each state, verify, name whatever bit is changed, and can be finished.
func TestUnsealed(t *testing.T) {
	for _, kind := range []string{"safetensors", "h5"} {
		dir := filepath.Join(t.TempDir(), kind)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "unsealed", kind))); err != nil {
			t.Fatal(err)
		}
		p, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Verify(context.Background(), Check{Read: true, Recompute: 2})
		if err != nil || len(out.Faults) > 0 || out.Recomputed != 2 || out.Manifest == "" {
			t.Fatalf("%s: %+v, %v", kind, out, err)
		}
		path := p.place(1)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 64 {
			at := rand.IntN(len(whole))
			if err := os.WriteFile(path, flipped(whole, at), 0o666); err != nil {
				t.Fatal(err)
			}
			out, err := p.Verify(context.Background(), Check{Read: true})
			if err != nil || len(out.Faults) != 1 || out.Faults[0].Unit != 1 ||
				!strings.Contains(out.Faults[0].What, "SHA-256") {
				t.Errorf("%s: byte %d: %v, %+v", kind, at, err, out)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		shard(t, p, Shard{0, 1}, 1)
		if out, err := p.Verify(context.Background(), Check{Read: true}); err != nil || len(out.Faults) != 1 ||
			!strings.Contains(out.Faults[0].What, "its line is not that of its record") {
			t.Errorf("%s: finished, with the old manifest: %+v, %v", kind, out, err)
		}
		if _, err := p.WriteManifest(); err != nil {
			t.Fatal(err)
		}
		if out, err := p.Verify(context.Background(), Check{Read: true}); err != nil || len(out.Faults) > 0 {
			t.Errorf("%s: finished: %+v, %v", kind, out, err)
		}
		const want = "381f27f4a90fa8253d31ce8765e9e829ba99332ba0999d738e2c2733a49cf367" // as it was merged then
		if got, err := p.Merge(filepath.Join(t.TempDir(), "all.safetensors"), 4, nil); err != nil ||
			kind == "safetensors" && got != want {
			t.Errorf("%s: merged %s, %v; want %s", kind, got, err, want)
		}
	}
}
