package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
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
		if r := refrun(t, "run", "--config", at("c.json"), "--x0", "white:1", "-o", at(name)); r.Code != cli.ExitOK {
			t.Fatal(r.Stderr)
		}
	}
	r := refrun(t, "verify", at("other.safetensors"), at("a.npy"), at("a.npy.sha256"), at("missing.h5"), at("b.npz"))
	if r.Code != cli.ExitUsage || strings.Count(r.Stdout, ": ok, 3 states") != 3 ||
		strings.Count(r.Stdout, "NOT VERIFIED") != 2 || !strings.Contains(r.Stderr, "other.safetensors") {
		t.Errorf("exit code %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
	}
	r = refrun(t, "verify", "--json", at("missing.h5"), at("b.npz"))
	files := r.Decode(t)["files"].([]any)
	if r.Code != cli.ExitUsage || len(files) != 2 || files[0].(map[string]any)["error"] == nil ||
		files[1].(map[string]any)["ok"] != true {
		t.Errorf("exit code %d, %s", r.Code, r.Stdout)
	}
	if r = refrun(t, "verify", at("missing.h5")); r.Code != cli.ExitUsage || r.Stdout != "" {
		t.Errorf("one file: exit code %d, stdout %q", r.Code, r.Stdout)
	}
}
