package dataset

import (
	"strings"
	"testing"
)

// FuzzParse holds that a specification is read or refused in one line that names the file,
// and that what is read has a first unit.
func FuzzParse(f *testing.F) {
	f.Add([]byte(own))
	f.Add([]byte(temporal))
	f.Add([]byte(`{"operators":2,"operator":{"nodes":[{"op":"conv","kernel_size":1,` +
		`"out_channels":3}],"input_channels":3,"grid_size":4},"rollout":{"num_timesteps":2,"num_realizations":1},` +
		`"space":{"operator.nodes.0.kernel_size":{"choice":[1,3]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("f", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			return
		}
		if s.points.Method == "latin" && s.Operators > 100 {
			return // all of them are ordered before there is one
		}
		u, err := s.Units("f")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.At(0); err != nil && (!strings.HasPrefix(err.Error(), "f: ") || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("%q", err)
		}
	})
}
