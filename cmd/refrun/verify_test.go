package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerifyAll: a file that cannot be read does not keep the others from being
// verified, and the hashes beside a .npy file are taken for the file.
func TestVerifyAll(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	config := `{"operator":{"num_layers":1,"base_channels":2,"grid_size":4},"rollout":{"num_timesteps":3,` +
		`"num_realizations":1},"weights_seed":1}`
	for name, text := range map[string]string{"c.json": config, "other.safetensors": "nothing of ours"} {
		if err := os.WriteFile(at(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.npy", "b.npz"} {
		if r := refrun(t, "run", "--config", at("c.json"), "--x0", "white:1", "-o", at(name)); r.code != exitOK {
			t.Fatal(r.stderr)
		}
	}
	r := refrun(t, "verify", at("other.safetensors"), at("a.npy"), at("a.npy.sha256"), at("missing.h5"), at("b.npz"))
	if r.code != exitUsage || strings.Count(r.stdout, ": ok, 3 states") != 3 ||
		strings.Count(r.stdout, "NOT VERIFIED") != 2 || !strings.Contains(r.stderr, "other.safetensors") {
		t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	r = refrun(t, "verify", "--json", at("missing.h5"), at("b.npz"))
	files := r.decode(t)["files"].([]any)
	if r.code != exitUsage || len(files) != 2 || files[0].(map[string]any)["error"] == nil ||
		files[1].(map[string]any)["ok"] != true {
		t.Errorf("exit code %d, %s", r.code, r.stdout)
	}
	if r = refrun(t, "verify", at("missing.h5")); r.code != exitUsage || r.stdout != "" {
		t.Errorf("one file: exit code %d, stdout %q", r.code, r.stdout)
	}
}
