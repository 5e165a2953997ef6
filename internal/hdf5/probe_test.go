package hdf5

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

func npy(p string) []float64 {
	b, _ := os.ReadFile(p)
	h := int(binary.LittleEndian.Uint16(b[8:])) + 10
	v := make([]float64, (len(b)-h)/8)
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[h+8*i:]))
	}
	return v
}
func TestProbe(t *testing.T) {
	for _, g := range strings.Fields(os.Getenv("PROBE")) {
		files, _ := filepath.Glob(g)
		sum := map[string][]string{}
		for _, p := range files {
			for _, s := range []bool{false, true} {
				res := func() string {
					f, err := Open(p)
					if err != nil {
						return err.Error()
					}
					defer f.Close()
					d, err := f.Dataset("trajectories")
					if err != nil {
						return err.Error()
					}
					want := npy(p + ".npy")
					var got []float64
					if s {
						if d.Shape[0] != 1 {
							return "skip"
						}
						got, err = d.At(0, 2, 6)
						want = want[len(want)-128:]
					} else {
						got, err = d.At()
					}
					if err != nil {
						return err.Error()
					}
					if len(got) != len(want) {
						return "LEN"
					}
					for i := range got {
						if got[i] != want[i] && want[i] == want[i] {
							return "WRONG"
						}
					}
					if v, err := f.Attr("/metadata", "policy"); strings.Contains(p, "/f/") && (err != nil || v != "convex") {
						return fmt.Sprint("attr ", v, err)
					}
					return "ok"
				}()
				res = strings.ReplaceAll(res, p, "")
				sum[res] = append(sum[res], strings.TrimSuffix(filepath.Base(p), ".h5"))
			}
		}
		var k []string
		for r := range sum {
			k = append(k, r)
		}
		sort.Strings(k)
		for _, r := range k {
			l := sum[r]
			fmt.Println(len(l), r, l[:min(8, len(l))])
		}
	}
}

func TestDump(t *testing.T) {
	dir := os.Getenv("DUMP")
	if dir == "" {
		return
	}
	for name, s := range samples {
		n := strings.ReplaceAll(name, " ", "_")
		f, _ := os.Create(filepath.Join(dir, n+".h5"))
		s().write(t, f)
		f.Close()
		man, _ := os.Create(filepath.Join(dir, n+".txt"))
		for _, d := range s().specs {
			fmt.Fprintf(man, "D\t%s\t%s\t%v\t%v\t%d\t%v\t", d.Path, d.Type, d.Shape, d.Chunk, d.Gzip, d.Shuffle)
			for _, v := range elements(d) {
				fmt.Fprintf(man, "%016x ", math.Float64bits(v))
			}
			fmt.Fprintln(man)
		}
		for _, a := range s().attrs {
			b, _ := json.Marshal(a.value)
			fmt.Fprintf(man, "A\t%s\t%s\t%T\t%s\n", a.path, a.name, a.value, b)
		}
		man.Close()
	}
}
