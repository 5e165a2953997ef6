// Package selftest computes known answers: digests of every operation of Spinlock's networks
// in every number format, of rollouts in every mode, and of random graphs of every
// registered operation in every mode. They depend on nothing but the
// numerical contract, so a build whose digests differ on some machine breaks it
// there. Inputs come from the counter stream, or are the graphs' own; no files are read.
package selftest

import (
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// The program has the digests packed, which makes it 20 KB smaller; known.json and graphs.json
// beside them are for reading.
//
//go:embed known.json.gz
var knownJSON string

// Known returns the recorded digest of every case by its name. They are part of
// the contract: another digest is another contract.
func Known() map[string]string {
	return unpack(knownJSON)
}

// unpack returns the digests of a packed JSON file.
func unpack(file string) (known map[string]string) {
	r, err := gzip.NewReader(strings.NewReader(file))
	if err == nil {
		err = json.NewDecoder(r).Decode(&known)
	}
	if err != nil {
		panic("selftest: known digests: " + err.Error())
	}
	return known
}

// Case is one known answer.
type Case struct {
	Name string
	// digest computes it; batch groups the realizations of a rollout, 0 for all
	// at once.
	digest func(batch int) (string, error)
}

// Cases returns all known answers: of operations, of rollouts, and of molecules.
func Cases() []Case { return slices.Concat(operations(), rollouts(), molecules()) }

// Report is the outcome of a run.
type Report struct {
	OK     bool     `json:"ok"`
	Digest string   `json:"digest"` // over the names and digests of all cases
	Cases  int      `json:"cases"`
	Runs   int      `json:"runs"` // cases times threads and groupings
	Failed []string `json:"failed,omitempty"`

	Operations       int    `json:"operations"`        // that graphs were evaluated of, in all modes
	OperationsDigest string `json:"operations_digest"` // over their names and digests
}

// Run computes every case with each number of threads, and rollouts also in
// several groupings, and compares all of it with the recorded digests. What
// differs is listed by case, threads and grouping; errors are of cases that
// could not be computed at all.
func Run(threads []int) (*Report, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	known, seen := Known(), map[string]string{}
	r := &Report{}
	all := sha256.New()
	for _, n := range threads {
		runtime.GOMAXPROCS(n)
		for _, c := range Cases() {
			groupings := []int{0}
			if c.rollout() {
				groupings = []int{0, 1, 2}
			}
			for _, batch := range groupings {
				d, err := c.digest(batch)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", c.Name, err)
				}
				r.Runs++
				if d != known[c.Name] {
					r.Failed = append(r.Failed, fmt.Sprintf("%s, %d threads, batch %d: digest %.16s, known %.16s",
						c.Name, n, batch, d, known[c.Name]))
				}
				if _, again := seen[c.Name]; !again {
					seen[c.Name] = d
					fmt.Fprintf(all, "%s %s\n", c.Name, d)
				}
			}
		}
	}
	for name := range known {
		if _, ok := seen[name]; !ok {
			r.Failed = append(r.Failed, name+": known, and not computed by this build")
		}
	}
	r.runGraphs(threads)
	slices.Sort(r.Failed)
	r.Cases, r.Digest, r.OK = len(seen), hex.EncodeToString(all.Sum(nil)), len(r.Failed) == 0
	return r, nil
}

// hashed returns the digest of numbers in a format.
func hashed(f fp16.Format, v []float64) string {
	sum := sha256.Sum256(f.Append(nil, v))
	return hex.EncodeToString(sum[:])
}
