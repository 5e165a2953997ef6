package molecule

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/molecule"
	"github.com/refrun/refrun/safetensors"
)

// moleculeData is the folder of what package molecule is tested with.
var moleculeData = filepath.Join(clitest.Root, "molecule", "testdata")

// atomsOf are ten atoms, as many as the student takes.
const tenAtoms = `10
acetone
O 0 0 1.405
C 0 0 0.1797
C 0 1.2855 -0.6161
C 0 -1.2855 -0.6161
H 0.05 2.1341 0.0667
H 0 -2.1341 0.0667
H -0.8815 1.3311 -1.2643
H 0.8815 1.3311 -1.2643
H 0.8815 -1.3311 -1.2643
H -0.8815 -1.3311 -1.2643
`

// moleculeFiles writes a molecule, a configuration, and the molecule as PyTorch has evaluated it.
func moleculeFiles(t *testing.T) (xyz, config, weights, device string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f, err := safetensors.Open(filepath.Join(moleculeData, "ch4.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []float64 {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	energy := 0.0
	for _, e := range read("atom_energies_f32") {
		energy += e
	}
	var b strings.Builder
	x, forces := read("positions"), read("forces_f32")
	text := func(v float64) string { return " " + strconv.FormatFloat(v, 'g', -1, 64) }
	b.WriteString("5\nProperties=species:S:1:pos:R:3:forces:R:3 energy=" + text(energy)[1:] + "\n")
	for i, s := range []string{"C", "H", "H", "H", "H"} {
		b.WriteString(s)
		for _, v := range append(append([]float64{}, x[3*i:3*i+3]...), forces[3*i:3*i+3]...) {
			b.WriteString(text(v))
		}
		b.WriteString("\n")
	}
	return write("ten.xyz", tenAtoms), write("painn.json", `{"model": "painn", "cutoff": 5}`),
		filepath.Join(moleculeData, "weights.safetensors"), write("device.xyz", b.String())
}

// TestMolecule: energies and forces of a network, whose symmetries hold, and a device that is right.
func TestMolecule(t *testing.T) {
	t.Parallel()
	_, config, weights, device := moleculeFiles(t)
	out := filepath.Join(t.TempDir(), "out.xyz")
	args := []string{"molecule", device, "--model", config, "--weights", weights, "--claim", "float32"}
	r := refrun(t, append(args, "--json", "-o", out)...)
	if r.Code != 0 {
		t.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	clitest.Has(t, "molecule", r.Decode(t), object{"file": word, "network": word, "mode": word, "contract": word,
		"output": word, "seconds": number, "isa": word, "threads": number, "molecules": []any{
			object{"formula": word, "atoms": number, "energy": number, "largest_force": number},
		}, "symmetries": []any{
			object{"name": word, "energy": number, "forces": number, "limit": number, "holds": truth},
		}, "check": object{"verdict": word, "claim": word, "of": []any{object{
			"quantity": word, "verdict": word, "rms": number, "rms_limit": number, "rms_size": number, "worst": number,
			"worst_at": []any{number}, "beyond_limit": number,
		}}}})
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	all, err := molecule.ReadXYZ(out, data)
	if err != nil || len(all) != 1 || all[0].Energy == nil || len(all[0].Forces) != 15 {
		t.Fatalf("%v: %s", err, data)
	}
	recorded := filepath.Join(moleculeData, "ch4.safetensors")
	if r := refrun(t, append(args, "--pairs", recorded)...); r.Code != 0 || strings.Contains(r.Stdout, "permutation") ||
		!strings.Contains(r.Stdout, "forces   PASS") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	text, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed.xyz")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), "energy=", "energy=1", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	args[1] = changed
	if r := refrun(t, args...); r.Code != 1 || !strings.Contains(r.Stdout, "FAIL: by no fault") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestStudent: the three defects of a published export, by one command.
func TestStudent(t *testing.T) {
	ten, _, _, _ := moleculeFiles(t)
	r := refrun(t, "molecule", ten, "--onnx", filepath.Join(moleculeData, "student.onnx"))
	if r.Code != 1 {
		t.Errorf("exit code %d, want 1: %s", r.Code, r.Stderr)
	}
	for _, says := range []string{"FAIL permutation", "FAIL rotation", "ok translation",
		"not tested: the network takes one molecule at a time", "4 nodes put several numbers to one place",
		"the export has lost a scatter's reduction", `it has no kernel for EyeLike "/EyeLike" of bool`} {
		if !strings.Contains(clitest.Unfolded(r.Stdout), says) {
			t.Errorf("does not say %q:\n%s", says, r.Stdout)
		}
	}
}

// TestMoleculeRefusals: what does not go together is refused in one line.
func TestMoleculeRefusals(t *testing.T) {
	ten, config, weights, device := moleculeFiles(t)
	student := filepath.Join(moleculeData, "student.onnx")
	for _, k := range []struct {
		args []string
		says string
	}{
		{[]string{ten}, "--model and --weights: want both, or --onnx"},
		{[]string{ten, "--onnx", student, "--model", config},
			"--onnx, --graph: a network of its own: want it without --model and --weights"},
		{[]string{ten, "--model", config, "--weights", weights, "--cutoff", "5"},
			"--cutoff: says nothing of a configuration, which has its own: want it with --onnx"},
		{[]string{ten, "--onnx", student, "--cutoff", "5"},
			student + ": --cutoff, --pairs: the network takes no pairs, and finds its own: want neither"},
		{[]string{ten, "--model", config, "--weights", weights, "--claim", "float32"},
			weights + ": molecule 0: no energy and no forces: want those of the device"},
		{[]string{ten, "--model", config, "--weights", weights, "--precision", "float8"}, ""},
		{[]string{weights, "--model", config, "--weights", weights}, ""},
		{[]string{device, "--model", weights, "--weights", weights}, ""},
		{[]string{device, "--model", config, "--weights", device}, ""},
		{[]string{device, "--model", config, "--weights", weights, "--pairs", weights}, ""},
	} {
		r := refrun(t, append([]string{"molecule"}, k.args...)...)
		if r.Code != 2 || r.Stdout != "" || strings.Count(r.Stderr, "\n") != 1 ||
			k.says != "" && r.Stderr != "refrun molecule: "+k.says+"\n" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q, want %q", k.args, r.Code, r.Stdout, r.Stderr, k.says)
		}
	}
}

func moleculePairs() []clitest.Pair {
	report := func(change func(r *moleculeReport)) string {
		r := &moleculeReport{Molecules: []moleculeRow{{}}}
		change(r)
		return moleculeText(r)
	}
	none := report(func(*moleculeReport) {})
	small := 1e-16
	checked := func(verdict, fault string) string {
		return report(func(r *moleculeReport) {
			r.Check = &molecule.Report{Verdict: verdict, Fault: fault, Of: []molecule.Verdict{{Quantity: "forces"}}}
		})
	}
	missing := report(func(r *moleculeReport) {
		r.Check = &molecule.Report{Verdict: molecule.NoPower, Unjudged: []string{"forces of molecule 2"}}
	})
	lost := report(func(r *moleculeReport) { r.Overwritten, r.Permuted = []string{"a"}, &small })
	return []clitest.Pair{
		{Says: "which --json and -o have", Is: report(func(r *moleculeReport) { r.Molecules = make([]moleculeRow, 30) }),
			IsNot: none},
		{Says: "NaN or infinite", Is: none,
			IsNot: report(func(r *moleculeReport) { r.Molecules[0] = moleculeRow{Energy: &small, Force: &small} })},
		{Says: "symmetry of the first", Is: report(func(r *moleculeReport) { r.Symmetries = []molecule.Symmetry{{}} }),
			IsNot: none},
		{Says: "not tested: why", Is: report(func(r *moleculeReport) { r.Symmetries = []molecule.Symmetry{{Open: "why"}} }),
			IsNot: none},
		{Says: "put several numbers to one place, where the last one stays: a.", Is: lost, IsNot: none},
		{Says: "With all of them added up, atoms in another order change the energy by 1.00e-16 of it only", Is: lost,
			IsNot: report(func(r *moleculeReport) { r.Overwritten = []string{"a"} })},
		{Says: "the export has lost a scatter's reduction", Is: lost, IsNot: none},
		{Says: "ONNX Runtime does not load this file on a CPU: it has no kernel for EyeLike",
			Is: report(func(r *moleculeReport) { r.NoKernel = []string{"EyeLike"} }), IsNot: none},
		{Says: "the device, which claims", Is: checked(molecule.Pass, ""), IsNot: none},
		{Says: ", of molecule 0, atom 0", Is: checked(molecule.Pass, ""), IsNot: none},
		{Says: "FAIL: why", Is: checked(molecule.Fail, "why"), IsNot: checked(molecule.Pass, "")},
		{Says: "by no fault that is known here", Is: checked(molecule.Fail, ""), IsNot: checked(molecule.Fail, "why")},
		{Says: "not judged, since the file has none: forces of molecule 2", Is: missing, IsNot: checked(molecule.NoPower,
			"")},
		{Says: "not all that the network returns was judged", Is: missing, IsNot: checked(molecule.NoPower, "")},
		{Says: "right devices of this precision differ by as much as the numbers are", Is: checked(molecule.NoPower, ""),
			IsNot: checked(molecule.Pass, "")},
	}
}
