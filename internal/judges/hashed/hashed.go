// Package hashed remembers what judges have said of the outputs of a test: a hash for each
// operation. Every instruction set and every build has the same bits, so that one run is
// judged, number by number, and all others have its hashes. Only tests import it.
//
// The environment variable REFRUN_JUDGE says what is judged:
//
//	        the outputs of the first instruction set, with those of the others compared
//	all     those of each, to find the number that differs
//	none    nothing: only hashes are made, and compared with the recorded ones
//	record  as without it, and testdata/judged.json of the package has the hashes
//
// Where a judge takes seconds, without it only every eighth output is judged (Sees): the recorded hash says of all of
// them that they are those that the judge has seen when it was recorded.
//
// The hashes of the package's file are those of the number of elements that the tests have
// without flags; for other numbers they are logged (go test -v).
package hashed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/internal/asm"
)

var how = os.Getenv("REFRUN_JUDGE")

// known is what was judged in this process, by test and operation.
var known = map[string]string{}

// Outputs are those of a test of some operations, in the order in which they come.
type Outputs struct {
	Judge    bool // whether the judge is to see them
	elements int
	of       map[string]*stream
}

// Sees reports whether the judge sees output i. Tests of several operations give each another part, so that the judge
// sees other places of each.
func (o *Outputs) Sees(i, part int) bool {
	return o.Judge && (how == "all" || how == "record" || (i+part)%8 == 0)
}

type stream struct {
	sum hash.Hash
	n   int
	buf []byte
}

// Add adds outputs of an operation.
func (o *Outputs) Add(operation string, outputs ...float64) {
	s := o.of[operation]
	if s == nil {
		s = &stream{sum: sha256.New()}
		o.of[operation] = s
	}
	s.n += len(outputs)
	for _, v := range outputs {
		b := math.Float64bits(v)
		s.buf = append(s.buf, byte(b), byte(b>>8), byte(b>>16), byte(b>>24), byte(b>>32), byte(b>>40),
			byte(b>>48), byte(b>>56))
	}
	if len(s.buf) > 1<<15 {
		s.sum.Write(s.buf)
		s.buf = s.buf[:0]
	}
}

// Least returns the operation of those named that has the fewest outputs, the first of equals:
// what a trial may take, so that all come to about as many.
func (o *Outputs) Least(operations ...string) (at, outputs int) {
	n := func(i int) int {
		if s := o.of[operations[i]]; s != nil {
			return s.n
		}
		return 0
	}
	for i := range operations {
		if n(i) < n(at) {
			at = i
		}
	}
	return at, n(at)
}

// New returns the outputs of a test that sees so many elements, on the instruction set that
// runs: for packages whose tests run once on each, or that have no kernels.
func New(t *testing.T, elements int) *Outputs {
	o := &Outputs{
		Judge: how == "all" || how != "none" && known[t.Name()] == "", elements: elements, of: map[string]*stream{},
	}
	t.Cleanup(func() { o.compare(t) })
	return o
}

// OnEach runs a test on each instruction set of this CPU.
func OnEach(t *testing.T, elements int, test func(o *Outputs)) {
	isa := asm.ISA()
	defer func() {
		if t.Failed() {
			t.Log("with --isa", asm.ISA())
		}
		asm.Use(isa)
	}()
	for i, isa := range asm.ISAs() {
		if err := asm.Use(isa); err != nil {
			t.Fatal(err)
		}
		o := &Outputs{Judge: how == "all" || how != "none" && i == 0, elements: elements, of: map[string]*stream{}}
		test(o)
		o.compare(t)
	}
}

const file = "testdata/judged.json"

// record is what the file has of an operation.
type record struct {
	Elements int
	SHA256   string
}

// compare holds the hashes to those of this process, and of the file.
func (o *Outputs) compare(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	recorded := map[string]record{}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range o.log() {
		t.Log(line)
	}
	for _, fault := range o.faults(t.Name(), recorded) {
		t.Error(fault)
	}
	if how == "record" {
		write(t, recorded)
	}
}

// sums are the hashes of the outputs so far, by operation.
func (o *Outputs) sums() map[string]string {
	all := map[string]string{}
	for operation, s := range o.of {
		s.sum.Write(s.buf)
		s.buf = s.buf[:0]
		all[operation] = hex.EncodeToString(s.sum.Sum(nil))[:32]
	}
	return all
}

// log returns a line for each operation of a test.
func (o *Outputs) log() (lines []string) {
	said := "judged"
	if !o.Judge {
		said = "not judged"
	}
	sums := o.sums()
	for _, operation := range slices.Sorted(maps.Keys(sums)) {
		lines = append(lines, fmt.Sprintf("%-10s %-24s %9d outputs %s %s",
			asm.ISA(), operation, o.of[operation].n, sums[operation], said))
	}
	return lines
}

// faults returns what differs from what is known in this process, to which it adds, and from
// what is recorded, to which it adds if it is told to record.
func (o *Outputs) faults(test string, recorded map[string]record) (faults []string) {
	known[test] = "seen"
	for operation, sum := range o.sums() {
		key := test + " " + operation
		if was, ok := known[key]; ok && was != sum {
			faults = append(faults, fmt.Sprintf("%s on %s: outputs differ from those of the first instruction set: "+
				"REFRUN_JUDGE=all finds which", operation, asm.ISA()))
		}
		known[key] = sum
		if how == "record" {
			recorded[key] = record{o.elements, sum}
		}
		switch of, ok := recorded[key]; {
		case !ok:
			faults = append(faults,
				fmt.Sprintf("%s is not in %s: REFRUN_JUDGE=record go test -run '^%s$'", operation, file, test))
		case of.Elements == o.elements && of.SHA256 != sum:
			faults = append(faults,
				fmt.Sprintf("%s on %s: outputs have the hash %s, recorded is %s", operation, asm.ISA(), sum, of.SHA256))
		}
	}
	return faults
}

// write writes the file.
func write(t *testing.T, recorded map[string]record) {
	t.Helper()
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(recorded)) {
		lines = append(lines,
			fmt.Sprintf("\t%q: {\"elements\": %d, \"sha256\": %q}", key, recorded[key].Elements, recorded[key].SHA256))
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{\n"+strings.Join(lines, ",\n")+"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
