package selftest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"runtime"

	"github.com/refrun/refrun/internal/judges/randgraph"
)

//go:embed graphs.json.gz
var graphsJSON string

// KnownGraphs returns the recorded digest of graphs of every registered operation, by its
// name.
func KnownGraphs() map[string]string {
	return unpack(graphsJSON)
}

// graphsOfMode is how many graphs of an operation are evaluated in each mode.
const graphsOfMode = 2

// graphs returns the digest of random graphs of one operation in all modes, evaluated with
// one number of threads after the other.
func graphs(name string, threads []int) string {
	h := sha256.New()
	for k, m := range randgraph.Modes() {
		for i := range graphsOfMode {
			seed := k*graphsOfMode + i
			runtime.GOMAXPROCS(threads[seed%len(threads)])
			h.Write(randgraph.Of(name, uint64(seed)).Answer(m))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// runGraphs adds the graphs of every registered operation to a report.
func (r *Report) runGraphs(threads []int) {
	known, all := KnownGraphs(), sha256.New()
	for _, name := range randgraph.Names() {
		d := graphs(name, threads)
		if d != known[name] {
			r.Failed = append(r.Failed, fmt.Sprintf("graphs of %s: digest %.16s, known %.16s", name, d, known[name]))
		}
		delete(known, name)
		fmt.Fprintf(all, "%s %s\n", name, d)
		r.Operations++
	}
	for name := range known {
		r.Failed = append(r.Failed, "graphs of "+name+": known, and not computed by this build")
	}
	r.OperationsDigest = hex.EncodeToString(all.Sum(nil))
}
